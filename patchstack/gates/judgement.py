"""What a gate says of a build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchstack.evidence.origin import Origin, Source
from patchstack.observe.protocol import Attempt, Json
from patchstack.verdict import Verdict

if TYPE_CHECKING:
    from patchstack.llama.ask_server import ServerAnswers
    from patchstack.llama.completions import Divergence
    from patchstack.observe.exit_status import Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict of one gate. `reason` is a sentence; `actual` and `expected` are short texts for a table (a digest,
    `1146/1146`); `details` is what else a document should hold."""

    verdict: Verdict
    reason: str
    actual: str = ""
    expected: str = ""
    details: Mapping[str, Json] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()

    @property
    def recalled(self) -> tuple[str, ...]:
        """The keys of observations that were known before: no attempt of this gate made them."""
        judged = [one for one in self.attempts if one.complaint is None]
        made = {one.key for one in judged if not one.recalled}
        return tuple(dict.fromkeys(one.key for one in judged if one.key not in made))

    @property
    def source(self) -> Source | None:
        """Where what was judged comes from: now, if any of it was observed now; else recorded evidence, if any of it
        is; else this machine's cache. Of several, the oldest. None if nothing was judged."""
        found = [one.source for one in self.attempts if one.complaint is None]
        for origin in (Origin.OBSERVED, Origin.RECORDED, Origin.RECALLED):
            if of_it := [one for one in found if one.origin is origin]:
                return min(of_it, key=lambda one: one.made)
        return None


def verdict_of(failure: Fault | ServerAnswers) -> Verdict:
    """FAIL if the build is to blame, INVALID if nobody can say who is."""
    return Verdict.FAIL if failure.by_build else Verdict.INVALID


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """FAIL before INVALID before PASS; INVALID for none."""
    return next((one for one in (Verdict.FAIL, Verdict.INVALID, Verdict.PASS) if one in verdicts), Verdict.INVALID)


def near_or_not(found: Divergence, margin: float, reason: str) -> tuple[Verdict, str]:
    """What a difference means: a near tie cannot be judged, anything else does not hold."""
    if found.within(margin):
        return Verdict.INVALID, f"{reason}; a near tie, within the margin of {margin:g}"
    return Verdict.FAIL, reason
