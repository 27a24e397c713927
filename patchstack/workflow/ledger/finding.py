"""Collect the findings on a decision.

A finding is a statement that follows from the repository, is only asserted, or is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Findings:
    """The findings on one decision, as sentences.

    `derived` findings follow from the repository alone. `asserted` findings cannot be checked with the repository, for
    example that a machine really printed an output. `wrong` findings contradict the repository.
    """

    derived: list[str] = field(default_factory=list)
    asserted: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def follows(self, holds: bool, what: str, otherwise: Callable[[], str] | str) -> bool:
        """Add `what` to `derived` if `holds` is true. Otherwise, add `otherwise` to `wrong`.

        Return `holds`.
        """
        if holds:
            self.derived.append(what)
        else:
            self.wrong.append(otherwise if isinstance(otherwise, str) else otherwise())
        return holds
