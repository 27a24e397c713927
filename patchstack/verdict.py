"""The three answers of a check: it holds, it does not, or it could not be judged."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from patchstack.errors import Exit


class Verdict(StrEnum):
    """PASS and FAIL are judgements; INVALID says that none could be made (lost output, a tool that is not there)."""

    PASS = "PASS"  # noqa: S105  (a verdict, not a password)
    FAIL = "FAIL"
    INVALID = "INVALID"


def exit_code(verdicts: Iterable[Verdict]) -> Exit:
    """What a command exits with: 1 for any FAIL, else 4 for any INVALID or for no verdict at all, else 0."""
    seen = set(verdicts)
    if Verdict.FAIL in seen:
        return Exit.DOES_NOT_HOLD
    return Exit.INVALID if Verdict.INVALID in seen or not seen else Exit.HOLDS
