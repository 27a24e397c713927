"""Trying a run until it can be judged, but no longer than another try could help."""

from __future__ import annotations

from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Attempt, Complete, Invocation, Observed


class Settled(str):
    """A complaint that another try would not change: a text that is too short, a backend that is not in the build."""

    __slots__ = ()


def tried(runner: Observer, invocation: Invocation, complete: Complete, *, tries: int, salt: str = "") -> Observed:
    """As `Observer.observe`, but a complaint that is `Settled` ends the tries. What is complained about is not kept."""
    attempts: list[Attempt] = []
    for _ in range(max(1, tries)):
        observed = runner.observe(invocation, complete=complete, tries=1, salt=salt)
        attempts += observed.attempts
        if observed.observation is not None or isinstance(attempts[-1].complaint, Settled):
            return Observed(observation=observed.observation, attempts=tuple(attempts))
    return Observed(observation=None, attempts=tuple(attempts))
