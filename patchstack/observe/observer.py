"""Define `Observer`, the interface through which a check runs programs.

A check (a gate or a comparison) runs programs only through an `Observer`, which stores the observations. If an
observation is already stored, the program does not run again, and the check computes its verdict from the stored
observation.
"""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, Self

from patchstack.observe.layout import Programs
from patchstack.observe.protocol import Attempt, Complete, Invocation, Model, Observed
from patchstack.tasks import task


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The context of the runs of a check.

    `kind` is the kind of check with its version (`kl/1`). If `gpu` is false, GPUs are hidden from the programs.
    `reference` is the build that the check's references were taken from; None if unknown. `judge` is the build that
    provides the test program, so that a candidate does not provide its own test. `reference` and `judge` are not part
    of a key.
    """

    kind: str
    gpu: bool = True
    reference: Programs | None = None
    judge: Programs | None = None


class Observer(Protocol):
    """Runs the programs of a build, and stores the observations. `Runner` is the real implementation."""

    @property
    def context(self) -> RunContext:
        """The context of all runs through this observer."""
        ...

    def within(self, context: RunContext) -> Self:
        """Return an observer of the same programs in a different context."""
        ...

    def beside(self, build: str | Programs) -> OtherBuild:
        """Return an observer of a second build, in the same context without `reference` and `judge`.

        The caller closes the observer. A build is named by its key or by the directory of its programs (see
        `from_build`). Raises `MissingError` if the build does not exist, or if it needs a GPU and this build does not.
        Raises `NotHeldError` if its source did not compile.
        """
        ...

    def judged_with(self, program: str, judge: Programs) -> OtherBuild:
        """Return an observer of this build, with one program from the build `judge`.

        The caller closes the observer. The program may be the same in both builds. Raises `MissingError` if the other
        build lacks the program, or if the program cannot run with the libraries of this build.
        """
        ...

    def build_digest(self) -> str:
        """Return the SHA-256 of the names and contents of the programs. Builds with equal digests are identical."""
        ...

    def observe(self, invocation: Invocation, *, complete: Complete, tries: int = 3, salt: str = "") -> Observed:
        """Return a stored observation of the invocation, or run it.

        The run is repeated until it is complete, at most `tries` times. With a different `salt` (such as `run 2`), the
        same invocation has a different observation. A run that exceeds its limits of memory, time or output is never
        complete, whatever `complete` returns. Raises the errors of the engine. Raises `MissingError` if a program or
        model does not exist, or if a model does not match its digest.
        """
        ...

    def has(self, kept: str) -> bool:
        """Return whether a kept file exists."""
        ...

    def size_of(self, kept: str) -> int | None:
        """Return the size of a kept file in bytes. Return None if it does not exist."""
        ...

    def digest_of(self, model: Model) -> str:
        """Return the SHA-256 of a model's content.

        The digest is cached until the size or modification time of the file changes.
        """
        ...

    def programs(self) -> frozenset[str]:
        """Return the names of the files below `bin/`."""
        ...


class OtherBuild(Observer, Protocol):
    """An observer that its user must close."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None:
        """Remove the files that the runs left on the engine."""
        ...


def one_try(number: int, tries: int) -> AbstractContextManager[object]:
    """Show the number of a repeated try in the progress display. The first try is not shown."""
    return task(f"try {number} of {tries}") if number > 1 else contextlib.nullcontext()


class Settled(str):
    """A complaint that a repeated run would not change. Examples: a text is too short, or the build lacks a backend."""

    __slots__ = ()


def retry(runner: Observer, invocation: Invocation, complete: Complete, *, tries: int, salt: str = "") -> Observed:
    """Do the same as `Observer.observe`, but do not run again after a `Settled` complaint."""
    attempts: list[Attempt] = []
    for number in range(1, max(1, tries) + 1):
        with one_try(number, tries):
            observed = runner.observe(invocation, complete=complete, tries=1, salt=salt)
        attempts += observed.attempts
        if observed.observation is not None or isinstance(attempts[-1].complaint, Settled):
            return Observed(observation=observed.observation, attempts=tuple(attempts))
    return Observed(observation=None, attempts=tuple(attempts))
