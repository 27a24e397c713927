"""What a check sees of the programs that it runs: an observer, in the context of the check.

A check (a gate, a comparison) gets at programs only through an `Observer`, which keeps observations: asking again for
what is known runs nothing, and whoever asks draws the verdict again from the kept observation.
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
    """Who asks, and what the runs may use.

    `kind` is the kind of check with its version (`kl/1`). `gpu`: programs that use GPUs get them; if not, GPUs are
    hidden from them. `reference` is the build whose output the references of the checks are, if that is known, and
    `judge` the build that a test program is taken from, so that what is judged does not bring its own judge. Neither is
    part of a key.
    """

    kind: str
    gpu: bool = True
    reference: Programs | None = None
    judge: Programs | None = None


class Observer(Protocol):
    """A build's programs, ready to be run where the build runs, with observations kept. `Runner` is the real one."""

    @property
    def context(self) -> RunContext:
        """What all that is observed through this has in common."""
        ...

    def within(self, context: RunContext) -> Self:
        """Return the same programs, observed in another context."""
        ...

    def beside(self, build: str | Programs) -> OtherBuild:
        """Another build's programs in the same context, but without its reference. To be closed by the caller.

        A build is named by its key or by the directory of its programs (see `other_build`). Raises `MissingError` if
        there is no such build, or if it wants a GPU that this one does not have; `NotHeldError` for one that did not
        compile.
        """
        ...

    def judged_with(self, program: str, judge: Programs) -> OtherBuild:
        """These libraries with one program of another build, in the same context. To be closed by the caller.

        It may be the very same program. Raises `MissingError` if the other build lacks it, or if it cannot be taken:
        its libraries are linked into it, or are not all here.
        """
        ...

    def build_digest(self) -> str:
        """SHA-256 of the programs, names and contents: equal for two builds that could not be told apart."""
        ...

    def observe(self, invocation: Invocation, *, complete: Complete, tries: int = 3, salt: str = "") -> Observed:
        """What the invocation gives: as kept from before, else run now, up to `tries` times until it is complete.

        `salt` makes an observation of its own of a repetition (`run 2`). A run that ends out of memory, out of time or
        with too much output is never complete, whatever `complete` says. Raises what the engine raises, and
        `MissingError` for a program or model that does not exist, or a model that is not the one of its digest.
        """
        ...

    def has(self, kept: str) -> bool:
        """Return whether a kept file exists."""
        ...

    def size_of(self, kept: str) -> int | None:
        """Return the size of a kept file in bytes; None if it does not exist."""
        ...

    def digest_of(self, model: Model) -> str:
        """Return the sha256 of a model's content, remembered while its size and time stay."""
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
    """Show, of several tries, which one runs; the first needs no word."""
    return task(f"try {number} of {tries}") if number > 1 else contextlib.nullcontext()


class Settled(str):
    """A complaint that another try would not change: a text that is too short, a backend that is not in the build."""

    __slots__ = ()


def retry(runner: Observer, invocation: Invocation, complete: Complete, *, tries: int, salt: str = "") -> Observed:
    """As `Observer.observe`, but a complaint that is `Settled` ends the tries. What is complained about is not kept."""
    attempts: list[Attempt] = []
    for number in range(1, max(1, tries) + 1):
        with one_try(number, tries):
            observed = runner.observe(invocation, complete=complete, tries=1, salt=salt)
        attempts += observed.attempts
        if observed.observation is not None or isinstance(attempts[-1].complaint, Settled):
            return Observed(observation=observed.observation, attempts=tuple(attempts))
    return Observed(observation=None, attempts=tuple(attempts))
