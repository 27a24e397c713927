"""Decide the outcome of a comparison from its pairs only. All functions are pure.

The pairs are judged in the order in which they ran. The outcome is decided after the first pair that allows a decision,
and later pairs do not change it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from patchstack.stats.holm import holm
from patchstack.stats.sequence import Evidence, Interval, pairs_needed

ALPHA = 0.01
MARGIN = 0.01
GUARD_MARGIN = 0.03
MOST_PAIRS = 48
TOO_WIDE = 6
"""A comparison is INVALID if the interval of a primary row is wider than this many margins after all pairs."""
MOST_THROWN = 5
"""At most one pair in this number of pairs may be thrown away."""


class Outcome(StrEnum):
    """The outcome of a comparison."""

    KEEP = "keep"
    REJECT = "reject"
    NO_DIFFERENCE = "no difference seen"
    INVALID = "INVALID"
    UNDECIDED = "undecided"  # more pairs can be run


class Demand(StrEnum):
    """The user's requirement for a comparison."""

    KEEP = "keep"
    NOT_WORSE = "not-worse"


class Statement(StrEnum):
    """The statements about a row that pairs can prove.

    `FASTER`: B is faster than A by more than the margin. `SLOWER`: B is slower than A by more than the margin, or for a
    guard row by more than the guard margin. `BELOW`: the gain of B is less than the margin. `NOT_WORSE`: the loss of B
    is less than the guard margin.
    """

    FASTER = "faster"
    SLOWER = "slower"
    BELOW = "below"
    NOT_WORSE = "not worse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A figure of the workload to compare. A primary row decides the comparison. A guard row must not get worse.
    Margins are fractions: 0.01 is 1%."""

    name: str
    primary: bool = True
    margin: float = MARGIN
    guard_margin: float = GUARD_MARGIN

    def bound(self, statement: Statement) -> float:
        """Return the bound of the statement as ln(B/A)."""
        if statement in (Statement.FASTER, Statement.BELOW):
            return math.log1p(self.margin)
        if statement is Statement.SLOWER and self.primary:
            return math.log1p(-self.margin)
        return math.log1p(-self.guard_margin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The rule by which a comparison is judged.

    `alpha` is the error rate of a statement. `most` is the maximum number of pairs. `demand` is None if the user has no
    requirement.
    """

    alpha: float = ALPHA
    most: int = MOST_PAIRS
    demand: Demand | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A pair that ran. `coin` is +1 if B ran second, -1 if A did. `ratios` contains ln(B/A) of each row; a larger value
    is better. `thrown` is the reason why the pair does not count; empty if it counts."""

    coin: int
    ratios: Mapping[str, float]
    thrown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShown:
    """The results of a row.

    `pairs` is the number of pairs that count. `e_values` contains the largest e-value of each statement so far. `shown`
    contains the proven statements. For `FASTER` and `SLOWER`, the error rate is for all rows together. For the other
    statements, it is for this row alone. `estimate` and `interval` are ln(B/A). `needed` is the estimated total number
    of pairs that prove the next statement. It is None if a statement is already proven, or if too many pairs would be
    needed.
    """

    row: Row
    pairs: int
    e_values: Mapping[Statement, float]
    shown: frozenset[Statement]
    estimate: float | None
    interval: Interval
    needed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The result of judging a comparison.

    `decided` is the number of the pair that decided the outcome; None if the comparison is undecided. `counted` is the
    number of pairs that count, and `thrown` is the number of pairs that were thrown away. `demand_met` is None if no
    demand is set.
    """

    outcome: Outcome
    reason: str
    decided: int | None
    counted: int
    thrown: int
    demand_met: bool | None
    rows: tuple[RowShown, ...]


