"""The next step for a series, and numbers as spans: pure decisions."""

from __future__ import annotations

import pytest

from patchstack.series.files.names import spans
from patchstack.series.status.next_step import NOTHING, LockWord, Situation, next_step


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((), ""),
        ((1,), "0001"),
        ((1, 2, 4), "0001-0002, 0004"),
        (range(1, 40, 2), "0001, 0003, 0005, 0007, 0009, 0011, 0013, 0015, 0017, 0019, 0021, 0023, 8 more"),
    ],
)
def test_numbers_are_told_as_spans(numbers: tuple[int, ...], text: str) -> None:
    assert spans(numbers) == text


OLD, NEW = "a" * 40, "b" * 40
FORKED = {"series": "s", "pin": NEW, "fork": "./fork", "fork_ref": "it's"}
ALONE = {"series": "s", "pin": NEW}
EXPORT = "patchstack export s"
VERIFY = "patchstack verify s --keep-going"


@pytest.mark.parametrize(
    ("facts", "step"),
    [
        (FORKED, NOTHING),
        (ALONE, NOTHING),
        (FORKED | {"lint_clean": False}, "patchstack lint s shows what to fix, or to waive with a reason"),
        (FORKED | {"lint_clean": False, "lock": LockWord.STALE}, EXPORT),
        (FORKED | {"lock": LockWord.ABSENT}, EXPORT),
        (FORKED | {"lock": LockWord.STALE}, EXPORT),
        (FORKED | {"lock": LockWord.OTHER_PIN}, EXPORT),
        (FORKED | {"patches": 0, "holds": False}, EXPORT),
        (FORKED | {"patches": 0, "holds": None}, EXPORT),
        (FORKED | {"holds": False, "drift": frozenset({"behind"}), "lock": LockWord.STALE}, EXPORT),
        (FORKED | {"holds": False, "drift": frozenset({"behind"}), "lock": LockWord.ABSENT}, EXPORT),
        (FORKED | {"holds": False, "drift": frozenset({"edited"}), "lock": LockWord.STALE}, EXPORT),
        (
            FORKED | {"holds": False, "drift": frozenset({"edited"}), "pristine": False},
            f"{VERIFY} shows what the fork lacks",
        ),
        (
            FORKED | {"holds": False, "drift": frozenset({"stray"}), "lock": LockWord.ABSENT},
            f"{VERIFY} shows what the fork",
        ),
        (FORKED | {"holds": None, "lock": LockWord.ABSENT}, EXPORT),
        (
            FORKED | {"fork": "https://example.com/f", "lock": LockWord.ABSENT},
            "clone https://example.com/f, name the clone",
        ),
        (FORKED | {"holds": False, "applies": False}, f"{VERIFY} shows which patches do not apply"),
        (FORKED | {"holds": False, "applies": False, "lock": LockWord.OTHER_PIN}, EXPORT),
        (FORKED | {"holds": False, "applies": False, "lock": LockWord.OTHER_PIN, "pristine": False}, VERIFY),
        (ALONE | {"holds": False, "applies": False, "lock": LockWord.OTHER_PIN}, VERIFY),
        (ALONE | {"holds": False}, f"{VERIFY} shows what differs from the export"),
        (ALONE | {"holds": None, "lock": LockWord.ABSENT}, "add fork and fork_ref to patchstack.yaml"),
        (FORKED | {"merges": True, "holds": False}, "rebase the fork onto the pin"),
        (
            FORKED | {"lock": LockWord.UNUSABLE},
            f"restore series.lock from version control; or remove it and {EXPORT}",
        ),
        (ALONE | {"lock": LockWord.UNUSABLE, "holds": None}, "restore series.lock from version control"),
        (FORKED | {"way_out": "clone it", "holds": None}, "clone it"),
        (FORKED | {"way_out": "merge-base tells", "off_pin": True, "holds": False}, "merge-base tells"),
        (
            FORKED | {"way_out": "x", "off_pin": True, "lock": LockWord.OTHER_PIN, "lock_pin": OLD},
            f"fetch the pin into the fork, git -C ./fork rebase --onto {NEW[:12]} {OLD[:12]} 'it'\"'\"'s', then "
            f"{EXPORT}",
        ),
    ],
)
def test_the_next_step_follows_from_the_situation(facts: dict[str, object], step: str) -> None:
    told = next_step(Situation(**facts))  # type: ignore[arg-type]
    assert told == step or (told.startswith(step) and step not in (EXPORT, NOTHING)), told
