"""The reader of event streams: the same events for every split of a stream."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchstack.llama.client.events import MOST_LINE, BadStream, Event, EventReader

_LINES = st.sampled_from(
    [
        "data: a",
        "data:b",
        "data",
        "data:  c",
        "event: error",
        "id: 1",
        "retry: 5",
        ": comment",
        ":",
        "",
        "",
        "é: x",
        "data: ü",
    ]
)


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[str]]:
    """Draw a stream and its lines."""
    lines = draw(st.lists(_LINES, max_size=20))
    start = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    ends = [draw(st.sampled_from(["\n", "\r\n", "\r"])) for _ in lines]
    # CR LF is one line end, so an empty line that ends with LF must not follow a lone CR.
    for at in range(1, len(lines)):
        if not lines[at] and ends[at - 1] == "\r" and ends[at] == "\n":
            ends[at] = "\r"
    return start + "".join(a + b for a, b in zip(lines, ends, strict=True)).encode(), lines


def expected(lines: list[str]) -> list[Event]:
    """Return the events of lines by the specification, with a different algorithm than ours."""
    found = []
    data: list[str] = []
    name = ""
    for line in lines:
        if line == "":
            if data:
                found.append(Event("\n".join(data).encode(), name or "message"))
            data, name = [], ""
        elif not line.startswith(":"):
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "data":
                data.append(value)
            elif field == "event":
                name = value
    return found


@given(streams(), st.lists(st.integers(0, 400)))
def test_however_a_stream_is_split_its_events_are_the_same(whole: tuple[bytes, list[str]], cuts: list[int]) -> None:
    content, lines = whole
    places = sorted(min(cut, len(content)) for cut in cuts)
    pieces = [content[a:b] for a, b in zip([0, *places], [*places, len(content)], strict=True)]
    for several in (pieces, [content], [content[at : at + 1] for at in range(len(content))]):
        reader = EventReader()
        found = [event for piece in several for event in reader.feed(piece)]
        assert found == expected(lines)
        assert reader.comments == sum(line.startswith(":") for line in lines)


@pytest.mark.parametrize(
    "content",
    [
        b"data: a\n\nevent: error\ndata: b\n\ndata: c\n\n",
        b"data: a\r\n\r\ndata: b\n\n: x\n\ndata: c\n\n",
        b"\xef\xbb\xbfdata: a\n\n\ndata: b\ndata: c\n\n\r\n",
    ],
)
def test_a_piece_that_is_one_event_is_read_as_any_other_piece(content: bytes) -> None:
    """Every split in three: a piece that looks like one event may follow any state of the reader."""
    whole = EventReader().feed(content)
    for first, second in combinations(range(len(content) + 1), 2):
        reader = EventReader()
        pieces = (content[:first], content[first:second], content[second:])
        assert [event for piece in pieces for event in reader.feed(piece)] == whole


@given(st.lists(st.binary(max_size=40)))
def test_no_input_gives_anything_but_events(pieces: list[bytes]) -> None:
    reader = EventReader()
    for piece in pieces:
        reader.feed(piece)


def test_an_event_is_given_with_its_last_byte() -> None:
    reader = EventReader()
    assert reader.feed(b"data: 1\r\n\r") == [Event(b"1")]
    assert reader.feed(b"\ndata: 2\n") == []
    assert reader.unfinished()
    assert reader.feed(b"\n") == [Event(b"2")]
    assert not reader.unfinished()


@pytest.mark.parametrize("content", [b"data: " + b"x" * (10 << 20), b"data: " + (b"x" * 1000 + b"\ndata: ") * 10_000])
def test_a_line_or_an_event_without_an_end_is_refused(content: bytes) -> None:
    reader = EventReader()
    with pytest.raises(BadStream, match=f"over {MOST_LINE >> 20} MiB"):
        for at in range(0, len(content), 1 << 16):
            reader.feed(content[at : at + (1 << 16)])
