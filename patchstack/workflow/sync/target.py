"""Find the new pin of a sync, and list the fork's commits in linear order, each with its patch."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchstack.causes import AlreadyExists
from patchstack.git import run as git
from patchstack.git.objects import Commit, Objects, Repository
from patchstack.git.overlay import SUBMODULE
from patchstack.git.remote import Cache, Remote
from patchstack.git.trees import compare_trees
from patchstack.series.files.directory import PatchFile, Series
from patchstack.series.files.names import is_patch
from patchstack.series.history import ForkHistory
from patchstack.series.lock import FILE_NAME, Lock
from patchstack.series.mirror.checkout import refuse_name
from patchstack.series.verify.states import Row
from patchstack.upstream.history import UpstreamRange, read_range
from patchstack.workflow.sync.state import Item
from patchstack.workflow.sync.worktree import SyncTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The new pin, the upstream repository that contains it, and the upstream commits between the pins."""

    commit: Commit
    repository: Repository
    range: UpstreamRange


def open_target(cache: Cache, upstream: str, pin: Commit, to: str, objects: Objects) -> Target:
    """Find the new pin in upstream, and the history between the pins.

    Raises `UsageError` if the new pin does not descend from the old one, and `MissingError` if this cannot be
    determined here.
    """
    what = "--to"
    repository, commit = Remote.at(upstream, cache).resolve(to, what, until=pin.oid)
    objects.add_directory(repository.object_directory, repository.name)
    found = read_range(repository, objects, pin, commit, to, what)
    return Target(commit=commit, repository=repository, range=found)


def patches_of(
    series: Series, lock: Lock | None, commits: Sequence[Commit], rows: Sequence[Row], *, in_order: bool
) -> dict[str, PatchFile]:
    """Return the patch of each commit.

    If `in_order` is true, each commit was made from one patch, in the order of the series. Otherwise, three sources are
    tried in order: the match that verify found, the lock, and the subject, which only one patch may have. A commit
    without a patch is not in the result.
    """
    if in_order:
        return {commit.oid: patch for commit, patch in zip(commits, series.patches, strict=True)}
    by_file = {patch.file: patch for patch in series.patches}
    found = {row.fork_commit: by_file[row.file] for row in rows if row.fork_commit and row.file}
    for entry in lock.patches if lock else ():
        if entry.file in by_file and by_file[entry.file] not in found.values():
            found.setdefault(entry.commit, by_file[entry.file])
    for commit in commits:
        alike = [patch for patch in series.patches if patch.subject == commit.subject]
        if len(alike) == 1 and alike[0] not in found.values():
            found.setdefault(commit.oid, alike[0])
    return found


def items_of(commits: Sequence[tuple[Commit, str]], patches: Mapping[str, PatchFile]) -> tuple[Item, ...]:
    """Return the fork's commits, each with the tree before it, as items to bring over."""
    return tuple(
        Item(
            commit=commit.oid,
            before=before,
            tree=commit.tree,
            subject=commit.subject,
            number=patches[commit.oid].number if commit.oid in patches else None,
            file=patches[commit.oid].file if commit.oid in patches else None,
        )
        for commit, before in commits
    )


def in_one_line(
    objects: Objects, tree: SyncTree, fork: ForkHistory, pin: Commit, to: str
) -> tuple[list[tuple[Commit, str]], list[str]]:
    """Return the fork's own commits, oldest first, each with the tree before it.

    If the fork has merges, the commits of all its branches are returned without the merges. Also return a note about
    each omitted merge. The note lists the files with changes that only the merge made, because these changes are lost.
    """
    if not fork.merges:
        before = [pin.tree, *(commit.tree for commit in fork.commits)]
        return list(zip(fork.commits, before, strict=False)), []
    commits = [
        (objects.commit(oid), objects.commit(parent).tree)
        for oid, parent in tree.own_commits(fork.head.oid, pin.oid, to)
    ]
    notes = []
    for merge in fork.merges:
        own = tree.changes_of_its_own(merge.oid)
        loses = f"; its own changes are lost: {', '.join(own)}" if own else ""
        notes.append(f"merge {merge.oid[:12]} ({merge.subject}) is omitted{loses}")
    return commits, notes


def series_digest(directory: Path) -> str:
    """Return a digest of a series' patches and lock, to detect changes."""
    digest = hashlib.sha256()
    for path in sorted(directory.iterdir()):
        if is_patch(path.name) or path.name == FILE_NAME:
            digest.update(f"{path.name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def paths_made(objects: Objects, item: Item) -> list[bytes]:
    """Return the files that a commit adds."""
    return [change.path for change in compare_trees(objects, item.before, item.tree) if change.old is None]


def contents(objects: Objects, items: Sequence[Item]) -> Iterator[str]:
    """Yield the blob ids that merging the patches needs: those of every changed file, before and after the change."""
    for item in items:
        for change in compare_trees(objects, item.before, item.tree):
            for entry in (change.old, change.new):
                if entry is not None and entry[0] != SUBMODULE:
                    yield entry[1]


def paths_touched(objects: Objects, items: Sequence[Item]) -> set[bytes]:
    """Return the old paths of the files that the patches change."""
    return {
        change.path
        for item in items
        for change in compare_trees(objects, item.before, item.tree)
        if change.old is not None and change.old[0] != SUBMODULE
    }


def own_branch(series: Series, lock: Lock | None, fork_ref: str | None) -> str:
    """Return the name of the fork's branch.

    Return the name of the series if no branch is named, or if the name is HEAD or a commit id.
    """
    name = (fork_ref or (lock.branch if lock else "") or series.name).removeprefix("refs/heads/")
    if name == "HEAD" or re.fullmatch(r"[0-9a-f]{40}", name):
        name = series.name
    return name


def synced_name(branch: str, to: str) -> str:
    """Return the new branch's name.

    It is the fork's branch name with a suffix for the new pin. A suffix of an earlier sync is replaced.
    """
    return f"{re.sub(r'-sync-[0-9a-f]{9}$', '', branch)}-sync-{to[:9]}"


def refuse_branch(branch: str, fork: Repository | None) -> None:
    """Raise `UsageError` for an invalid branch name, or for a branch that the fork already has."""
    refuse_name(branch)
    if fork is not None and git.read(fork.path, "rev-parse", "-q", "--verify", f"refs/heads/{branch}").ok:
        raise AlreadyExists(
            f"the fork {fork.name} already has a branch {branch}", hint="use --branch NAME with a different name"
        )
