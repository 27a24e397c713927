"""Define the result of a gate for a build."""

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
    """The verdict of one gate.

    `reason` explains the verdict in a sentence. `actual` and `expected` are short texts for a table, for example a
    digest or `1146/1146`. `details` contains further values for a JSON document.
    """

    verdict: Verdict
    reason: str
    actual: str = ""
    expected: str = ""
    details: Mapping[str, Json] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()

    @property
    def recalled(self) -> tuple[str, ...]:
        """The keys of the judged observations that were made before this gate was run."""
        judged = [one for one in self.attempts if one.complaint is None]
        made = {one.key for one in judged if not one.recalled}
        return tuple(dict.fromkeys(one.key for one in judged if one.key not in made))

    @property
    def source(self) -> Source | None:
        """The source of the judged observations, or None if nothing was judged.

        Observations made now take precedence over recorded evidence, and recorded evidence takes precedence over this
        machine's cache. If several sources remain, the oldest one counts.
        """
        found = [one.source for one in self.attempts if one.complaint is None]
        for origin in (Origin.OBSERVED, Origin.RECORDED, Origin.RECALLED):
            if of_it := [one for one in found if one.origin is origin]:
                return min(of_it, key=lambda one: one.made)
        return None


def verdict_of(failure: Fault | ServerAnswers) -> Verdict:
    """Return FAIL if the build caused the failure, otherwise INVALID."""
    return Verdict.FAIL if failure.by_build else Verdict.INVALID


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the worst verdict.

    FAIL is worse than INVALID, and INVALID is worse than PASS. Return INVALID for an empty sequence.
    """
    return next((one for one in (Verdict.FAIL, Verdict.INVALID, Verdict.PASS) if one in verdicts), Verdict.INVALID)


def near_or_not(found: Divergence, margin: float, reason: str) -> tuple[Verdict, str]:
    """Return the verdict for a difference between tokens, and the complete reason.

    The verdict is INVALID for a near tie (a difference within `margin`), otherwise FAIL. `reason` describes the
    difference.
    """
    if found.within(margin):
        return Verdict.INVALID, f"{reason}; a near tie, within the margin of {margin:g}"
    return Verdict.FAIL, reason
