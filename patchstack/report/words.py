"""Numbers in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from patchstack.errors import Exit
from patchstack.verdict import Verdict, exit_code


def counted(number: int, one: str, many: str = "") -> str:
    """The number with its noun: `1 patch`, `2 patches`. `many` is needed if it is not `one` and an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def patch_count(number: int) -> str:
    """`1 patch`, `2 patches`."""
    return counted(number, "patch", "patches")


def verdict_line(what: str, verdicts: Sequence[Verdict], excused: Sequence[Verdict] | None = None) -> str:
    """The last line of a command that judges: one verdict, and how many there are of each.

    `excused` are the verdicts that count if some of them were excused.
    """
    codes = {Exit.HOLDS: Verdict.PASS, Exit.DOES_NOT_HOLD: Verdict.FAIL}
    whole = codes.get(exit_code(verdicts if excused is None else excused), Verdict.INVALID)
    told = ", ".join(f"{verdicts.count(one)} {one}" for one in Verdict if one in verdicts)
    return f"{whole}  {what}: {told}"
