"""Run small programs on the machine that has the GPU, and get their exit code and output.

The GPU may be in the local machine or in a remote one. The programs run directly on the local machine, or over ssh on
the remote one. They run in a container if the machine can be reached only through a Docker engine. In all three cases,
they are small POSIX sh scripts, and the same code reads their output.
"""

from __future__ import annotations

import contextlib
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from patchstack.causes import AmbiguousName, EngineRefused
from patchstack.engine.protocol import Engine, EngineUnavailable, Job, Limits, Volume
from patchstack.process import ProgramTimeout, clean_environment, run
from patchstack.tasks import task

Ask = Callable[[Sequence[str]], tuple[int, str]]
"""The type of functions that run a program on the machine.

They return the program's exit code, and its stdout and stderr as one text. They raise `MissingError` if the machine or
the program is missing or does not respond in time. They may be called from any thread.
"""

SECONDS = 90.0
_MOST = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The directory of a GPU's lock, on the machine with the GPU.

    `~/` is the user's home directory on that machine. If `if_there` is set, the directory is used only if it already
    contains an owner file.
    """

    path: str
    if_there: bool = False


PLACES = (Place(path="/tmp/patchstack-gpu.lock"), Place(path="~/gpu_bench_lock", if_there=True))  # noqa: S108  (to be found by all)
"""The directories of a GPU's lock.

The first is patchstack's own, which all users of a machine share. The second is used by hand-written benchmark scripts.
Its file `owner` contains `FREE released-by-NAME EPOCH` or the name of the owner.
"""
_IN_CONTAINERS = Volume(name="patchstack-gpu-lock", target="/lock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The way to run programs on the machine of an engine.

    `ask` runs a program there, `places` are the directories of the GPU's lock, and `how` describes the connection in
    words.
    """

    ask: Ask
    places: tuple[Place, ...]
    how: str


def here(*, env: Mapping[str, str] | None = None, seconds: float = SECONDS) -> Ask:
    """Return a function that runs programs on this machine.

    `env` is added to the cleaned environment. `seconds` is the time limit of a program.
    """

    def ask(argv: Sequence[str]) -> tuple[int, str]:
        finished = run(argv, env=clean_environment(env), timeout=seconds)
        return finished.code, _text(finished.stdout + finished.stderr)

    return ask


def over_ssh(url: str, *, seconds: float = SECONDS) -> Ask:
    """Return a function that runs programs on the machine of `ssh://[USER@]HOST[:PORT]`.

    The function calls the ssh program. Any login shell works, because the command line is sent to the stdin of /bin/sh.
    """
    from patchstack.engine.docker.ssh import arguments

    command = (*arguments(url)[:-1], "/bin/sh")

    def ask(argv: Sequence[str]) -> tuple[int, str]:
        line = f"exec {shlex.join(argv)} </dev/null 2>&1\n"
        finished = run(
            command, env=clean_environment(network=True), stdin=line.encode("utf-8", "surrogateescape"), timeout=seconds
        )
        if finished.code == 255 and finished.complaint:
            raise EngineUnavailable(
                f"cannot run programs on {url}: {finished.complaint.splitlines()[-1]}",
                hint="ssh to this host must work without a password",
            )
        return finished.code, _text(finished.stdout)

    return ask


def through(
    open_engine: Callable[[], Engine],
    *,
    image: str,
    gpus: bool = True,
    volumes: tuple[Volume, ...] = (),
    seconds: float = SECONDS,
) -> Ask:
    """Return a function that runs programs in a container of an engine.

    The programs see only a part of the machine. Every call opens its own engine with `open_engine`, because an engine
    must be used from one thread only.
    """

    def ask(argv: Sequence[str]) -> tuple[int, str]:
        said = bytearray()

        def take(block: bytes) -> None:
            if len(said) < _MOST:
                said.extend(block)

        job = Job(
            what="look at the machine",
            argv=tuple(argv),
            image=image,
            env={"LC_ALL": "C", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"},
            volumes=volumes,
            gpus=gpus,
            limits=Limits(seconds=seconds),
        )
        with contextlib.closing(open_engine()) as engine:
            outcome = engine.run(job, take)
        if outcome.ending.value == "timed-out":
            raise ProgramTimeout(f"{argv[0]} took longer than {seconds:g} s in a container and was stopped")
        return outcome.code, _text(bytes(said))

    return ask


@task("reaching the machine")
def reach(engine: Engine, open_another: Callable[[], Engine], *, image: str | None = None, gpus: bool = True) -> Reach:
    """Return the way to run programs on the machine of an engine.

    The programs run directly on this machine for a local engine, over ssh for an engine with an ssh URL, and otherwise
    in a container. `open_another` opens the same engine again. `image` and `gpus` apply only to a container.

    Raises `UsageError` if a container is needed and `image` is None.
    """
    about = engine.about()
    if about.local:
        return Reach(ask=here(), places=PLACES, how="this machine")
    if about.endpoint.startswith("ssh://"):
        return Reach(ask=over_ssh(about.endpoint), places=PLACES, how=about.endpoint)
    if image is None:
        raise AmbiguousName(
            f"the machine of {about.spec} is reachable only from a container, and no image was named",
            hint="name the image of the build with --image NAME, or use the engine ssh://USER@HOST",
        )
    return Reach(
        ask=through(open_another, image=image, gpus=gpus, volumes=(_IN_CONTAINERS,)),
        places=(Place(path=_IN_CONTAINERS.target),),
        how=f"a container of {about.endpoint}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The output and exit code of one part of a script."""

    code: int
    text: str

    @property
    def ok(self) -> bool:
        return self.code == 0


PART = """
nonce=$1; shift
part() {
    printf '\\n%s begin %s\\n' "$nonce" "$1"
    name=$1; shift
    "$@" 2>&1 </dev/null
    code=$?
    printf '\\n%s end %s %s\\n' "$nonce" "$name" $code
}
"""
"""The beginning of every script.

`part NAME COMMAND…` runs a command, and prints a mark before and after its output. The marks contain a random nonce, so
that no other output can be mistaken for them.
"""


def ask_parts(ask: Ask, script: str, *args: str) -> dict[str, Reply]:
    """Run a script that begins with `PART` and ends with `part done :`. Return its parts by name.

    Text that a login shell prints before or after the parts is ignored. Raises `MissingError` if the output is
    incomplete.
    """
    nonce = f"@@{secrets.token_hex(8)}"
    code, text = ask(("/bin/sh", "-c", script, "sh", nonce, *args))
    parts = read_parts(text, nonce)
    if "done" not in parts:
        told = " ".join(text.replace(nonce, "").split())[-300:]
        raise EngineRefused(f"the machine's answer is incomplete (exit code {code}){': ' if told else ''}{told}")
    return parts


def read_parts(text: str, nonce: str) -> dict[str, Reply]:
    """Return the parts in the output of a script that begins with `PART`. Incomplete parts are skipped."""
    found: dict[str, Reply] = {}
    for piece in text.split(f"\n{nonce} begin ")[1:]:
        name, _, rest = piece.partition("\n")
        body, mark, end = rest.rpartition(f"\n{nonce} end {name} ")
        code = end.split("\n", 1)[0]
        if mark and code.isdecimal():
            found[name] = Reply(code=int(code), text=body)
    return found


def _text(said: bytes) -> str:
    return said[:_MOST].decode("utf-8", "replace")
