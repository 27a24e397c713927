"""A server under test, started, asked and stopped inside the job that runs it.

The job may have no network but loopback, and its image neither curl nor python: bash and coreutils do all of it. The
server is told to take any free port; which one is read from its own sockets, so that another program's server, on this
host or left over from an earlier run, is never asked by mistake. Answers are stored as they came over the wire and are
taken apart here, where an answer that broke off can be told from a whole one.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from patchstack.canonical import one_line
from patchstack.observe.protocol import Reply, Request

LOOPBACK = ("--host", "127.0.0.1", "--port", "0")
"""Given to the server after its own arguments: with port 0 the kernel picks a free one."""

STDOUT, STDERR = "stdout", "stderr"
_ENDED = "ended"

# $1 directory of the exchange, $2 number of requests, $3 tenths of a second to be ready in, $4 seconds for an answer,
# $5 longest file in KiB, then the server's command line. Time is counted in pauses: the clock may jump. The number of
# each request is printed before it is sent.
SCRIPT = r"""
set -u
dir=$1 count=$2 tenths=$3 each=$4 longest=$5
shift 5
ulimit -c 0
ulimit -f "$longest"
"$@" </dev/null >"$dir/stdout" 2>"$dir/stderr" &
server=$!
port=

alive() { kill -0 "$server" 2>/dev/null; }

