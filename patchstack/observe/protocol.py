"""A program run (invocation), what it gave (observation), and the tries that it took."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from patchstack.engine.archive import Bounds
from patchstack.engine.protocol import Ending
from patchstack.evidence.origin import NOW, Origin, Source

OUTPUTS = Bounds(size=1 << 30, entries=10_000)
"""What one run may bring back; it is read into memory."""

Json = None | bool | int | float | str | list[Any] | dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model file on the engine's machine. `sha256` is of its content (None: not known yet, and found out before it is
    used); `what` says in words what it is."""

    name: str
    path: str
    sha256: str | None = None
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One run of one of the build's programs.

    `program` is its name below `bin/`. In `args` stand for paths, as the job will see them: `{model:NAME}` a model of
    `models`, `{input:NAME}` a file of `inputs`, `{kept:NAME}` a file that outlives the run (a KL base), `{work}` the
    directory the run may write in, which is empty before and gone after. `env` is the whole environment: only what is
    named here and what every job gets (PATH, HOME, LC_ALL, where libraries are) is set. stdin is closed. `keeps` are
    the names of kept files that the run makes. `brings` are files of `{work}` to bring back. `beside` makes the
    program a server, which runs as long as the program beside it does. `requests` are what that program asks, one after
    the other, if that is all that it does: they are in the key, and the program is not.
    `seconds` is wall time for all of it; more than `output` bytes on a stream end the run.
    """

    what: str
    program: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    models: tuple[Model, ...] = ()
    inputs: Mapping[str, bytes] = field(default_factory=dict)
    keeps: tuple[str, ...] = ()
    brings: tuple[str, ...] = ()
    requests: tuple[Request, ...] = ()
    beside: Beside | None = None
    seconds: float = 600.0
    output: int = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An HTTP request to a server under test: a path and a JSON body (None: GET)."""

    path: str
    body: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A Python program that asks a server from beside it.

    `files` are in its directory; `{address}` in them is replaced by the server's `HOST:PORT`. In `args`, those of the
    interpreter, `{here}` is that directory. `env` is left out of the key and may hold what must not be kept. `brings`
    are files that it leaves. `image` is for containers and must have Python (None: see `client_image`). `flags` tell
    the server where to listen; `{port}` is replaced by the port. `stoppable`: Ctrl-C ends the program, which may still
    leave what it has; otherwise it is raised. A server that ends first gives it `grace` seconds to see that."""

    what: str
    args: tuple[str, ...]
    files: Mapping[str, bytes]
    brings: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    image: str | None = None
    flags: tuple[str, ...] = ("--host", "127.0.0.1", "--port", "{port}")
    stoppable: bool = False
    grace: float = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the server answered. `status` 0 is not an answer: the connection failed or broke."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a run gave. `key` names it: the digest of all that can change it. `code` is the exit code (128 + signal
    where a signal ended it); `overflowed`: a stream was longer than allowed, and the run was ended; `lost`: what it
    gave could not all be written down. `files` are what was asked to be brought. `source` says where it comes from."""

    key: str
    ending: Ending
    code: int
    stdout: bytes
    stderr: bytes
    seconds: float
    overflowed: bool = False
    lost: bool = False
    replies: tuple[Reply, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    source: Source = NOW

    @property
    def recalled(self) -> bool:
        """Whether it was known, and nothing was run."""
        return self.source.origin is not Origin.OBSERVED


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of an invocation. `complaint` is why it could not be judged; None for the one that can. `source` says
    where the observation comes from; `seconds` is the time of the run that made it."""

    what: str
    key: str
    code: int
    seconds: float
    complaint: str | None
    source: Source = NOW

    @property
    def recalled(self) -> bool:
        """Whether the observation was known, and nothing was run."""
        return self.source.origin is not Origin.OBSERVED


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What came of trying: the observation that can be judged, or None after so many tries; and the tries."""

    observation: Observation | None
    attempts: tuple[Attempt, ...]

    @property
    def complaint(self) -> str:
        """Why the last try could not be judged."""
        return (self.attempts[-1].complaint or "") if self.attempts else "nothing was run"


Complete = Callable[[Observation], str | None]
"""Why an observation cannot be judged (a sentinel that does not exist), or None if it can. What cannot is not kept."""
