"""How a machine is asked: a program and its arguments go there, its exit code and all it printed come back.

The machine that has the GPU may be this one, one behind ssh, or one of which only a Docker engine is known. What is
asked is the same everywhere (small POSIX sh scripts), and what is done with the answers never knows the way they came.
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
"""Runs a program on the machine: its exit code, and its stdout and stderr as one text. Raises `MissingError` if the
machine or the program does not exist, or did not answer in time. May be called from any thread."""

SECONDS = 90.0
_MOST = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a GPU's lock is, on the machine that has the GPU: a directory. `~/` is the home of the user there.
    `if_there`: it counts only where somebody already keeps an owner file in it."""

    path: str
    if_there: bool = False


PLACES = (Place(path="/tmp/patchstack-gpu.lock"), Place(path="~/gpu_bench_lock", if_there=True))  # noqa: S108  (to be found by all)
"""Ours, which every user of a machine meets in, and the one that benchmark scripts by hand agree on: a directory whose
file `owner` says `FREE released-by-NAME EPOCH`, or who has the GPU."""
_IN_CONTAINERS = Volume(name="patchstack-gpu-lock", target="/lock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How the machine of an engine is asked, and where its GPU's lock is. `how` says it in words."""

    ask: Ask
    places: tuple[Place, ...]
    how: str


def here(*, env: Mapping[str, str] | None = None, seconds: float = SECONDS) -> Ask:
    """Asks this machine. `env` is added to the cleaned environment."""

    def ask(argv: Sequence[str]) -> tuple[int, str]:
        finished = run(argv, env=clean_environment(env), timeout=seconds)
        return finished.code, _text(finished.stdout + finished.stderr)

    return ask


def over_ssh(url: str, *, seconds: float = SECONDS) -> Ask:
    """Asks the machine of `ssh://[USER@]HOST[:PORT]` with the ssh program. Any login shell will do: the command line
    travels on stdin, to a /bin/sh."""
    from patchstack.engine.docker.ssh import arguments

    command = (*arguments(url)[:-1], "/bin/sh")

    def ask(argv: Sequence[str]) -> tuple[int, str]:
        line = f"exec {shlex.join(argv)} </dev/null 2>&1\n"
        finished = run(
            command, env=clean_environment(network=True), stdin=line.encode("utf-8", "surrogateescape"), timeout=seconds
        )
        if finished.code == 255 and finished.complaint:
            raise EngineUnavailable(
                f"{url} cannot be asked: {finished.complaint.splitlines()[-1]}",
                hint="does ssh to that host work without a password?",
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
    """Asks from inside a container of an engine: what a container sees of its machine. Every question gets an engine of
    its own from `open_engine`, since an engine is used from one thread."""

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
            raise ProgramTimeout(f"{argv[0]} took over {seconds:g} s in a container and was stopped")
        return outcome.code, _text(bytes(said))

    return ask


@task("reaching the machine")
def reach(engine: Engine, open_another: Callable[[], Engine], *, image: str | None = None, gpus: bool = True) -> Reach:
    """Return how to ask the machine of an engine: directly where it is this one, with ssh where the engine is,
    else from inside a container. `open_another` opens the same engine once more.

    Raises `UsageError` if it takes a container and no image is named.
    """
    about = engine.about()
    if about.local:
        return Reach(ask=here(), places=PLACES, how="this machine")
    if about.endpoint.startswith("ssh://"):
        return Reach(ask=over_ssh(about.endpoint), places=PLACES, how=about.endpoint)
    if image is None:
        raise AmbiguousName(
            f"the machine of {about.spec} can be asked only from inside a container: of which image?",
            hint="--image NAME, the one the build was made in; or reach the engine by ssh://USER@HOST",
        )
    return Reach(
        ask=through(open_another, image=image, gpus=gpus, volumes=(_IN_CONTAINERS,)),
        places=(Place(path=_IN_CONTAINERS.target),),
        how=f"a container of {about.endpoint}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What one part of a script gave."""

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
"""The beginning of every script: `part NAME COMMAND…` runs a command between marks that nothing else can print."""


def ask_parts(ask: Ask, script: str, *args: str) -> dict[str, Reply]:
    """Run a script that begins with `PART` and ends with `part done :`, and give its parts by name. What a login prints
    around it is dropped. Raises `MissingError` for an answer that is not whole."""
    nonce = f"@@{secrets.token_hex(8)}"
    code, text = ask(("/bin/sh", "-c", script, "sh", nonce, *args))
    parts = read_parts(text, nonce)
    if "done" not in parts:
        told = " ".join(text.replace(nonce, "").split())[-300:]
        raise EngineRefused(f"the machine's answer is not whole (exit code {code}){': ' if told else ''}{told}")
    return parts


def read_parts(text: str, nonce: str) -> dict[str, Reply]:
    """Return the parts of what such a script printed; one without its end is none."""
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
