"""What a gate says of a build."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from patchstack.observe.protocol import Attempt, Json
from patchstack.verdict import Verdict


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
