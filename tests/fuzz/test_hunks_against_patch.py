"""Fuzz: GNU patch judges the place of a hunk, its fuzz, and the result."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from patchstack.git.patch.fuzz import Placed, place_with_fuzz
from patchstack.git.patch.text import read_text
from tests.support.builders import numbered
from tests.support.oracle import hermetic_environment
from tests.support.quilt import needs_quilt

_SAID = re.compile(r"Hunk #(\d+) succeeded at (\d+)(?: with fuzz (\d+))?")


def diff(directory: Path, before: bytes, after: bytes, context: int = 3) -> bytes:
    """Return GNU diff's output for two texts, with names for -p1."""
    (directory / "before").write_bytes(before)
    (directory / "after").write_bytes(after)
    ran = subprocess.run(
        ["diff", f"-U{context}", "--label", "a/f", "--label", "b/f", "before", "after"],
        cwd=directory,
        capture_output=True,
        env=hermetic_environment(),
    )
    return ran.stdout


def by_patch(directory: Path, content: bytes, patch: bytes, fuzz: int = 2) -> tuple[bytes, dict[int, int]] | None:
    """Return GNU patch's result, and the fuzz of each hunk that needed some; None if it refuses one."""
    file = directory / "f"
    file.write_bytes(content)
    ran = subprocess.run(
        ["patch", "-p1", f"-F{fuzz}", "-N", "-f", "--no-backup-if-mismatch", "-r-"],
        cwd=directory,
        input=patch,
        capture_output=True,
        env=hermetic_environment(),
    )
    if ran.returncode:
        return None
    said = {int(hunk): int(fuzz or 0) for hunk, _, fuzz in _SAID.findall(ran.stdout.decode())}
    return file.read_bytes(), {hunk: fuzz for hunk, fuzz in said.items() if fuzz}


def ours(content: bytes, patch: bytes) -> tuple[bytes, dict[int, int]] | None:
    [file] = read_text(patch).files
    placed = place_with_fuzz(content, file.hunks)
    if not isinstance(placed, Placed):
        return None
    return placed.content, {n: place.fuzz for n, place in enumerate(placed.places, 1) if place.fuzz}


def test_lines_of_context_that_changed_need_fuzz(tmp_path: Path) -> None:
    patch = diff(tmp_path, numbered(20).encode(), numbered(20, {10: "ten"}).encode())
    for changed, fuzz in (({7: "x"}, 1), ({8: "x"}, 2), ({9: "x"}, None), ({13: "x"}, 1), ({7: "x", 13: "y"}, 1)):
        content = numbered(20, changed).encode()
        found = ours(content, patch)
        if fuzz is None:
            assert found is None
        else:
            assert found == (numbered(20, {**changed, 10: "ten"}).encode(), {1: fuzz})


LINES = st.lists(st.sampled_from([b"a", b"b", b"c", b"{", b"}", b""]), max_size=14)


@st.composite
def cases(draw: st.DrawFn) -> tuple[bytes, bytes, bytes, int]:
    """Draw a text, its new version, a third version for the patch to meet, and the context of the diff."""

    def edited(lines: list[bytes], most: int) -> list[bytes]:
        result = list(lines)
        for _ in range(draw(st.integers(0, most))):
            at = draw(st.integers(0, len(result)))
            match draw(st.sampled_from(["put", "take", "change"])):
                case "put":
                    result.insert(at, draw(st.sampled_from([b"x", b"a", b"y", b""])))
                case "take":
                    del result[at : at + 1]
                case _:
                    result[at : at + 1] = [draw(st.sampled_from([b"x", b"z", b"b"]))]
        return result

    def text(lines: list[bytes]) -> bytes:
        ends = draw(st.sampled_from([b"\n", b"\n", b"\n", b""])) if lines else b""
        return b"\n".join(lines) + ends

    lines = draw(LINES)
    return text(lines), text(edited(lines, 3)), text(edited(lines, 3)), draw(st.sampled_from([1, 2, 3, 3]))


@needs_quilt
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=cases())
def test_hunks_go_where_gnu_patch_puts_them(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[bytes, bytes, bytes, int]
) -> None:
    before, after, there, context = case
    assume(before != after and before and after)
    directory = tmp_path_factory.getbasetemp() / "fuzz"
    directory.mkdir(exist_ok=True)
    patch = diff(directory, before, after, context)
    found = ours(there, patch)
    assume(found is not None or there.endswith(b"\n"))  # GNU patch joins lines there, and patchstack refuses
    assert found == by_patch(directory, there, patch)


@needs_quilt
def test_nothing_is_added_after_a_last_line_without_newline(tmp_path: Path) -> None:
    patch = diff(tmp_path, b"a\nb\n", b"a\na\nb\n", 1)
    assert by_patch(tmp_path, b"b", patch) == (b"ba\n", {1: 1})
    assert ours(b"b", patch) is None
