"""Numbers are names: the patch of each commit, and the number that it gets."""

from __future__ import annotations

from collections import Counter

import pytest

from patchstack.errors import NotHeldError
from patchstack.series.mirror.number import Coming, Known, assign_numbers, changed_lines, identify


def known(*numbers: int) -> list[Known]:
    return [Known(number=n, commit=f"c{n:039d}", patch_id=f"p{n}", subject=f"s{n}", data=text(n)) for n in numbers]


def coming(*names: str) -> list[Coming]:
    """Return commits by name: `7` is patch 7's commit, `7'` a rewritten one with its subject, `x` a new one."""
    made = []
    for position, name in enumerate(names):
        number = name.rstrip("'")
        old = number.isdigit()
        rewritten = name.endswith("'") or not old
        made.append(
            Coming(
                commit=f"d{position:039d}" if rewritten else f"c{int(number):039d}",
                patch_id=f"q{position}" if rewritten else f"p{number}",
                subject=f"s{number}",
                data=text(int(number)) if old else patch(name, [name]),
            )
        )
    return made


def text(number: int, lines: range = range(10)) -> bytes:
    return patch("f", [f"line {number} {i}" for i in lines])


def patch(file: str, added: list[str]) -> bytes:
    lines = "".join(f"+{line}\n" for line in added)
    head = f"diff --git a/{file} b/{file}\n--- a/{file}\n+++ b/{file}\n@@ -0,0 +1,{len(added)} @@\n"
    return f"Subject: x\n\n{head}{lines}".encode()


def numbers(
    old: list[Known], new: list[Coming], retired: tuple[int, ...] = ()
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return assign_numbers(old, identify(old, new).known_of, retired)


@pytest.mark.parametrize(
    ("old", "new", "given", "retired"),
    [
        ((), "a b c", (1, 2, 3), ()),
        ((1, 2, 3), "1 2 3", (1, 2, 3), ()),
        ((4, 9, 41), "4 9 41", (4, 9, 41), ()),
        ((1, 2, 3), "1' 2' 3'", (1, 2, 3), ()),
        ((1, 2, 3), "1 2 3 x", (1, 2, 3, 4), ()),
        ((1, 2, 3), "1 3", (1, 3), (2,)),
        ((1, 2, 3), "1 2", (1, 2), (3,)),
        ((1, 5), "1 x 5", (1, 3, 5), ()),
        ((1, 10), "1 x y 10", (1, 4, 8, 10), ()),
        ((3, 5), "x 3 5", (2, 3, 5), ()),
        ((10, 20, 30), "10 30 20", (10, 20, 31), (30,)),
        ((10, 20, 30, 40), "20 10 30 40", (10, 15, 30, 40), (20,)),
    ],
)
def test_a_patch_keeps_its_number_and_a_new_one_takes_a_free_gap(
    old: tuple[int, ...], new: str, given: tuple[int, ...], retired: tuple[int, ...]
) -> None:
    names = new.split()
    got, gone = numbers(known(*old), coming(*names))
    assert list(got) == sorted(got)
    order = [int(name.rstrip("'")) for name in names if name[0].isdigit()]
    if order == sorted(order):
        assert (got, gone) == (given, retired)
    else:
        # If two commits change places, either may keep its number; the number of the other is retired.
        assert sum(number == int(name) for name, number in zip(names, got, strict=True)) == len(names) - 1
        assert len(gone) == 1


def test_a_retired_number_is_never_given_again() -> None:
    assert numbers(known(1, 2), coming("1", "2", "x"), retired=(3, 4)) == ((1, 2, 5), (3, 4))
    assert numbers(known(1, 4), coming("1", "x", "4"), retired=(2,)) == ((1, 3, 4), (2,))


def test_a_gap_that_is_too_small_is_refused_and_named() -> None:
    with pytest.raises(NotHeldError, match="too few free numbers") as raised:
        numbers(known(1, 2, 4), coming("1", "x", "2", "y", "z", "4"))
    assert raised.value.problems == (
        "1 patch for the gap between 0001 and 0002",
        "2 patches for the gap between 0002 and 0004",
    )
    assert "--renumber" in str(raised.value.hint)


def test_a_split_commit_stays_the_larger_half() -> None:
    old = known(7)
    large = Coming(commit="a" * 40, patch_id="x", subject="one half", data=text(7, range(8)))
    small = Coming(commit="b" * 40, patch_id="y", subject="other half", data=text(7, range(8, 10)))
    assert identify(old, [small, large]).known_of == (None, 0)


def test_two_commits_as_alike_to_one_patch_are_not_guessed_at() -> None:
    old = known(7)
    twin = Coming(commit="a" * 40, patch_id="x", subject="one", data=old[0].data)
    other = Coming(commit="b" * 40, patch_id="y", subject="two", data=old[0].data)
    identity = identify(old, [twin, other])
    assert identity.known_of == (None, None)
    assert "may be patch 0007" in identity.ambiguous[0]
    assert identify(old, [twin, other], {7: "bbbb"}).known_of == (None, 0)


def test_same_that_names_nothing_is_refused() -> None:
    with pytest.raises(NotHeldError, match="--same 8=abcd: no such patch or commit"):
        identify(known(7), coming("7"), {8: "abcd"})


def test_only_lines_of_hunks_count_as_changed() -> None:
    """A message, file names and a signature are not a change; a line that looks like a file name is one."""
    data = text(7, range(2)).replace(b"Subject: x\n", b"Subject: x\n\n- an item\n+ another\n") + b"-- \n2.39.5\n"
    assert changed_lines(data) == Counter([b"+line 7 0", b"+line 7 1"])
    assert changed_lines(patch("a.sql", ["++ b/x", "", "-- a comment"])) == Counter([b"+++ b/x", b"+-- a comment"])