listens() {
    local inodes lines line
    local -a fields
    inodes=" $(readlink /proc/"$server"/fd/* 2>/dev/null | tr -dc '0-9\n' | tr '\n' ' ')"
    # In one piece: `read` seeks back after each line, and the kernel then writes the whole table again.
    mapfile -t lines 2>/dev/null </proc/"$server"/net/tcp || return 1
    for line in ${lines[@]+"${lines[@]}"}; do
        [[ $line == *" 0A "* ]] || continue
        fields=($line)
        if [[ ${fields[3]} == 0A && $inodes == *" ${fields[9]} "* ]]; then
            port=$((16#${fields[1]##*:}))
            return 0
        fi
    done
    return 1
}

ask() { cat "$dir/request-$1" >&3 && timeout --foreground "$2" cat <&3 >"$dir/reply-$1"; }

healthy() {
    local line=
    ask 0 5 3<>"/dev/tcp/127.0.0.1/$port" || return 1
    read -r line <"$dir/reply-0"
    [[ $line == "HTTP/1."?" 200"* ]]
} 2>/dev/null

finish() {
    local i
    kill -TERM "$server" 2>/dev/null
    for ((i = 0; i < 300; i++)); do alive || break; sleep 0.1; done
    if alive; then kill -KILL "$server"; echo stubborn >"$dir/ended"; fi
    wait "$server"
    echo "$?" >>"$dir/ended"
    exit "$1"
} 2>/dev/null

for ((turn = 0; ; turn++)); do
    alive || finish 90
    ((turn < tenths)) || finish 91
    if listens && healthy; then break; fi
    sleep 0.1
done
for ((n = 1; n <= count; n++)); do
    echo "asking $n"
    if ! ask "$n" "$each" 3<>"/dev/tcp/127.0.0.1/$port"; then
        sleep 0.2
        if alive; then finish 92; else finish 93; fi
    fi
    alive || finish 93
done
finish 0
"""


class Service(StrEnum):
    """How serving went."""

    ANSWERED = "every request was sent, and the server was there to the end"
    ENDED_EARLY = "the server ended before it was ready"
    NEVER_READY = "the server was not ready in time"
    BROKE = "a request could not be sent, or got no end of an answer in time"
    ENDED = "the server ended while it was asked"
    LOST = "what runs the server was ended itself"


_SERVICES = {
    0: Service.ANSWERED,
    90: Service.ENDED_EARLY,
    91: Service.NEVER_READY,
    92: Service.BROKE,
    93: Service.ENDED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What came of it. `code` is the server's own exit code (128 + signal): 0 too where it ended by the signal that was
    sent to stop it, None if it is not known. `overflowed`: it printed or answered more than allowed. `replies` has
    one for each request, of status 0 if there is none."""

    service: Service
    code: int | None
    overflowed: bool
    replies: tuple[Reply, ...]
    stdout: bytes
    stderr: bytes


def server_command(
    server: Sequence[str], *, directory: str, count: int, ready: float, each: float, output: int
) -> tuple[str, ...]:
    """The command line of a job that runs a server and asks it.

    `server` is the server's command line without where it listens. `directory` (as the job sees it, and there before)
    holds `request_files`, and gets the files `brought_files` names. `ready` and `each` are the seconds until it must be
    ready, and for each answer; `output` is the most bytes in one file. The exit code is one of ours: see `served`.
    """
    numbers = (str(count), str(max(1, round(ready * 10))), f"{each:g}", str(_longest(output)))
    return ("bash", "-c", SCRIPT, "serve", directory, *numbers, *server, *LOOPBACK)


def asked_now(line: bytes) -> int | None:
    """Return the number of the request that the job says it sends now; None if the line is none of its own."""
    word, _, number = line.partition(b" ")
    return int(number) if word == b"asking" and number.isdigit() and len(number) < 10 else None


def request_files(requests: Sequence[Request]) -> dict[str, bytes]:
    """The files by which requests get to the job: whole HTTP/1.1 requests. `request-0` asks for its health."""
    asked = (Request(path="/health"), *requests)
    return {f"request-{number}": _wire(request) for number, request in enumerate(asked)}


def brought_files(count: int) -> tuple[str, ...]:
    """The files that a run with so many requests may leave, for `served`."""
    return (STDOUT, STDERR, _ENDED, *(f"reply-{number}" for number in range(1, count + 1)))


def served(code: int, files: Mapping[str, bytes], *, count: int, output: int) -> Served:
    """What came of serving, from the job's exit code and the files it left; missing ones are not answers. `count` and
    `output` are those of `server_command`."""
    ended = files.get(_ENDED, b"").split()
    own = int(ended[-1]) if ended and ended[-1].isdigit() else None
    if own == 143 or (own == 137 and ended[0] == b"stubborn"):
        own = 0
    return Served(
        service=_SERVICES.get(code, Service.LOST),
        code=own,
        overflowed=any(len(content) >= _longest(output) << 10 for content in files.values()),
        replies=tuple(read_reply(files.get(f"reply-{number}", b"")) for number in range(1, count + 1)),
        stdout=files.get(STDOUT, b""),
        stderr=files.get(STDERR, b""),
    )


def read_reply(raw: bytes) -> Reply:
    """An answer as it came over the wire (RFC 9112): `Content-Length` or chunked. Status 0 for one that broke off, that
    is no HTTP, or that does not say how long it is, so that a whole one could not be told from a part."""
    import http.client

    response = http.client.HTTPResponse(_Wire(raw))  # type: ignore[arg-type]  # of a socket it only wants makefile
    try:
        response.begin()
        if not response.chunked and response.length is None:
            return Reply(status=0, body=b"")
        return Reply(status=response.status, body=response.read())
    except (http.client.HTTPException, OSError, ValueError):
        return Reply(status=0, body=b"")


def _longest(output: int) -> int:
    """The most bytes in a file, in the KiB by which bash counts."""
    return max(1, output >> 10)


class _Wire:
    """Bytes that came, in the part of a socket."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self.raw)


def _wire(request: Request) -> bytes:
    """A request as it goes over the wire."""
    body = b"" if request.body is None else one_line(request.body).encode()
    head = [f"{'GET' if request.body is None else 'POST'} {request.path} HTTP/1.1", "Host: 127.0.0.1"]
    head += ["Connection: close", "Accept: application/json"]
    if request.body is not None:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, "", ""]).encode() + body
