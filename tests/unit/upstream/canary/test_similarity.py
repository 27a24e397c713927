"""Common parts of two changes, and what can be found without comparing them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from patchstack.upstream.canary.similarity import bare_lines, changed_lines, growth, patch_ids
from patchstack.upstream.merge.text import edits

LINES = st.lists(st.sampled_from([b"}", b"  int a;", b"call(one);", b"call(two);"]), max_size=8)


def text(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


@given(before=LINES, after=LINES, above=st.integers(0, 5))
def test_changes_of_one_patch_id_grow_alike(before: list[bytes], after: list[bytes], above: int) -> None:
    head = [b"head();"] * 4
    one = [(b"a.c", text([*head, *before]), text([*head, *after]))]
    moved = [b"other();"] * above + head
    indented = [[b"\t" + line.replace(b" ", b"  ") for line in side] for side in (before, after)]
    other = [(b"a.c", text([*moved, *indented[0]]), text([*moved, *indented[1]]))]
    assert growth(one) == growth(other)
    assert patch_ids(one) & patch_ids(other)


@given(before=LINES, after=LINES)
def test_a_change_adds_no_line_that_is_not_there_then(before: list[bytes], after: list[bytes]) -> None:
    old, new = text(before), text(after)
    found = changed_lines([(old.split(b"\n"), new.split(b"\n"), edits(old + b"\n", new + b"\n"))])
    assert {line for sign, line in found if sign == b"+"} <= set(bare_lines(new))
    assert {line for sign, line in found if sign == b"-"} <= set(bare_lines(old))


def test_a_change_that_grows_otherwise_has_another_patch_id() -> None:
    one = [(b"a.c", b"a\n", b"a\nb\n")]
    other = [(b"a.c", b"a\n", b"a\nbb\n")]
    assert growth(one) != growth(other)
    assert not patch_ids(one) & patch_ids(other)
