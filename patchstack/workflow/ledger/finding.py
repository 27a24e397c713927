"""The findings on a decision: what follows from the repository, what is only asserted, and what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Findings:
    """The findings on one decision, as sentences. `derived` follows from the repository alone. `asserted` cannot be
    checked from the repository (that a machine really printed this). `wrong` contradicts it."""

    derived: list[str] = field(default_factory=list)
    asserted: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def follows(self, holds: bool, what: str, otherwise: Callable[[], str] | str) -> bool:
        """Add `what` to the derived findings if it holds, else the problem to the wrong ones. Return whether it
        holds."""
        if holds:
            self.derived.append(what)
        else:
            self.wrong.append(otherwise if isinstance(otherwise, str) else otherwise())
        return holds
