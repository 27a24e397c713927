"""The trailer at the end of a container's output, for all chunks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchstack.engine.lifeline import Ended, Trailer, Why

NONCE = "00ff"
PIECES = [b"\x1e", b"patchstack ", b"00ff ", b"\n", b"0 0\n", b"text", b"\x1epatchstack 00ff 1 "]


def fed(pieces: list[bytes]) -> tuple[bytes, Ended | None]:
    trailer = Trailer(NONCE)
    shown = b"".join(trailer.feed(piece) for piece in pieces)
    held, ended = trailer.end()
    return shown + held, ended


@given(
    output=st.lists(st.sampled_from(PIECES)),
    cuts=st.lists(st.integers(0, 200)),
    code=st.integers(0, 255),
)
def test_output_and_trailer_part_wherever_the_stream_is_cut(output: list[bytes], cuts: list[int], code: int) -> None:
    body = b"".join(output)
    stream = body + f"\x1epatchstack {NONCE} {code} 3\n".encode()
    at = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[one:other] for one, other in pairwise(at)]
    assert fed(pieces) == (body, Ended(code=code, oom_kills=3))


@given(pieces=st.lists(st.sampled_from([b"\x1e", b"patch", b"stack 00f", b"f 0", b" 0", b"\n", b"x" * 50])))
def test_without_a_trailer_nothing_of_the_output_is_lost(pieces: list[bytes]) -> None:
    shown, ended = fed(pieces)
    whole = b"".join(pieces)
    assert (shown == whole and ended is None) or (ended is not None and whole.startswith(shown))


@pytest.mark.parametrize("why", list(Why))
def test_a_trailer_may_say_why_there_is_no_code(why: Why) -> None:
    assert fed([f"\x1epatchstack {NONCE} {why} 0\n".encode()]) == (b"", Ended(code=why, oom_kills=0))


def test_a_line_is_shown_as_soon_as_it_is_there() -> None:
    trailer = Trailer(NONCE)
    assert trailer.feed(b"[1/7] Building\n") == b"[1/7] Building\n"
    assert trailer.feed(b"no newline") == b"no newline"
    assert not trailer.whole


def test_a_trailer_of_another_job_is_output() -> None:
    other = b"\x1epatchstack 1234 0 0\n"
    assert fed([other]) == (other, None)
