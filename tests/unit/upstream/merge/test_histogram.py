"""The histogram diff, with git's as the judge."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchstack.upstream.merge import histogram as module
from patchstack.upstream.merge.histogram import Edit, Index, histogram
from patchstack.upstream.merge.text import edits, myers
from tests.support.builders import run_git
from tests.support.texts import repository_of_texts

_SIDES = ("old", "new")
_LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"}\n", b"\n"]), max_size=30)


def by_git(directory: Path, pairs: list[tuple[bytes, bytes]]) -> list[list[Edit]]:
    """Return the edits that `git diff --histogram` finds between texts, without the indent heuristic, as in merges."""
    texts = [
        (f"{name}{at}", text, None) for at, pair in enumerate(pairs) for name, text in zip(_SIDES, pair, strict=True)
    ]
    repository = repository_of_texts(directory, texts)
    found = []
    for number in range(len(pairs)):
        # With a line of context: without any, git removes equal ends of both files before the comparison.
        shown = run_git(
            *("diff", "--no-color", "-U1", "--histogram", "--no-indent-heuristic", f"old{number}", f"new{number}"),
            cwd=repository,
        )
        found.append(parsed(shown.stdout))
    return found


def parsed(diff: bytes) -> list[Edit]:
    found: list[Edit] = []
    at = to = 0
    last = b" "
    for line in diff.split(b"\n"):
        header = re.match(rb"@@ -(\d+)(,0)?(?:,\d+)? \+(\d+)(,0)?(?:,\d+)? @@", line)
        if header:
            at, to = int(header[1]) - (not header[2]), int(header[3]) - (not header[4])
            last = b" "
        elif line[:1] in (b"-", b"+") and line[:4] not in (b"--- ", b"+++ "):
            if last == b" ":
                found.append(Edit(at, 0, to, 0))
            edit, gone = found[-1], line[:1] == b"-"
            found[-1] = edit._replace(removed=edit.removed + gone, added=edit.added + (not gone))
            at, to = at + gone, to + (not gone)
            last = line[:1]
        elif line[:1] == b" ":
            at, to, last = at + 1, to + 1, b" "
    return found


def test_the_edits_are_git_s(tmp_path: Path) -> None:
    draw = random.Random(3)
    pairs = []
    for _ in range(120):
        alphabet = [b"line %d\n" % number for number in range(draw.choice((2, 3, 9, 60)))]
        old = [draw.choice(alphabet) for _ in range(draw.randint(1, draw.choice((8, 40, 150))))]
        new = list(old)
        for _ in range(draw.randint(1, 5)):
            at = draw.randrange(len(new) + 1)
            if draw.random() < 0.3:
                new[at:at] = new[draw.randrange(len(new) + 1) :][:12]
            else:
                new[at : at + draw.randint(0, 5)] = [draw.choice(alphabet) for _ in range(draw.randint(0, 5))]
        if old != new:
            pairs.append((b"".join(old), b"".join(new)))
    told = by_git(tmp_path, pairs)
    assert [list(edits(*pair)) for pair in pairs] == told
    assert [list(myers(*pair)) for pair in pairs] != told, "pairs that tell one algorithm from the other"


@settings(deadline=None)
@given(_LINES, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 4), _LINES), max_size=6))
def test_what_an_index_remembers_of_other_versions_changes_nothing(
    old: list[bytes], steps: list[tuple[int, int, list[bytes]]]
) -> None:
    index = Index(old, worth=1)
    new = list(old)
    for at, removed, lines in steps:
        new[at : at + removed] = lines[:3]
        for _ in range(2):
            assert histogram(old, new, index) == histogram(old, new)


def test_an_index_forgets_the_oldest_regions() -> None:
    old = [b"%d" % number for number in range(1000)]
    index = Index(old)
    marks = bytes(1000), bytes(1000)
    count = Index.LIMIT // 20_000 + 10
    for number in range(count):
        index.keep(number, number + 1000, old, marks)
    assert index.marks(count - 1, count + 999, old) == marks
    assert index.marks(0, 1000, old) is None


def test_an_index_keeps_the_last_result_of_a_region() -> None:
    old = [b"a", b"b"]
    index = Index(old)
    for lines, marks in (([b"a"], (b"\0\1", b"\0")), ([b"b"], (b"\1\0", b"\0"))):
        for _ in range(3):
            index.keep(0, 2, lines, marks)
            assert index.marks(0, 2, lines) == marks
    assert index.marks(0, 2, [b"a"]) is None
    assert index.marks(0, 1, [b"b"]) is None


@given(_LINES, _LINES)
def test_the_edits_turn_one_text_into_the_other(old: list[bytes], new: list[bytes]) -> None:
    made: list[bytes] = []
    at = 0
    for edit in edits(b"".join(old), b"".join(new)):
        made += old[at : edit.at]
        assert len(made) == edit.to
        made += new[edit.to : edit.to + edit.added]
        at = edit.at + edit.removed
    assert made + old[at:] == new


def test_beyond_its_limit_the_rest_is_left_to_myers(monkeypatch: pytest.MonkeyPatch) -> None:
    old = b"".join(b"%d\n" % number for number in range(60))
    new = old.replace(b"20\n", b"x\n").replace(b"40\n", b"y\nz\n")
    whole = edits(old, new)
    monkeypatch.setattr(module, "_LEAST", 0)
    monkeypatch.setattr(module, "_OFTEN", 1)
    assert edits(old, new) == whole == myers(old, new)
