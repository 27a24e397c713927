"""The interface through which a check runs programs: an observer, in the context of the check.

A check (a gate, a comparison) runs programs only through an `Observer`, which keeps observations. A known observation
is returned without a run, and the check draws its verdict from it again.
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
    """The check that asks, and what its runs may use.

    `kind` is the kind of check with its version (`kl/1`). `gpu`: programs that use GPUs get them; otherwise GPUs are
    hidden. `reference` is the build that the references of the checks were taken from, if it is known. `judge` is the
    build that a test program is taken from, so that a candidate does not provide its own test. Neither is part of a
    key.
    """

    kind: str
    gpu: bool = True
    reference: Programs | None = None
    judge: Programs | None = None


class Observer(Protocol):
    """The programs of a build, ready to run. Observations are kept. `Runner` is the real implementation."""

    @property
    def context(self) -> RunContext:
        """The context of all observations through this observer."""
        ...

    def within(self, context: RunContext) -> Self:
        """Return an observer of the same programs in a different context."""
        ...

    def beside(self, build: str | Programs) -> OtherBuild:
        """Return the programs of another build in the same context, without its reference. The caller closes it.

        A build is named by its key or by the directory of its programs (see `from_build`). Raises `MissingError` if
        there is no such build, or if it needs a GPU and this one does not; `NotHeldError` for one that did not
        compile.
        """
        ...

    def judged_with(self, program: str, judge: Programs) -> OtherBuild:
        """Return these libraries with one program of another build, in the same context. The caller closes it.

        The programs may be identical. Raises `MissingError` if the other build lacks the program, or if it cannot be
        used: its libraries are linked into it, or some are missing.
        """
        ...

    def build_digest(self) -> str:
        """Return the SHA-256 of the names and contents of the programs. It is equal for two indistinguishable
        builds."""
        ...

    def observe(self, invocation: Invocation, *, complete: Complete, tries: int = 3, salt: str = "") -> Observed:
        """Return the observation of the invocation: a kept one, else from up to `tries` runs until one is complete.

        `salt` makes a repetition (`run 2`) a different observation. A run that exceeds memory, time or output limits is
        never complete, whatever `complete` returns. Raises the engine's errors, and `MissingError` for a program or
        model that does not exist, or a model that does not match its digest.
        """
        ...

    def has(self, kept: str) -> bool:
        """Return whether a kept file exists."""
        ...

    def size_of(self, kept: str) -> int | None:
        """Return the size of a kept file in bytes; None if it does not exist."""
        ...

    def digest_of(self, model: Model) -> str:
        """Return the sha256 of a model's content, cached while its size and time do not change."""
        ...

    def programs(self) -> frozenset[str]:
        """Return the names below `bin/`."""
        ...


class OtherBuild(Observer, Protocol):
    """An observer that its user closes."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None:
        """Remove what the runs left on the engine."""
        ...


def one_try(number: int, tries: int) -> AbstractContextManager[object]:
    """Show the number of a repeated try in the progress. The first try is not shown."""
    return task(f"try {number} of {tries}") if number > 1 else contextlib.nullcontext()


class Settled(str):
    """A complaint that another try would not change: a text is too short, or the build lacks a backend."""

    __slots__ = ()


def retry(runner: Observer, invocation: Invocation, complete: Complete, *, tries: int, salt: str = "") -> Observed:
    """Observe as `Observer.observe` does, but end the tries at a `Settled` complaint. Observations with a complaint are
    not kept."""
    attempts: list[Attempt] = []
    for number in range(1, max(1, tries) + 1):
        with one_try(number, tries):
            observed = runner.observe(invocation, complete=complete, tries=1, salt=salt)
        attempts += observed.attempts
        if observed.observation is not None or isinstance(attempts[-1].complaint, Settled):
            return Observed(observation=observed.observation, attempts=tuple(attempts))
    return Observed(observation=None, attempts=tuple(attempts))
