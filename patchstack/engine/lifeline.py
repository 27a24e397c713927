"""The lifeline: what makes a job end when patchstack ends, be it by kill -9 or by a lost connection.

A job's first process holds one end of a pipe (on the host) or of its container's stdin (in a container), and
patchstack the other. Nothing is ever sent. When patchstack or the connection dies, the kernel or the engine closes it,
and the end of file is the signal. Nothing outside has to notice, and nothing the job does can disarm it in a
container: process 1 waits for whatever watches the lifeline, so that killing the watcher ends the container as well.
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
"""For `/bin/sh -c`, as leader of a session of its own, the lifeline as stdin: becomes the job (its arguments), and
leaves a watcher in its session, no child of the job's, that kills the others of it. One pass over /proc is not enough:
what is forked during it is not in it."""

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
"""For `/bin/sh -c` as process 1 of a container, the lifeline as stdin. Arguments: a nonce, the directory to run in,
the names of variables to drop, the job. Ends, and the container with it, when the job is over or the lifeline is cut,
and says how it went in a trailer.

The job's exit code travels through a file whose first block is taken beforehand: a job may fill /tmp. Only builtins of
the shell are used: the image need not hold anything else. As with all that a shell runs in the background, the job
starts with SIGINT and SIGQUIT ignored.
"""


class Why(StrEnum):
    """Why a job has no exit code: the lifeline was cut, the program or its directory does not exist, or the job
    killed all that its user may kill, which takes what would have told the code with it."""

    LOST = "lost"
    ABSENT = "absent"
    NOWHERE = "nowhere"
    KILLED = "killed"


_TRAILER = re.compile(rb"\x1epatchstack [0-9a-f]+ (lost|absent|nowhere|killed|\d+) +(\d+)\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What process 1 said last: the job's exit code, or why there is none; `oom_kills` is how many processes of the
    container the kernel killed for want of memory."""

    code: int | Why
    oom_kills: int


class Trailer:
    """Takes the trailer off the end of a container's output. Output without one is not whole."""

    def __init__(self, nonce: str) -> None:
        self._marker = f"\x1epatchstack {nonce} ".encode()
        self._longest = len(self._marker) + 32
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return the output that can be given out by now: all but what may be (the beginning of) the trailer."""
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
        """Whether the trailer is here: nothing comes after it."""
        return _TRAILER.fullmatch(self._held) is not None

    def end(self) -> tuple[bytes, Ended | None]:
        """After the last of the output: what was held and is not a trailer, and what the trailer says."""
        held, self._held = self._held, b""
        if (found := _TRAILER.fullmatch(held)) is None:
            return held, None
        told = found[1].decode()
        return b"", Ended(code=int(told) if told.isdecimal() else Why(told), oom_kills=int(found[2]))
