"""The fork commit that a patch mirrors, how it is recognized, and the patches that count as moved."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchstack.git.apply import Applier
from patchstack.git.objects import Commit, Objects
from patchstack.series.files.directory import load_series
from patchstack.series.verify.match import Matching, _moved, match
from patchstack.series.verify.prefix_trees import Link, apply_series
from tests.support.builders import (
    Changes,
    Fork,
    a_fork,
    edit,
    edited,
    kernel_steps,
    mail,
    new_file,
    numbered,
    write_series,
)


def commit_of(fork: Fork, oid: str) -> Commit:
    return Commit(
        oid=oid,
        tree=fork.repo.tree(oid),
        parents=(fork.repo.parent(oid),),
        subject=fork.repo.git("log", "-1", "--format=%s", oid),
    )


def matched(fork: Fork) -> Matching:
    """Match the fork's current series with the commits of its branch."""
    objects = Objects()
    objects.add_directory(fork.repo.path / ".git/objects", "the fork")
    base = fork.repo.tree(fork.pin)
    oids = fork.repo.git("rev-list", "--reverse", f"{fork.pin}..{fork.ref}").split()
    with Applier(objects, base) as applier:
        links: tuple[Link, ...] = apply_series(applier, load_series(fork.series), keep_going=True)
        return match(objects, links, [commit_of(fork, oid) for oid in oids], base)


def longest_run(numbers: tuple[int | None, ...]) -> int:
    """Return the length of the longest increasing subsequence, by a slow and simple method."""
    best: list[int] = []
    known = [number for number in numbers if number is not None]
    for at, number in enumerate(known):
        best.append(1 + max((best[before] for before in range(at) if known[before] < number), default=0))
    return max(best, default=0)


@settings(derandomize=True)
@given(st.permutations(range(7)), st.sets(st.integers(0, 6)))
def test_the_fewest_patches_are_called_moved_and_the_rest_is_in_order(order: list[int], unpaired: set[int]) -> None:
    paired = tuple(None if number in unpaired else number for number in order)
    moved = _moved(paired)
    kept = [number for patch, number in enumerate(paired) if number is not None and patch not in moved]
    assert kept == sorted(kept)
    assert len(kept) == longest_run(paired)
    assert all(paired[patch] is not None for patch in moved)


@pytest.mark.parametrize(
    ("order", "moved"),
    [
        ((), set()),
        ((0,), set()),
        ((0, 1, 2), set()),
        ((None, None), set()),
        ((1, 2, 3, 0), {3}),
        ((3, 0, 1, 2), {0}),
        ((0, None, 1), set()),
    ],
)
def test_a_single_patch_out_of_place_is_the_moved_one(order: tuple[int | None, ...], moved: set[int]) -> None:
    assert _moved(order) == moved


@pytest.mark.parametrize("order", list(permutations((1, 2, 3)))[::2])
def test_patches_in_any_order_find_their_commits(tmp_path: Path, order: tuple[int, ...]) -> None:
    fork = a_fork(tmp_path, 3)
    contents = {number: fork.patch(number).read_bytes() for number in order}
    for path in fork.patches:
        path.unlink()
    write_series(fork.series, {f"{place:04d}-x.patch": contents[number] for place, number in enumerate(order, 1)})
    found = matched(fork)
    assert found.commit_of == tuple(number - 1 for number in order)
    assert [found.patch_of(commit) for commit in range(3)] == [order.index(commit + 1) for commit in range(3)]


def test_the_commit_id_goes_before_the_subject(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 2)
    first, second = fork.patch(1), fork.patch(2)
    swapped = first.read_text().replace(edit(1)[0], edit(2)[0])
    second.write_text(second.read_text().replace(edit(2)[0], edit(1)[0]))
    first.write_text(swapped)
    assert matched(fork).commit_of == (0, 1)


def test_the_subject_goes_before_the_tree(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 3)
    fork.repo.branch("product", fork.pin)
    for subject, changes in kernel_steps((2, 1, 3)):
        fork.repo.commit(subject, changes)
    assert matched(fork).commit_of == (1, 0, 2)


def test_commits_of_one_subject_are_paired_in_order(tmp_path: Path) -> None:
    steps: list[tuple[str, Changes]] = [("wip", {"n": f"{number}\n"}) for number in range(4)]
    fork = a_fork(tmp_path, steps=steps)
    fork.repo.branch("product", fork.pin)
    for subject, changes in steps:
        fork.repo.commit(subject, changes, body="again")
    assert matched(fork).commit_of == (0, 1, 2, 3)


def test_commits_of_one_subject_with_one_dropped_are_paired_by_their_trees_or_changes(tmp_path: Path) -> None:
    subjects: list[tuple[str, Changes]] = [("wip", changes) for _, changes in kernel_steps(range(1, 5))]
    fork = a_fork(tmp_path, steps=subjects)
    fork.repo.branch("product", fork.pin)
    for subject, changes in subjects:
        fork.repo.commit(subject, changes, body="again")
    fork.patch(2).unlink()
    assert matched(fork).commit_of == (0, 2, 3)


def test_a_patch_without_id_and_subject_is_found_by_its_own_change_though_the_trees_differ(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 3)
    bare = fork.repo.diff(fork.commits[1], fork.commits[2])
    fork.patch(2).unlink()
    fork.patch(3).write_bytes(bare)
    assert matched(fork).commit_of == (0, 2)


def test_one_patch_and_one_commit_between_two_pairs_belong_together(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 3)
    other = edited("docs/notes.txt", "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n")
    fork.patch(2).write_bytes(mail("Something else", other))
    assert matched(fork).commit_of == (0, 1, 2)


def test_two_patches_between_two_pairs_are_not_guessed(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 3)
    fork.patch(2).write_bytes(mail("One", new_file("p")))
    write_series(fork.series, {"0002b-two.patch": mail("Two", new_file("q"))})
    assert matched(fork).commit_of == (0, None, None, 2)


def test_a_patch_of_no_commit_and_a_commit_of_no_patch_are_left_alone(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 3)
    fork.patch(1).unlink()
    write_series(fork.series, {"0009-mine.patch": mail("Mine", new_file("q"))})
    found = matched(fork)
    assert found.commit_of == (1, 2, None)
    assert found.patch_of(0) is None
    assert found.moved == frozenset()


def test_a_subject_folded_in_the_mail_is_the_commits_subject_all_the_same(tmp_path: Path) -> None:
    long = "A subject that is so long that git format-patch must fold it over two lines of the mail that it writes"
    fork = a_fork(tmp_path, steps=[(long, {"n": "1\n"}), ("Next", {"n": "2\n"})])
    fork.repo.branch("product", fork.pin)
    fork.repo.commit("First of all", {"src/other.cpp": numbered(40, {1: "first"})})
    fork.repo.commit(long, {"n": "1\n"})
    assert matched(fork).commit_of[0] == 1
