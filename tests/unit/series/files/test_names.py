"""Names of patch files: reading and making them, and that only one module knows the suffixes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchstack.errors import ConfigError
from patchstack.series.files import names
from patchstack.series.files.names import (
    cut_slug,
    in_form,
    is_anchored,
    is_patch,
    looks_like_patch,
    make_name,
    number_of,
    slug_of,
    title_of,
)
from patchstack.series.files.order import has_patches, patch_names
from tests.support.checkout import ROOT


@pytest.mark.parametrize(
    ("file", "number", "slug", "title"),
    [
        ("0007-fast-path.patch", 7, "fast-path", "fast path"),
        ("0007-fast-path.anchored", 7, "fast-path", "fast path"),
        ("12_fast_path.patch", 12, "fast_path", "fast path"),
        ("1.2.patch", 1, "2", ".2"),
        ("0001-.patch", 1, "", ""),
        ("0001.patch", 1, "", "0001"),
        ("0001-a\nb.patch", 1, "a\nb", "a\nb"),
        ("fast-path.patch", None, "fast-path", "fast path"),
        ("7fast.patch", None, "7fast", "7fast"),
        (".patch", None, "", ""),
    ],
)
def test_a_name_is_read(file: str, number: int | None, slug: str, title: str) -> None:
    assert is_patch(file)
    assert is_anchored(file) == file.endswith("anchored")
    assert (number_of(file), slug_of(file)) == (number, slug)
    assert title_of(file) == title


@pytest.mark.parametrize(
    "file", ["series.lock", "0001-x.patch.orig", "0001-x.diff~", "0001-x.PATCH", "patch", "README.md"]
)
def test_other_files_are_no_patches(file: str) -> None:
    assert not is_patch(file)
    assert looks_like_patch(file) == file.startswith("0001-")


@pytest.mark.parametrize("anchored", [False, True])
def test_a_name_that_is_made_is_read_as_it_was_meant(anchored: bool) -> None:
    file = make_name(31, "fast-path", anchored=anchored)
    assert file == ("0031-fast-path.anchored" if anchored else "0031-fast-path.patch")
    assert (number_of(file), slug_of(file), is_anchored(file)) == (31, "fast-path", anchored)
    assert is_patch(file)
    other = in_form(file, anchored=not anchored)
    assert other != file and in_form(other, anchored=anchored) == file
    assert (number_of(other), slug_of(other), is_anchored(other)) == (31, "fast-path", not anchored)


def test_a_name_without_a_number_has_none() -> None:
    assert number_of(make_name(None, "7-fast", anchored=True)) == 7
    assert make_name(None, "fast", anchored=True) == "fast.anchored"


def test_numbers_of_five_digits_leave_less_for_the_slug() -> None:
    assert len(make_name(1, cut_slug(1, "x" * 99), anchored=False)) == 63
    assert len(make_name(12345, cut_slug(12345, "x" * 99), anchored=False)) == 63


def test_patches_of_a_directory_are_in_the_order_of_their_bytes(tmp_path: Path) -> None:
    assert not has_patches(tmp_path)
    for file in ("0002-b.patch", "0001-a.anchored", "0010-c.diff", "series.lock", "0003-x.dif", "Ü.patch", "z.patch"):
        (tmp_path / file).touch()
    found = patch_names(tmp_path)
    assert found == ["0001-a.anchored", "0002-b.patch", "0010-c.diff", "z.patch", "Ü.patch"]
    assert has_patches(tmp_path)
    assert not has_patches(tmp_path / "series.lock")
    assert not has_patches(tmp_path / "none")
    with pytest.raises(ConfigError, match="none cannot be listed: No such file or directory"):
        patch_names(tmp_path / "none")


_SUFFIX = re.compile(r"(?<![a-z])\.(?:patch|diff|mbox|anchored)(?![\w.])")

# Not names of patches in a series: git's names in a scratch directory, and names that patches may not add to a tree.
_OTHERS = {
    "git/format.py": ["--suffix=.patch", r"\d+-(.*)\.patch\Z"],
    "workspace/model.py": ["*.patch"],
}


def suffixes(source: str) -> list[str]:
    """Yield the strings of a module with a suffix, except for texts that people read: docstrings, and texts with a
    blank."""
    return sorted(text for text in _strings(ast.parse(source)) if _SUFFIX.search(text) and " " not in text)


def _strings(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
        yield node.value if isinstance(node.value, str) else node.value.decode("latin-1")
    elif isinstance(node, ast.JoinedStr):
        parts = [part for part in node.values if isinstance(part, ast.Constant)]
        yield "{}".join(str(part.value) for part in parts)
        for part in node.values:
            if not isinstance(part, ast.Constant):
                yield from _strings(part)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _strings(child)


def test_one_module_knows_the_suffixes() -> None:
    package = ROOT / "patchstack"
    found = {
        path.relative_to(package).as_posix(): held
        for path in sorted(package.rglob("*.py"))
        if (held := suffixes(path.read_text(encoding="utf-8")))
    }
    home = Path(names.__file__).relative_to(package).as_posix()
    assert found.pop(home) == [".anchored", ".diff", ".mbox", ".patch"]
    assert found == _OTHERS, f"{home} knows the suffixes of patch files: ask it"


@pytest.mark.parametrize(
    "line",
    [
        'x = ".patch"',
        'x = path.suffix in (".patch", ".anchored")',
        'x = directory.glob("*.patch")',
        'x = f"{number:04d}-{slug}.patch"',
        "x = f\"{file}{suffix or '.anchored'}\"",
        'x = rb"\\.patch\\Z"',
        'def f(suffix=".patch"): ...',
    ],
)
def test_the_check_sees_a_second_module(line: str) -> None:
    assert suffixes(f'"""Reads *.patch files."""\n{line}\n')


@pytest.mark.parametrize(
    "line",
    [
        'x = "a series is a directory of *.patch files"',
        'x = f"{directory} holds no *.patch"',
        "x = patch.anchored",
        'x = "patchstack.git.patch.diff"',
        'x = "anchored"',
        'def f():\n    """`.patch`"""',
    ],
)
def test_the_check_leaves_people_their_words(line: str) -> None:
    assert not suffixes(line)
