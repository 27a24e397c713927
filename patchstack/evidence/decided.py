"""Read the evidence of a decision as values: its steps, and the gates and switches of its candidates.

Evidence is JSON that anyone could have written. Entries that are not of the form that `accept` writes are left out
here; `ledger --check` reports them as missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from patchstack.evidence.origin import Origin, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedStep:
    """One condition that had to hold. `verdict` is a word (`held` in decisions without verdicts); `source` is the
    source of its observations, if it has any."""

    name: str
    verdict: str
    detail: str
    source: Source | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtGate:
    """A gate that a commit adds: `named` is its name in the commit message; `suite` and `gate` are the gate that this
    name means."""

    commit: str
    named: str
    suite: str
    gate: str

    @property
    def path(self) -> str:
        """`SUITE/NAME`."""
        return f"{self.suite}/{self.gate}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnprovenSwitch:
    """The switches of a commit that no gate proves."""

    commit: str
    switches: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedBrings:
    """The additions of the candidates: gates, and switches without a gate, accepted for a `reason`."""

    gates: tuple[BroughtGate, ...] = ()
    unproven: tuple[UnprovenSwitch, ...] = ()
    reason: str = ""


def decided_steps(evidence: Mapping[str, Any]) -> tuple[DecidedStep, ...]:
    """Return the steps of a decision, in order."""
    return tuple(
        DecidedStep(
            name=str(step.get("name")),
            verdict=str(step.get("verdict", "held")),
            detail=str(step.get("detail")),
            source=_source(step.get("source")),
        )
        for step in _mappings(evidence.get("steps"))
    )


def decided_brings(evidence: Mapping[str, Any]) -> DecidedBrings | None:
    """Return the additions of the candidates of a decision; None if the decision does not list them, as older ones do
    not."""
    brings = evidence.get("brings")
    if not isinstance(brings, Mapping):
        return None
    return DecidedBrings(
        gates=tuple(
            BroughtGate(
                commit=str(one.get("commit")),
                named=str(one.get("named")),
                suite=str(one.get("suite")),
                gate=str(one.get("gate")),
            )
            for one in _mappings(brings.get("gates"))
        ),
        unproven=tuple(
            UnprovenSwitch(commit=str(one.get("commit")), switches=tuple(map(str, one.get("switches") or ())))
            for one in _mappings(brings.get("unproven"))
        ),
        reason=str(brings.get("reason") or ""),
    )


def _source(value: object) -> Source | None:
    if not isinstance(value, Mapping):
        return None
    try:
        origin = Origin(str(value.get("origin")))
    except ValueError:
        return None
    return Source(origin=origin, made=str(value.get("made", "")), decision=str(value.get("decision", "")))


def _mappings(value: object) -> Iterator[Mapping[str, Any]]:
    found: Iterable[object] = value if isinstance(value, list | tuple) else ()
    return (one for one in found if isinstance(one, Mapping))
