"""The three results of a check: it passed, it failed, or it could not be judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from patchstack.errors import Exit


class Verdict(StrEnum):
    """PASS and FAIL are judgements; INVALID means that none could be made (lost output, a missing tool)."""

    PASS = "PASS"  # noqa: S105  (a verdict, not a password)
    FAIL = "FAIL"
    INVALID = "INVALID"


def exit_code(verdicts: Iterable[Verdict]) -> Exit:
    """Return the exit status of a command: 1 for any FAIL, otherwise 4 for any INVALID or no verdicts, otherwise 0."""
    seen = set(verdicts)
    if Verdict.FAIL in seen:
        return Exit.DOES_NOT_HOLD
    return Exit.INVALID if Verdict.INVALID in seen or not seen else Exit.HOLDS


def verdict_line(what: str, verdicts: Sequence[Verdict], excused: Sequence[Verdict] | None = None) -> str:
    """Return the last line of a command's output: the overall verdict, and the count of each verdict. `excused` are the
    verdicts after some were excused; if given, they determine the overall verdict.
    """
    codes = {Exit.HOLDS: Verdict.PASS, Exit.DOES_NOT_HOLD: Verdict.FAIL}
    whole = codes.get(exit_code(verdicts if excused is None else excused), Verdict.INVALID)
    told = ", ".join(f"{verdicts.count(one)} {one}" for one in Verdict if one in verdicts)
    return f"{whole}  {what}: {told}"
