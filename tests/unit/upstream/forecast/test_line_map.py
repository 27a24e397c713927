"""Following lines from one version of a text to another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from patchstack.upstream.forecast.line_map import before, behind, distance
from patchstack.upstream.merge.histogram import Edit
from patchstack.upstream.merge.text import edits

LINES = st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), max_size=12)


@given(old=LINES, new=LINES, data=st.data())
def test_lines_that_no_edit_touches_are_found_again(old: list[bytes], new: list[bytes], data: st.DataObject) -> None:
    made = edits(b"".join(line + b"\n" for line in old), b"".join(line + b"\n" for line in new))
    start = data.draw(st.integers(0, len(old)))
    end = data.draw(st.integers(start, len(old)))
    there = behind((start, end), made)
    assert 0 <= there[0] <= there[1] <= len(new)
    if all(edit.at + edit.removed < start or edit.at > end for edit in made):
        assert new[there[0] : there[1]] == old[start:end]
        assert before(there, made) == (start, end)


def test_an_edit_that_meets_the_lines_counts_whole() -> None:
    longer = [Edit(5, 2, 5, 6)]
    assert behind((6, 10), longer) == (5, 14)
    assert before((8, 14), longer) == (5, 10)


def test_what_was_inserted_was_nowhere_before() -> None:
    assert before((3, 5), [Edit(2, 0, 2, 10)]) == (2, 2)


def test_the_distance_is_that_of_the_lines_between() -> None:
    edit = Edit(0, 0, 10, 4)
    assert [distance(edit, one) for one in ((0, 5), (0, 10), (12, 13), (14, 20), (19, 20))] == [5, 0, 0, 0, 5]
