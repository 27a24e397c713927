"""Parse the steps of a decision, and the gates and switches that its candidates add.

The evidence is untrusted JSON. Entries that `accept` could not have written are skipped. `ledger --check` reports them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from patchstack.evidence.origin import Origin, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedStep:
    """A condition that the decision depends on.

    `verdict` is a word such as `PASS`. It is `held` for old decisions, which have no verdicts. `source` is the source
    of the step's observations, or None if the step has no observations.
    """

    name: str
    verdict: str
    detail: str
    source: Source | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtGate:
    """A gate that a commit adds.

    `named` is the gate's name in the commit message. `suite` and `gate` are the gate that this name refers to.
    """

    commit: str
    named: str
    suite: str
    gate: str

    @property
    def path(self) -> str:
        """The gate as `SUITE/NAME`."""
        return f"{self.suite}/{self.gate}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnprovenSwitch:
    """The switches that a commit adds and that no gate tests."""

    commit: str
    switches: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedBrings:
    """The gates and switches that the candidates add.

    `unproven` are the switches that no gate tests. `reason` is the reason why these switches were accepted.
    """

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
    """Return the gates and switches that the candidates of a decision add.

    Return None for older decisions, which do not list them.
    """
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
