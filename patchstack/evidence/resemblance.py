"""Estimate how similar a candidate is to candidates of earlier decisions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from patchstack.evidence.ledger import Candidate, Decision

ALIKE = 0.3
"""The smallest similarity that is reported."""
_WORD = re.compile(r"[a-z][a-z0-9_]{2,}")
_SYMBOL = re.compile(
    r"#\s*define\s+(\w+)|\b(?:struct|class|enum)\s+(\w+)|getenv\(\s*\"(\w+)\"|\b([A-Za-z_]\w{3,})\s*(?:<[^<>()]*>)?\s*\("
)
_KEYWORDS = frozenset({"return", "sizeof", "while", "switch", "static_assert", "defined", "assert", "else", "catch"})
_MOST = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """A decision on a similar candidate. `share` is the similarity, from 0 to 1. `why` explains it in words."""

    decision: Decision
    share: float
    why: str


def symbols_of(diff: str) -> tuple[str, ...]:
    """Return the symbols in the changed lines of a diff, sorted.

    Symbols are functions, macros, types and environment variables. They are found with a regular expression, which can
    miss symbols. At most 400 symbols are returned.
    """
    found: set[str] = set()
    for line in diff.splitlines():
        if not line.startswith(("+", "-")) or line.startswith(("+++", "---")):
            continue
        for match in _SYMBOL.finditer(line[1:]):
            found.update(name for name in match.groups() if name and name not in _KEYWORDS)
    return tuple(sorted(found)[:_MOST])


def resembling(candidate: Candidate, decisions: Iterable[Decision]) -> tuple[Likeness, ...]:
    """Return the decisions on similar candidates, most similar first.

    The similarity is 1 for equal patch ids. Otherwise it is a weighted sum of the Jaccard indexes of the symbols (0.6),
    the files (0.25) and the words of the subject (0.15).
    """
    found = []
    for decision in decisions:
        best = max((_alike(candidate, other) for other in decision.candidates), default=(0.0, ""))
        if best[0] >= ALIKE:
            found.append(Likeness(decision=decision, share=best[0], why=best[1]))
    return tuple(sorted(found, key=lambda one: -one.share))


def _alike(one: Candidate, other: Candidate) -> tuple[float, str]:
    if one.patch_id and one.patch_id == other.patch_id:
        return 1.0, "the same change"
    symbols, files = frozenset(one.symbols), frozenset(one.files)
    words = frozenset(_WORD.findall(one.subject.casefold()))
    theirs = frozenset(_WORD.findall(other.subject.casefold()))
    share = (
        0.6 * _jaccard(symbols, frozenset(other.symbols))
        + 0.25 * _jaccard(files, frozenset(other.files))
        + 0.15 * _jaccard(words, theirs)
    )
    common = sorted(symbols & frozenset(other.symbols))[:4] or sorted(files & frozenset(other.files))[:2]
    return share, f"both are about {', '.join(common)}" if common else "their subjects are similar"


def _jaccard(one: AbstractSet[str], other: AbstractSet[str]) -> float:
    union = one | other
    return len(one & other) / len(union) if union else 0.0
