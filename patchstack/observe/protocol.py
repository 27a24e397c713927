"""Define the data of a run: what to run (invocation), the result (observation), and every try."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from patchstack.engine.archive import Bounds
from patchstack.engine.protocol import Ending
from patchstack.evidence.origin import NOW, Origin, Source

OUTPUTS = Bounds(size=1 << 30, entries=10_000)
"""The limits on the total size and the number of the files that one run may return.

The files are read into memory.
"""

Json = None | bool | int | float | str | list[Any] | dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model file on the engine's machine.

    `sha256` is the digest of its content; if it is None, the digest is computed before use. `what` describes the model
    in words.
    """

    name: str
    path: str
    sha256: str | None = None
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A run of one of a build's programs.

    `program` is the program's name below `bin/`. In `args`, these placeholders are replaced by paths of the job:

    - `{model:NAME}`: a model of `models`;
    - `{input:NAME}`: a file of `inputs`;
    - `{kept:NAME}`: a file that later runs use, such as a KL base;
    - `{work}`: a directory that the run may write to. It is empty at the start and removed at the end.

    `env` contains variables in addition to those of every job (PATH, HOME, LC_ALL, the library path). stdin is
    `/dev/null`. `keeps` are the names of the kept files that the run creates. `brings` are the files of `{work}` that
    become part of the observation. With `beside`, the program is a server that runs until its client ends. If the
    client only sends requests, `requests` lists them in order; the key then contains the requests and not the client.
    `seconds` limits the wall time of the whole run. `output` is the maximum number of bytes that the program may write
    to one stream; a program that exceeds it is ended. It does not apply to a run with `keeps`, or to a server without
    `requests`.
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
    """An HTTP request to a server under test: a path and a JSON body. Without a body, it is a GET request."""

    path: str
    body: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A Python program that is the client of a server.

    `files` are the files in its directory; in them, `{address}` is replaced by the server's `HOST:PORT`. `args` are the
    arguments of the interpreter; in them, `{here}` is replaced by the directory. `env` is not part of the key and may
    contain secrets. `brings` are the files that the client leaves. `image` is for containers and must have Python; if
    it is None, `client_image` finds one. `flags` are the server options that set its address; in them, `{port}` is
    replaced by the port. With `stoppable`, the first Ctrl-C ends the client, which can still write its results. Any
    other Ctrl-C raises `KeyboardInterrupt`. If the server ends first, the client has `grace` seconds to notice.
    """

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
    """The response of a server. `status` is 0 if the connection failed or was lost."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The result of a run.

    `key` is the digest of everything that can change the result. `code` is the exit code; it is 128 plus the number of
    the signal if a signal ended the program. `overflowed` is true if a stream exceeded its limit. `lost` is true if
    some output could not be written. `files` are the requested files. `source` shows where the observation comes from.
    """

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
        """Whether the observation was already stored, so that the program did not run."""
        return self.source.origin is not Origin.OBSERVED


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try of an invocation.

    `complaint` is the reason why the try cannot be judged; None if it can. `source` shows where the observation comes
    from. `seconds` is the duration of the run that produced the observation.
    """

    what: str
    key: str
    code: int
    seconds: float
    complaint: str | None
    source: Source = NOW

    @property
    def recalled(self) -> bool:
        """Whether the observation was already stored, so that the program did not run."""
        return self.source.origin is not Origin.OBSERVED


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The tries of an invocation. `observation` is the result of the try that can be judged, or None."""

    observation: Observation | None
    attempts: tuple[Attempt, ...]

    @property
    def complaint(self) -> str:
        """The reason why the last try could not be judged; empty if it could be judged."""
        return (self.attempts[-1].complaint or "") if self.attempts else "nothing was run"


Complete = Callable[[Observation], str | None]
"""Returns why an observation cannot be judged, such as a missing sentinel. Returns None if it can be judged.

Only observations that can be judged are stored.
"""
