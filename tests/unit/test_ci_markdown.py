"""Foreign text in Markdown says itself and nothing else."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchstack.report.foreign import block, code, cut, folded, references, table
from patchstack.report.text import printable

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
