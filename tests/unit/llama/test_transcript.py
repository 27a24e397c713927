"""Transcripts: complete output, the first difference of two, and valid digests."""

from __future__ import annotations

import pytest

from patchstack.llama.program import GRAPHS_REUSED, MEMORY_BREAKDOWN
from patchstack.llama.transcript import difference, md5_of, reference_problem, sha256_of
from patchstack.observe.sentinel import sentinel_missing
from tests.support.checkout import DATA

LLAMA = DATA / "llama"
WHOLE = (LLAMA / "completion.stderr").read_bytes()
TEXT = (LLAMA / "completion.stdout").read_bytes()


@pytest.mark.parametrize("name", ["completion.stderr", "completion-verbose.stderr"])
def test_the_sentinel_is_found_in_what_the_tool_printed_whatever_follows_it(name: str) -> None:
    stderr = (LLAMA / name).read_bytes()
    assert sentinel_missing(stderr, GRAPHS_REUSED) is None
    assert sentinel_missing(stderr.replace(b"0.0", b"\x1b[34m0.0\x1b[0m"), GRAPHS_REUSED) is None
    cut = stderr[: stderr.index(b"graphs reused") + 20]
    assert sentinel_missing(cut, GRAPHS_REUSED) is not None, "half a line is not the line"


def test_the_sentinel_of_perplexity_is_in_verbose_output_alone() -> None:
    assert sentinel_missing((LLAMA / "completion-verbose.stderr").read_bytes(), MEMORY_BREAKDOWN) is None
    assert sentinel_missing(WHOLE, MEMORY_BREAKDOWN) is not None


@pytest.mark.parametrize(
    ("expected", "actual", "told"),
    [
        (b"abc", b"abd", "first difference at character 2: after 'ab', 'c' became 'd'"),
        (b"abc", b"ab", "first difference at character 2: after 'ab', 'c' became the end"),
        (b"", b"x", "first difference at character 0: the end became 'x'"),
        (b"a\xff", b"a\xfe", "first difference at character 1: after 'a', '\\\\xff' became '\\\\xfe'"),
        ("é1".encode(), "é2".encode(), "first difference at character 1: after 'é', '1' became '2'"),
    ],
)
def test_a_difference_is_told_by_position_and_surroundings(expected: bytes, actual: bytes, told: str) -> None:
    assert told in str(difference(expected, actual))
    assert difference(expected, expected) is None


def test_only_digests_of_something_are_references() -> None:
    assert reference_problem(md5_of(TEXT)) is None
    assert reference_problem(sha256_of(TEXT)) is None
    assert reference_problem(md5_of(TEXT).upper()) is not None


# Settings
