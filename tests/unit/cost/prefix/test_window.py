"""The cells of a cache with a window keep what the window needs, and no cell twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from patchstack.cost.prefix.slots import WindowCells


@given(
    window=st.integers(1, 20),
    chunked=st.booleans(),
    steps=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 12), st.integers(0, 10)), max_size=30),
)
def test_positions_are_contiguous_and_the_window_is_whole(
    window: int, chunked: bool, steps: list[tuple[int, int, int]]
) -> None:
    cells = WindowCells(64, window, chunked=chunked)
    ends = [0, 0]
    for sequence, count, back in steps:
        start = max(0, ends[sequence] - back)
        kept = cells.where.get(sequence, {})
        if start and start - 1 not in kept:  # earlier cells are gone: begin again
            start = 0
        cells.remove(sequence, start)
        assert cells.add(sequence, range(start, start + count))
        ends[sequence] = start + count
        for one in (0, 1):
            held = sorted(cells.where.get(one, ()))
            assert held == list(range(held[0], held[-1] + 1)) if held else True
        last = ends[sequence] - 1
        assert cells.last(sequence) == last
        first_needed = last // window * window if chunked else max(0, last - window + 1)
        assert cells.kept(sequence) == [one for one in sorted(cells.where[sequence]) if one >= first_needed]
        assert cells.used == sum(len(one) for one in cells.where.values()) <= 64
    used = [cell for one in cells.where.values() for cell in one.values()]
    assert len(used) == len(set(used))


def test_what_does_not_fit_changes_nothing() -> None:
    cells = WindowCells(8, 8)
    assert cells.add(0, range(8))
    assert not cells.add(1, range(4))
    assert (cells.last(0), cells.first(1)) == (7, -1)