@dataclass(slots=True)
class _Track:
    """A row with the e-values of its statements, one for each counted pair."""

    row: Row
    evidence: Evidence
    e_values: dict[Statement, tuple[float, ...]]

    @classmethod
    def of(cls, row: Row, pairs: Sequence[Pair]) -> _Track:
        evidence = Evidence([pair.ratios[row.name] for pair in pairs], [pair.coin for pair in pairs])
        return cls(
            row,
            evidence,
            {
                Statement.FASTER: evidence.above(row.bound(Statement.FASTER)),
                Statement.SLOWER: evidence.below(row.bound(Statement.SLOWER)),
                Statement.BELOW: evidence.below(row.bound(Statement.BELOW)),
                Statement.NOT_WORSE: evidence.above(row.bound(Statement.NOT_WORSE)),
            },
        )

    def at(self, statement: Statement, look: int) -> float:
        return self.e_values[statement][look - 1] if look else 1.0


def judge(rows: Sequence[Row], rule: Rule, pairs: Sequence[Pair]) -> Judged:
    """Judge the pairs of a comparison, in the order in which they ran.

    Raises `ValueError` if no row is primary, or if a ratio is not finite. Raises `KeyError` if a pair lacks a row.
    """
    if not any(row.primary for row in rows):
        raise ValueError("no row is primary")
    counted = [pair for pair in pairs if not pair.thrown]
    tracks = [_Track.of(row, counted) for row in rows]
    outcome, reason, decided, look = Outcome.UNDECIDED, "", None, 0
    for number, pair in enumerate(pairs, 1):
        look += not pair.thrown
        outcome, reason = _look(tracks, rule, look, number - look, last=number >= rule.most)
        if outcome is not Outcome.UNDECIDED:
            decided = number
            break
    return Judged(
        outcome=outcome,
        reason=reason or _so_far(len(pairs), rule),
        decided=decided,
        counted=len(counted),
        thrown=len(pairs) - len(counted),
        demand_met=_met(tracks, rule, len(counted), outcome) if rule.demand is not None else None,
        rows=tuple(_shown(tracks, rule, len(counted))),
    )


def _look(tracks: Sequence[_Track], rule: Rule, look: int, thrown: int, *, last: bool) -> tuple[Outcome, str]:
    """Return the outcome and its reason after `look` pairs that count and `thrown` pairs that do not.

    `last` is true if no more pairs may be run.
    """
    if thrown * MOST_THROWN > rule.most or (last and thrown * MOST_THROWN > look + thrown):
        were = "was" if thrown == 1 else "were"
        words = f"{thrown} of {_count(look + thrown)} {were} thrown away: the machine was disturbed"
        return Outcome.INVALID, words
    if thrown * MOST_THROWN <= look + thrown:
        decided = _decision(tracks, rule, look)
        if decided is not None:
            return decided
    if not last:
        return Outcome.UNDECIDED, ""
    for track in tracks:
        if track.row.primary and (complaint := _useless(track, rule)):
            return Outcome.INVALID, complaint
    return Outcome.NO_DIFFERENCE, f"{_count(look + thrown)} ran, and neither keep nor reject was shown"


def _decision(tracks: Sequence[_Track], rule: Rule, look: int) -> tuple[Outcome, str] | None:
    """Return the outcome that `look` counted pairs prove, with its reason. Return None if they prove no outcome."""
    lost = _holding(tracks, Statement.SLOWER, rule, look)
    if lost:
        return Outcome.REJECT, ", ".join(_loss(track.row) for track in tracks if track.row.name in lost)
    primary = [track for track in tracks if track.row.primary]
    not_worse = all(track.at(Statement.NOT_WORSE, look) * rule.alpha >= 1 for track in tracks)
    gained = _holding(primary, Statement.FASTER, rule, look)
    if gained and not_worse:
        words = ", ".join(
            f"{track.row.name} is faster by more than {_percent(track.row.margin)}"
            for track in primary
            if track.row.name in gained
        )
        return Outcome.KEEP, f"{words}; no row is worse" if len(tracks) > 1 else words
    if rule.demand is Demand.NOT_WORSE:
        words = "every row is shown not worse"
        return (Outcome.NO_DIFFERENCE, words) if not_worse else None
    if all(track.at(Statement.BELOW, look) * rule.alpha >= 1 for track in primary):
        margins = ", ".join(f"{track.row.name} is below +{_percent(track.row.margin)}" for track in primary)
        return Outcome.REJECT, f"not worth a patch: {margins}"
    return None


