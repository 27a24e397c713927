"""The page of a run against a server: the gaps that are drawn."""

from __future__ import annotations

from patchstack.report.serve_page import gaps_of
from patchstack.stats.serving import Stream


def a_stream(counts: tuple[int | None, ...], tokens: int | None) -> Stream:
    """Return a stream of three chunks, 6 ms apart."""
    times = (1_000_000, 7_000_000, 13_000_000)
    return Stream(start=0, sent=0, times=times, counts=counts, ended=times[-1], tokens=tokens, prompt=8)


def test_the_gap_of_a_chunk_is_shared_by_its_tokens() -> None:
    gaps = gaps_of([a_stream((1, 4, 6), 6), a_stream((None, None, None), 3)])
    assert gaps.chunks == [6.0] * 4
    assert gaps.tokens == [2.0] * 3 + [3.0] * 2 + [6.0] * 2


def test_a_stream_whose_tokens_are_not_known_has_gaps_of_chunks_alone() -> None:
    gaps = gaps_of([a_stream((None, None, None), 9)])
    assert (gaps.tokens, gaps.chunks) == ([], [6.0, 6.0])
