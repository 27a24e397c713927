"""`patchstack export -o`: a copy of the series in another form, made without the fork."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import Patchstack
from tests.support.builders import Changes, Fork, a_fork, kernel_steps, run_git, snapshot
from tests.unit.series.mirror.test_export import workspace

NEW: list[tuple[str, Changes]] = [
    ("Our own file", {"src/own.cpp": "int own();\n", "src/CMakeLists.txt": "own.cpp\n"}),
    ("Ümläut ✓ 日本語", {"src/own.cpp": "int own();\nint more();\n"}),
]


@pytest.fixture
def anchored(tmp_path: Path, patchstack: Patchstack) -> Fork:
    """Return a fork that was exported without context and then removed."""
    fork = a_fork(tmp_path, 3, [*kernel_steps(range(1, 4)), *NEW])
    for path in fork.patches:
        path.unlink()
    workspace(fork, "    form: anchored\n    expect: lock\n")
    assert patchstack("export") == 0
    shutil.rmtree(fork.repo.path)
    return fork


def applied_by_git(fork: Fork, patches: list[Path], index: Path) -> str:
    """Return the tree that git's own apply gives on the pin."""
    at = fork.upstream.path

    run_git("read-tree", fork.pin, cwd=at, GIT_INDEX_FILE=str(index))
    run_git("apply", "--cached", *map(str, patches), cwd=at, GIT_INDEX_FILE=str(index))
    return run_git("write-tree", cwd=at, GIT_INDEX_FILE=str(index)).stdout.decode().strip()


def test_a_series_without_context_is_copied_to_one_that_git_itself_applies(
    anchored: Fork, tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(anchored.series)
    capsys.readouterr()
    assert patchstack("export", "--form", "plain", "-o", "copy") == 0
    copied = sorted((tmp_path / "copy").iterdir())
    assert [path.name for path in copied] == [
        path.name.replace(".anchored", ".patch") for path in sorted(anchored.series.glob("*.anchored"))
    ]
    tree = applied_by_git(anchored, copied, tmp_path / "index")
    assert capsys.readouterr().out == f"product: {len(copied)} plain patches in copy, tree {tree}\n"
    assert snapshot(anchored.series) == before


def test_a_copy_of_the_copy_is_the_series_again(anchored: Fork, tmp_path: Path, patchstack: Patchstack) -> None:
    assert patchstack("export", "--form", "anchored", "-o", "copy") == 0
    for path in (tmp_path / "copy").iterdir():
        assert path.read_bytes() == (anchored.series / path.name).read_bytes()


def test_nothing_is_overwritten(
    anchored: Fork, tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy/mine").write_text("mine")
    assert patchstack("export", "-o", "copy") == 2
    assert "copy already exists" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["mine"]


def test_a_series_that_was_edited_is_not_copied(
    anchored: Fork, tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    first = min(anchored.series.glob("*.anchored"))
    first.write_bytes(first.read_bytes().replace(b"Subject: ", b"Subject: X "))
    assert patchstack("export", "-o", "copy") == 1
    assert f"{first.name}: it is not the file that was exported" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".copy")]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--form", "plain"), "--form needs -o"),
        (("-o", "copy", "--form", "round"), "--form round is not a form"),
        (("-o", "copy", "--renumber"), "-o writes a copy and can only be combined with --form"),
    ],
)
def test_words_that_do_not_go_together_are_refused(
    anchored: Fork, words: tuple[str, ...], told: str, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    assert patchstack("export", *words) == 2
    assert told in capsys.readouterr().err
