"""Define the three results of a check: it passed, it failed, or it could not be judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from patchstack.errors import Exit


class Verdict(StrEnum):
    """The result of a check.

    INVALID means that the check could not be judged, for example because output was lost or a tool is missing.
    """

    PASS = "PASS"  # noqa: S105  (a verdict, not a password)
    FAIL = "FAIL"
    INVALID = "INVALID"


def exit_code(verdicts: Iterable[Verdict]) -> Exit:
    """Return the exit status of a command with these verdicts.

    The status is 1 if any verdict is FAIL. Otherwise it is 4 if any is INVALID or there are no verdicts, and 0 if all
    are PASS.
    """
    seen = set(verdicts)
    if Verdict.FAIL in seen:
        return Exit.DOES_NOT_HOLD
    return Exit.INVALID if Verdict.INVALID in seen or not seen else Exit.HOLDS


def verdict_line(what: str, verdicts: Sequence[Verdict], excused: Sequence[Verdict] | None = None) -> str:
    """Return the last line of a command's output.

    The line contains the overall verdict, `what`, and the count of each verdict. `excused` contains the same verdicts,
    but with PASS in place of each verdict that does not count. If it is given, it determines the overall verdict.
    """
    codes = {Exit.HOLDS: Verdict.PASS, Exit.DOES_NOT_HOLD: Verdict.FAIL}
    whole = codes.get(exit_code(verdicts if excused is None else excused), Verdict.INVALID)
    told = ", ".join(f"{verdicts.count(one)} {one}" for one in Verdict if one in verdicts)
    return f"{whole}  {what}: {told}"