def _holding(tracks: Sequence[_Track], statement: Statement, rule: Rule, look: int) -> frozenset[str]:
    """Return the rows for which the statement is proven. The error rate applies to all rows together."""
    return holm({track.row.name: track.at(statement, look) for track in tracks}, rule.alpha)


def _useless(track: _Track, rule: Rule) -> str:
    """Return the reason why a row cannot be judged, even from all pairs.

    Return an empty string if it can be judged.
    """
    interval = track.evidence.interval(rule.alpha)
    name = track.row.name
    if interval.low > interval.high:
        return f"{name}: early and late pairs contradict each other: the sides or the machine changed meanwhile"
    if interval.width > TOO_WIDE * math.log1p(track.row.margin):
        width = f"{100 * math.expm1(interval.width):.1f}%" if math.isfinite(interval.width) else "open"
        return f"{name}: too noisy: its interval is {width} wide, more than {TOO_WIDE} margins"
    return ""


def _met(tracks: Sequence[_Track], rule: Rule, look: int, outcome: Outcome) -> bool:
    """Return whether the demand is met. An INVALID or undecided comparison meets no demand."""
    if outcome in (Outcome.INVALID, Outcome.UNDECIDED):
        return False
    if rule.demand is Demand.KEEP:
        return outcome is Outcome.KEEP
    return outcome is not Outcome.REJECT and all(
        track.at(Statement.NOT_WORSE, look) * rule.alpha >= 1 for track in tracks
    )


def _shown(tracks: Sequence[_Track], rule: Rule, look: int) -> list[RowShown]:
    faster = _holding([track for track in tracks if track.row.primary], Statement.FASTER, rule, look)
    slower = _holding(tracks, Statement.SLOWER, rule, look)
    found = []
    for track in tracks:
        name = track.row.name
        alone = {
            statement
            for statement in (Statement.BELOW, Statement.NOT_WORSE)
            if track.at(statement, look) * rule.alpha >= 1
        }
        shown = alone | ({Statement.FASTER} if name in faster else set())
        shown |= {Statement.SLOWER} if name in slower else set()
        found.append(
            RowShown(
                row=track.row,
                pairs=len(track.evidence),
                e_values={statement: track.at(statement, look) for statement in Statement},
                shown=frozenset(shown),
                estimate=track.evidence.estimate(),
                interval=track.evidence.interval(rule.alpha),
                needed=_needed(track, rule, look, primaries=sum(one.row.primary for one in tracks)),
            )
        )
    return found


def _needed(track: _Track, rule: Rule, look: int, *, primaries: int) -> int | None:
    """Estimate the total number of pairs that are needed to prove a statement about the row.

    The estimate assumes that the share of wins stays the same. If several statements are relevant, the smallest number
    is returned. Return None if a statement is already proven, or if too many pairs would be needed.
    """
    row, evidence = track.row, track.evidence
    wanted = {Statement.NOT_WORSE: rule.alpha}
    if row.primary:
        wanted = {Statement.FASTER: rule.alpha / primaries, Statement.BELOW: rule.alpha}
    if any(track.at(statement, look) * alpha >= 1 for statement, alpha in wanted.items()):
        return None
    guesses = [
        pairs_needed(evidence.wins(row.bound(statement), above=statement is not Statement.BELOW), len(evidence), alpha)
        for statement, alpha in wanted.items()
    ]
    return min((guess for guess in guesses if guess is not None), default=None)


def _loss(row: Row) -> str:
    margin = row.margin if row.primary else row.guard_margin
    return f"{row.name} is slower by more than {_percent(margin)}"


def _so_far(pairs: int, rule: Rule) -> str:
    return f"{_count(pairs)} of at most {rule.most} ran, and nothing is decided yet"


def _count(pairs: int) -> str:
    return "1 pair" if pairs == 1 else f"{pairs} pairs"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:g}%"
