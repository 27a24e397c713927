"""Patches that are expensive to apply: work is counted, and patches beyond the limit are left to git. The answer is
always git's."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import hostile_patches as family
from patchstack.errors import UsageError
from patchstack.git.apply import Applier
from patchstack.git.objects import Objects
from patchstack.git.patch.diff import parse_diffs
from patchstack.git.patch.effort import Effort, TooCostly
from patchstack.git.patch.hunks import Misfit, apply_hunks
from patchstack.git.remote import refuse_helpers
from tests.support.builders import RepoBuilder
from tests.support.oracle import Oracle, objects_of

SMALL = {
    "hunks at one place": family.hunks_at_one_place(200),
    "many hunks": family.many_hunks(500),
    "backwards": family.hunks_backwards(500),
    "far away": family.hunks_far_away(20),
    "growing": family.growing_hunks(500),
    "a near match": family.near_match(20_000, 300),
    "near matches": family.near_matches(3000, 60, 20),
    "header lines": family.header_lines(5_000_000),
    "many files": family.many_files(300),
    "new files": family.new_files(300),
    "deep": family.deep_path(100, 20),
    "a large file": family.new_large_file(120_000),
    "a large file deleted": family.deleted_large_file(120_000),
    "a long line": family.long_line(5_000_000),
    "renames": family.renames(300),
    "twice": family.one_path_twice(200),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_answer_is_git_s(tmp_path: Path, name: str) -> None:
    case = SMALL[name]
    repo = RepoBuilder(tmp_path / "repo")
    repo.commit("The pin", dict(case.files))
    tree = repo.git("rev-parse", "HEAD^{tree}")
    patch = b"".join(case.patches)
    expected = Oracle(tmp_path / "oracle", objects_of(repo.path)).apply(tree, patch)
    objects = Objects()
    objects.add_directory(objects_of(repo.path), "repo")
    with Applier(objects, tree) as applier:
        assert applier.apply(patch).tree == expected


def test_work_beyond_the_effort_is_git_s() -> None:
    case = family.hunks_at_one_place(200)
    (diff,) = parse_diffs(case.patches[0])
    lines = case.files["a"].split(b"\n")
    whole = apply_hunks(lines, diff.hunks)
    assert not isinstance(whole, Misfit)
    with pytest.raises(TooCostly):
        apply_hunks(lines, diff.hunks, Effort(1_000_000))
    assert apply_hunks(lines, diff.hunks, Effort(10**12)) == whole


def test_a_misfit_is_explained_with_the_effort_that_is_left() -> None:
    case = family.near_match(2000, 50)
    (diff,) = parse_diffs(case.patches[0])
    lines = case.files["a"].split(b"\n")
    full = apply_hunks(lines, diff.hunks)
    assert isinstance(full, Misfit)
    for effort in (10**6, 10**7, 10**8):
        try:
            short = apply_hunks(lines, diff.hunks, Effort(effort))
        except TooCostly:
            continue
        assert isinstance(short, Misfit) and short.number == full.number


def work(case: family.Hostile) -> int:
    """The work of placing the hunks of a case, in nanoseconds of a slow machine."""
    (diff,) = parse_diffs(case.patches[0])
    effort = Effort(10**15)
    assert not isinstance(apply_hunks(case.files["a"].split(b"\n"), diff.hunks, effort), Misfit)
    return 10**15 - effort.left


def test_the_work_for_hunks_at_one_place_grows_with_their_number() -> None:
    assert work(family.hunks_at_one_place(800)) < 2.5 * work(family.hunks_at_one_place(400))


@pytest.mark.parametrize("where", ["fd::17", "ext::sh -c id", "x://y/z", "remote-foo::bar", "FTP://a/b"])
def test_an_address_that_starts_a_helper_of_git_is_refused(where: str) -> None:
    with pytest.raises(UsageError, match="is not the address of a repository: git would start git-remote-"):
        refuse_helpers(where)


@pytest.mark.parametrize(
    "where", ["https://a/b", "ssh://a/b", "git://a/b", "file:///a", "git@host:path", "host:path", "../fork", "/a/b::c"]
)
def test_addresses_of_repositories_are_not(where: str) -> None:
    refuse_helpers(where)
