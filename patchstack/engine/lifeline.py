"""End a job when patchstack ends, even after kill -9 or a lost connection.

The lifeline is a channel from patchstack to the job. It closes when patchstack ends. On the host, the lifeline is a
pipe. In a container, it is the container's stdin. A watcher process of the job reads one end, and patchstack holds the
other end and never writes. When patchstack or the connection dies, the kernel or the engine closes the lifeline, and
the watcher reads the end of file. No other process is needed. In a container, the job cannot disable the lifeline:
process 1 waits for the watcher, so the container also ends if the job kills the watcher.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

HOST = """
exec 3<&0 </dev/null
( (
    exec >/dev/null 2>&1
    read -r me _ </proc/self/stat
    read -r _ <&3
    passes=0 found=1
    while [ $found = 1 ] && [ $passes -lt 100 ]
    do
        passes=$((passes + 1)) found=0
        for stat in /proc/[0-9]*/stat
        do
            pid=${stat#/proc/}; pid=${pid%/stat}
            read -r line <$stat && set -- ${line##*) } && [ "$4" = $$ ] && [ $pid != $me ] && [ "$1" != Z ] &&
                found=1 && kill -KILL $pid
        done
    done
) & )
exec 3<&-
unset PWD OLDPWD SHLVL
exec "$@"
"""
"""The script for `/bin/sh -c` on the host. It runs as the leader of a new session, with the lifeline as stdin.

It starts a watcher, then replaces itself with the job (its arguments). The watcher is in the same session, but is not a
child of the job. The watcher kills the other processes of the session when the lifeline is cut. It makes several passes
over /proc, because one pass misses processes that are forked during the pass."""

CONTAINER = """
nonce=$1; where=$2; drop=$3; shift 3
echo lost >/tmp/.patchstack
exec 3<&0 4<>/tmp/.patchstack 5</tmp/.patchstack </dev/null 6>&1 2>/dev/null
cd "$where" || where=
unset $drop
( read -r _ <&3 ) 4>&- 5<&- 6>&- >/dev/null & watcher=$!
if [ -z "$where" ]
then printf 'nowhere\\n' >&4; kill -KILL $watcher
elif command -v "$1" >/dev/null
then ( exec "$@" 2>&6 3<&- 4>&- 5<&- 6>&- & wait $!; printf '%-6s\\n' $? >&4; kill -KILL $watcher ) &
else printf 'absent\\n' >&4; kill -KILL $watcher
fi
wait $watcher
ended=$?
read -r code <&5
[ "$code" = lost ] && [ $ended -gt 128 ] && code=killed
killed=0
for counters in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control
do
    [ -r $counters ] && while read -r name count
    do [ "$name" = oom_kill ] && killed=$count
    done <$counters
done
printf '\\036patchstack %s %s %s\\n' "$nonce" "$code" "$killed"
"""
"""The script for `/bin/sh -c` as process 1 of a container, with the lifeline as stdin.

Its arguments are a nonce, the working directory, the names of the variables to unset, and the job's command. When the
job is over or the lifeline is cut, the script prints the outcome in a trailer. Then the script and the container end.

The exit code of the job goes through a file whose first block is allocated in advance, because a job may fill /tmp. The
script uses only builtins of the shell, so the image needs no other program. The job starts with SIGINT and SIGQUIT
ignored, like every background process of a shell.
"""


class Why(StrEnum):
    """The reason why a job has no exit code.

    - `LOST`: the lifeline was cut.
    - `ABSENT`: the program does not exist.
    - `NOWHERE`: the working directory does not exist.
    - `KILLED`: the job killed all processes of its user, including the process that reports the exit code.
    """

    LOST = "lost"
    ABSENT = "absent"
    NOWHERE = "nowhere"
    KILLED = "killed"


_TRAILER = re.compile(rb"\x1epatchstack [0-9a-f]+ (lost|absent|nowhere|killed|\d+) +(\d+)\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The last message of process 1.

    `code` is the job's exit code, or the reason why it has none. `oom_kills` is the number of processes in the
    container that the kernel killed because memory was full.
    """

    code: int | Why
    oom_kills: int


class Trailer:
    """Removes the trailer, which is the last message of process 1, from a container's output.

    Output without a trailer is incomplete.
    """

    def __init__(self, nonce: str) -> None:
        self._marker = f"\x1epatchstack {nonce} ".encode()
        self._longest = len(self._marker) + 32
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Add output. Return the part that can be delivered now: everything before a possible trailer."""
        data = self._held + data
        cut = data.rfind(self._marker)
        if cut < 0 or len(data) - cut > self._longest:
            cut = len(data)
            begin = data.rfind(b"\x1e", max(0, len(data) - len(self._marker)))
            if begin >= 0 and self._marker.startswith(data[begin:]):
                cut = begin
        self._held = data[cut:]
        return data[:cut]

    @property
    def whole(self) -> bool:
        """Whether the complete trailer has arrived. No output follows a trailer."""
        return _TRAILER.fullmatch(self._held) is not None

    def end(self) -> tuple[bytes, Ended | None]:
        """Finish at the end of the output. Return empty bytes and the content of the trailer.

        If the output has no trailer, return the bytes that were held back, and None.
        """
        held, self._held = self._held, b""
        if (found := _TRAILER.fullmatch(held)) is None:
            return held, None
        told = found[1].decode()
        return b"", Ended(code=int(told) if told.isdecimal() else Why(told), oom_kills=int(found[2]))
