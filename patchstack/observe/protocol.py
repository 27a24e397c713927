"""The run of a program (invocation), its result (observation), and the tries that it took."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from patchstack.engine.archive import Bounds
from patchstack.engine.protocol import Ending
from patchstack.evidence.origin import NOW, Origin, Source

OUTPUTS = Bounds(size=1 << 30, entries=10_000)
"""The maximum number of bytes that one run may return; they are read into memory."""

Json = None | bool | int | float | str | list[Any] | dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model file on the engine's machine. `sha256` is of its content (None: not known yet; it is computed before
    use). `what` describes it in words."""

    name: str
    path: str
    sha256: str | None = None
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One run of one of the build's programs.

    `program` is its name below `bin/`. Placeholders in `args` become paths of the job: `{model:NAME}` a model of
    `models`, `{input:NAME}` a file of `inputs`, `{kept:NAME}` a file that outlives the run (a KL base), and `{work}`
    the directory that the run may write to, which is empty at the start and removed at the end. `env` is the whole
    environment: only these variables and those of every job (PATH, HOME, LC_ALL, the library path) are set. stdin is
    closed. `keeps` are the names of kept files that the run makes. `brings` are files of `{work}` to bring back.
    `beside` makes the program a server, which runs as long as its client does. `requests` are the client's requests, in
    order, if it does nothing else. The key then contains them instead of the client. `seconds` limits the wall time of
    all of it. More than `output` bytes on a stream end the run.
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
    """A Python program that is the client of a server.

    `files` are in its directory; `{address}` in them is replaced by the server's `HOST:PORT`. In `args` (of the
    interpreter), `{here}` is that directory. `env` is not part of the key and may contain secrets. `brings` are files
    that it leaves. `image` is for containers and must have Python (None: see `client_image`). `flags` tell the server
    where to listen; `{port}` is replaced by the port. If `stoppable`, Ctrl-C ends the program, which may still leave
    its results; otherwise it is raised. If the server ends first, the program gets `grace` seconds to notice."""

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
    """The answer of a server. `status` 0 means that there is none: the connection failed or broke."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The result of a run. `key` is the digest of everything that can change it. `code` is the exit code (128 + signal
    if a signal ended it). `overflowed`: a stream exceeded its limit, and the run was ended. `lost`: some output could
    not be written. `files` are the requested files. `source` is where the observation comes from."""

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
        """Whether the result was already known and nothing was run."""
        return self.source.origin is not Origin.OBSERVED


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of an invocation. `complaint` is the reason why it cannot be judged; None if it can. `source` is where
    the observation comes from; `seconds` is the time of the run that made it."""

    what: str
    key: str
    code: int
    seconds: float
    complaint: str | None
    source: Source = NOW

    @property
    def recalled(self) -> bool:
        """Whether the observation was already known and nothing was run."""
        return self.source.origin is not Origin.OBSERVED


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The tries of an invocation, and the observation that can be judged; None if no try gave one."""

    observation: Observation | None
    attempts: tuple[Attempt, ...]

    @property
    def complaint(self) -> str:
        """The reason why the last try could not be judged."""
        return (self.attempts[-1].complaint or "") if self.attempts else "nothing was run"


Complete = Callable[[Observation], str | None]
"""Returns why an observation cannot be judged (a missing sentinel), or None if it can. Only observations that can be
judged are kept."""
