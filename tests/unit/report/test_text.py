"""Numbers and verdicts in sentences."""

from __future__ import annotations

from patchstack.report.text import counted, patch_count
from patchstack.verdict import Verdict, verdict_line

PASS, FAIL, INVALID = Verdict


def test_one_is_singular_and_all_others_are_plural() -> None:
    assert [patch_count(number) for number in (0, 1, 2)] == ["0 patches", "1 patch", "2 patches"]
    assert [counted(number, "file") for number in (0, 1, 2)] == ["0 files", "1 file", "2 files"]


def test_the_last_line_is_one_verdict_and_how_many_there_are_of_each() -> None:
    assert verdict_line("cpu: 3 gates", [PASS, FAIL, PASS]) == "FAIL  cpu: 3 gates: 2 PASS, 1 FAIL"
    assert verdict_line("cpu: 2 gates", [INVALID, PASS]) == "INVALID  cpu: 2 gates: 1 PASS, 1 INVALID"


def test_an_excused_verdict_is_counted_as_it_is_and_does_not_decide() -> None:
    assert verdict_line("x: 2 proofs", [INVALID, PASS], [PASS, PASS]) == "PASS  x: 2 proofs: 1 PASS, 1 INVALID"
