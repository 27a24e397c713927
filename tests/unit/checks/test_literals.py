"""Texts that a pattern needs: every match has one of them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchstack.checks.literals import needed_texts
from patchstack.checks.scan import compiled


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        (r"\bcells\.rm\(", {b"cells.rm("}),
        (r"\b(?:_exit|quick_exit)\(", {b"_exit", b"quick_exit"}),
        (r"class (\w+) : public llama_memory_i\b", {b" : public llama_memory_i"}),
        (r"(?:abc)+x?", {b"abc"}),
        (r"(?:abc)?", set()),
        (r"a|\w", set()),
        (r"(?i)abc", set()),
        (r"(?i:abc)def", {b"def"}),
        (r"[a-z]+", set()),
    ],
)
def test_texts_of_patterns(pattern: str, texts: set[bytes]) -> None:
    assert set(needed_texts(compiled(pattern))) == texts


ATOM = st.sampled_from(["a", "ab", "b", r"\w", ".", "[ab]", "c*", "(?:ab)+", "(a|bc)", "(?:a|b)?", r"\b", "(?=a)", "é"])


@given(st.lists(ATOM, min_size=1, max_size=5).map("".join), st.text(alphabet="abcdé ", max_size=20))
def test_what_a_pattern_matches_has_one_of_its_texts(pattern: str, text: str) -> None:
    try:
        made = compiled(pattern)
    except re.error:
        return
    needed = needed_texts(made)
    if needed and made.search(text):
        assert any(one in text.encode() for one in needed)
