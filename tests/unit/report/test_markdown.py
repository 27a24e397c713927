"""Foreign text in Markdown is shown literally, and has no other effect."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from patchstack.report.text import block, code, cut, folded, printable, references, table

WORDS = st.lists(
    st.one_of(
        st.sampled_from(
            ["`", "```", "|", "\\", "<", ">", "&", "@me", "#1", "*", "_", "[", "](", "https://x.y", "\n", "~~~"]
        ),
        st.text(max_size=5),
    ),
    max_size=10,
).map("".join)

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@UNHURRIED
@given(text=WORDS)
def test_code_in_a_line_has_no_character_with_a_meaning_and_reads_as_the_text(text: str) -> None:
    written = code(text, width=10_000)
    if not written:
        assert not " ".join(text.split())
        return
    inside = written.removeprefix("<code>").removesuffix("</code>")
    assert not re.search(r"[`|\\<>@*_\[\]~!.:\"'#](?!\d+;)|&(?!#\d+;)|\n", inside), inside
    assert html.unescape(inside) == printable(" ".join(text.split()))


@UNHURRIED
@given(lines=st.lists(WORDS, max_size=6))
def test_a_block_ends_where_it_should_and_not_before(lines: list[str]) -> None:
    made = block(lines, "text")
    fence = re.match(r"`+", made[0])
    assert fence is not None
    inside = made[1:-1]
    assert made[-1] == fence.group(0)
    assert len(inside) == len(lines)
    assert all("\n" not in line and "\r" not in line for line in inside)
    assert not any(re.match(rf" {{0,3}}`{{{len(made[-1])},}}\s*\Z", line) for line in inside)


class _Seen(HTMLParser):
    """The tags and texts of a document, and the text of each cell of a table's body."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.cells: list[str] = []
        self.text = ""
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "td":
            self._inside = True
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "td"

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._inside:
            self.cells[-1] += data


def seen(lines: list[str]) -> _Seen:
    """Return the rendering of a Markdown reader, including HTML and tables."""
    found = _Seen()
    found.feed(MarkdownIt("commonmark", {"html": True}).enable("table").render("\n".join(lines)))
    found.close()
    return found


@UNHURRIED
@given(text=WORDS)
def test_a_cell_that_is_rendered_holds_the_text_and_nothing_but_the_text(text: str) -> None:
    shown = seen(table(["a", "b"], [[code(text, 10_000), "x"], ["y", code(text, 10_000)]]))
    said = printable(" ".join(text.split()))
    assert shown.tags <= {"table", "thead", "tbody", "tr", "th", "td", "code"}
    assert shown.cells == [said, "x", "y", said]


@UNHURRIED
@given(lines=st.lists(WORDS, min_size=1, max_size=6))
def test_a_block_that_is_rendered_holds_its_lines_and_nothing_behind_it(lines: list[str]) -> None:
    shown = seen([*block(lines, "text"), "", "behind"])
    assert shown.tags == {"pre", "code", "p"}
    assert shown.text.endswith("behind\n")
    assert shown.text.count("\n") == len(lines) + 2


def test_a_long_block_is_cut_and_counted() -> None:
    assert block(map(str, range(7)), limit=5) == ["```", "0", "1", "2", "3", "4", "... 2 more lines", "```"]


def test_a_long_line_is_cut() -> None:
    assert code("x" * 400) == f"<code>{'x' * 297}{'&#46;' * 3}</code>"


def test_text_beyond_ascii_stays_readable() -> None:
    assert references("Größe 漢字") == "Größe 漢字"


@pytest.mark.parametrize("size", range(120, 900, 13))
def test_a_cut_text_is_small_enough_and_closes_what_it_opened(size: int) -> None:
    lines = [
        "# head",
        *folded("a", block([f"line {n}" for n in range(30)], "diff")),
        *table(["a"], [["b"]] * 20),
        "end",
    ]
    text = cut(lines, size)
    assert len(text.encode()) <= max(size, 400)
    assert text.count("<details>") == text.count("</details>")
    assert sum(line.startswith("```") for line in text.split("\n")) % 2 == 0
    assert ("Cut here" in text) is (len("\n".join(lines)) + 1 > size)
