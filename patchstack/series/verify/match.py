"""Find the fork commit that every patch mirrors."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from patchstack.git.objects import Commit, Objects
from patchstack.git.trees import same_change
from patchstack.series.verify.prefix_trees import Link
from patchstack.tasks import task

_COMPARISONS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """The pairs of patches and commits.

    `commit_of[i]` is the index of the fork commit that patch i mirrors, or None. `moved` contains the patches that are
    out of order. It is the smallest set of patches without which patches and commits have the same order.
    """

    commit_of: tuple[int | None, ...]
    patch_by_commit: Mapping[int, int]
    moved: frozenset[int]

    def patch_of(self, commit: int) -> int | None:
        """Return the patch that mirrors a commit. Return None if no patch does."""
        return self.patch_by_commit.get(commit)


@task("finding the commit of each patch")
def match(objects: Objects, links: Sequence[Link], commits: Sequence[Commit], base_tree: str) -> Matching:
    """Pair patches with commits.

    The criteria are, in order: the commit id that a patch names, the subject, the tree that the patch produces, and the
    change that the patch makes. The last criterion is the position, if only one patch and one commit remain between two
    pairs.
    """
    commit_of: list[int | None] = [None] * len(links)
    free_commits = dict.fromkeys(range(len(commits)))

    def pair(patch: int, commit: int) -> None:
        commit_of[patch] = commit
        del free_commits[commit]

    def free_patches() -> list[int]:
        return [patch for patch, commit in enumerate(commit_of) if commit is None]

    ids = {commit.oid: index for index, commit in enumerate(commits)}
    for patch, link in enumerate(links):
        named = ids.get(link.patch.commit or "")
        if named in free_commits and named is not None:
            pair(patch, named)

    def by_key(patch_key: Callable[[Link], str | None], commit_key: Callable[[Commit], str]) -> None:
        theirs: dict[str, list[int]] = defaultdict(list)
        ours: dict[str, list[int]] = defaultdict(list)
        for commit in free_commits:
            theirs[commit_key(commits[commit])].append(commit)
        for patch in free_patches():
            key = patch_key(links[patch])
            if key:
                ours[key].append(patch)
        for key, patches in ours.items():
            if len(patches) == len(theirs.get(key, ())):
                for patch, commit in zip(patches, theirs[key], strict=True):
                    pair(patch, commit)

    by_key(lambda link: _folded(link.patch.subject), lambda commit: _folded(commit.subject))
    by_key(lambda link: link.after if link.applied else None, lambda commit: commit.tree)

    before = {index: commits[index - 1].tree if index else base_tree for index in range(len(commits))}
    # Comparing changes is slow, so skip it for a clearly unrelated branch.
    few = len(free_patches()) * len(free_commits) <= _COMPARISONS
    for patch in free_patches():
        link = links[patch]
        if link.applied and few:
            for commit in list(free_commits):
                if same_change(objects, (link.before, link.after), (before[commit], commits[commit].tree)):
                    pair(patch, commit)
                    break

    for patch in free_patches():
        low = next((c for c in reversed(commit_of[:patch]) if c is not None), -1)
        high = next((c for c in commit_of[patch + 1 :] if c is not None), len(commits))
        alone = commit_of[patch - 1 : patch] != [None] and commit_of[patch + 1 : patch + 2] != [None]
        between = [commit for commit in free_commits if low < commit < high]
        if alone and len(between) == 1:
            pair(patch, between[0])
    patch_by_commit = {commit: patch for patch, commit in enumerate(commit_of) if commit is not None}
    return Matching(commit_of=tuple(commit_of), patch_by_commit=patch_by_commit, moved=_moved(commit_of))


def _folded(subject: str) -> str:
    return " ".join(subject.split())


def _moved(commit_of: Sequence[int | None]) -> frozenset[int]:
    """Return the patches that are not in a longest ascending subsequence of commits."""
    tails: list[int] = []
    tail_patch: list[int] = []
    previous: dict[int, int | None] = {}
    for patch, commit in enumerate(commit_of):
        if commit is None:
            continue
        place = bisect_left(tails, commit)
        previous[patch] = tail_patch[place - 1] if place else None
        if place == len(tails):
            tails.append(commit)
            tail_patch.append(patch)
        else:
            tails[place], tail_patch[place] = commit, patch
    kept: set[int] = set()
    at: int | None = tail_patch[-1] if tail_patch else None
    while at is not None:
        kept.add(at)
        at = previous[at]
    return frozenset(patch for patch, commit in enumerate(commit_of) if commit is not None and patch not in kept)
