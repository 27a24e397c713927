"""The forks that tests begin with: git makes them once, and the copies are equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import builders
from tests.support.builders import Fork, RepoBuilder, a_fork


def contents(root: Path) -> dict[str, tuple[int, bytes | None]]:
    """Return permissions and content of all files below, without the root's own name in contents."""
    return {
        str(path.relative_to(root)): (
            path.lstat().st_mode,
            path.read_bytes().replace(str(root).encode(), b"ROOT") if path.is_file() else None,
        )
        for path in root.rglob("*")
    }


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Fork, Fork]:
    """Return a fork that git made, and a written copy of it."""
    monkeypatch.setattr(builders, "_forks", {})
    monkeypatch.setattr(builders, "_blank", {})
    for name in ("made", "written"):
        (tmp_path / name).mkdir()
    return a_fork(tmp_path / "made", 4), a_fork(tmp_path / "written", 4)


def test_a_fork_that_is_written_again_is_what_git_made(pair: tuple[Fork, Fork]) -> None:
    made, written = pair
    assert contents(written.upstream.path.parent) == contents(made.upstream.path.parent)
    assert (written.pin, written.commits, written.ref) == (made.pin, made.commits, made.ref)
    assert [path.name for path in written.patches] == [path.name for path in made.patches]
    assert written.repo.git("remote", "get-url", "origin") == str(written.upstream.path)
    assert "main" in written.repo.git("ls-remote", "origin")
    for repo in (written.upstream, written.repo):
        assert repo.git("fsck", "--strict", "--full") == ""


def test_what_is_committed_then_has_the_same_id_and_changes_one_of_them(pair: tuple[Fork, Fork]) -> None:
    made, written = pair
    before = contents(made.upstream.path.parent)
    for repos in ((made.upstream, written.upstream), (made.repo, written.repo)):
        assert len({repo.commit("More", {"more": "x\n"}) for repo in repos}) == 1
    assert contents(made.upstream.path.parent) != before
    again = a_fork(made.upstream.path.parent.parent / "third", 4)
    assert contents(again.upstream.path.parent) == before


def test_an_empty_repository_that_is_written_again_is_what_git_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builders, "_blank", {})
    for bare in (False, True):
        paths = [tmp_path / f"{name}-{bare}" for name in ("made", "written")]
        made, written = (RepoBuilder(path, bare=bare) for path in paths)
        assert contents(written.path) == contents(made.path)
        assert written.git("rev-parse", "--is-bare-repository") == str(bare).lower()
