"""Recreate the fork branch from pin + series + lock alone: the same commits, down to their ids.

Without a lock the commits are made from the patches' mails: always the same, but not the ones they were made from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchstack.errors import ConfigError, NotHeldError, UsageError
from patchstack.files.atomic import refuse_occupied
from patchstack.git import run as git
from patchstack.git.apply import Applier
from patchstack.git.authored import NoCommit, an_author
from patchstack.git.objects import Commit, Objects, object_id, parse_commit
from patchstack.git.overlay import DIRECTORY, SUBMODULE, TreeOverlay
from patchstack.git.scratch import write_object
from patchstack.series.files.directory import Series
from patchstack.series.lock import Lock
from patchstack.series.mirror.destination import Destination, NewRepository, WorkTreeOf, change, refuse_name
from patchstack.series.verify.prefix_trees import Link, apply_series
from patchstack.tasks import task


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedOut:
    """A recreated branch: its head, and how many commits lie above the pin. `left_out` are files of the head whose
    contents are nowhere: the work tree is sparse without them."""

    directory: Path
    branch: str
    head: str
    count: int
    left_out: tuple[str, ...] = ()


@task("recreating the fork")
def check_out(
    objects: Objects,
    series: Series,
    lock: Lock | None,
    base: Commit,
    directory: Path,
    *,
    upstream: str,
    branch: str,
    at: int | None = None,
    files: bool = True,
    worktree_of: Path | None = None,
) -> CheckedOut:
    """Make a repository whose branch is the fork's, up to the patch numbered `at`; `branch` is its name. Without a lock
    the commits are made from the patches' mails.

    The repository borrows the upstream's objects (as `git clone --shared` does) and gets only what the series adds.
    With `worktree_of` the branch and a work tree are made in a repository that has the pin. Everything is recreated and
    checked in memory first. Raises `UsageError` for a directory that is not empty and a branch that cannot be had,
    `ConfigError` for a lock without commits, `NotHeldError` where series and lock do not give the commits they promise.
    """
    refuse_occupied(directory)
    refuse_name(branch)
    destination: Destination = (
        NewRepository(directory=directory, upstream=upstream, borrowed=tuple(objects.directories))
        if worktree_of is None
        else WorkTreeOf(directory=directory, repository=worktree_of)
    )
    if at is not None:
        series = series.up_to(at)
    with Applier(objects, base.tree) as applier:
        links = apply_series(applier, series)
        if lock is not None:
            commits = _recreate(series, lock, base, [link.after if link.applied else None for link in links])
        else:
            commits = _made_from_mails(objects, links, base)
        branch = branch if at is None else f"{branch}-at-{at}"
        head = commits[-1][0] if commits else base.oid
        tree = links[-1].after if links else base.tree
        added = list(_added(objects, base.tree, [link.after for link in links]))
        store = destination.make(branch, head, base.oid)
        for oid in added:
            write_object(store, oid, *objects.read(oid))
        absent = absent_files(objects, tree) if files and destination.borrows else []
    for oid, raw in commits:
        write_object(store, oid, "commit", raw)
    destination.publish(branch, head, files=files, absent=absent)
    left_out = tuple(path.decode("utf-8", "replace") for path in absent)
    return CheckedOut(directory=directory, branch=branch, head=head, count=len(commits), left_out=left_out)


def pick_alone(made: CheckedOut, base: Commit, number: int) -> CheckedOut:
    """Put the newest commit of a recreated branch alone on the pin, three-way, on a branch of its own.

    Raises `NotHeldError` naming the files where it needs what an earlier patch does; the repository is then left at the
    branch as recreated.
    """
    branch = f"{made.branch.removesuffix(f'-at-{number}')}-patch-{number}"
    begun = git.write(made.directory, "checkout", "--quiet", "-b", branch, base.oid)
    if not begun.ok:
        raise UsageError(f"branch {branch} was not made: {begun.complaint}", hint="--branch NAME takes another name")
    picked = git.write(made.directory, *_COMMITTER, "cherry-pick", "--allow-empty", made.head)
    if not picked.ok:
        unmerged = git.write(made.directory, "diff", "--name-only", "--diff-filter=U").stdout.decode("utf-8", "replace")
        git.write(made.directory, "cherry-pick", "--abort")
        change(made.directory, "checkout", "--quiet", made.branch)
        change(made.directory, "branch", "--quiet", "-D", branch)
        raise NotHeldError(
            f"patch {number:04d} cannot stand alone on the pin: it needs what an earlier patch does",
            problems=[f"{path}: both change it" for path in unmerged.split("\n") if path],
            hint=f"{made.directory} has the series up to it, on branch {made.branch}",
        )
    head = git.write(made.directory, "rev-parse", "HEAD").stdout.decode("ascii").strip()
    return replace(made, branch=branch, head=head, count=1)


_COMMITTER = ("-c", "user.name=patchstack", "-c", "user.email=patchstack@localhost", "-c", "commit.gpgSign=false")


def _recreate(series: Series, lock: Lock, base: Commit, trees: Sequence[str | None]) -> list[tuple[str, bytes]]:
    """The commits of the lock, each proven: its bytes hash to its id, it has the tree its patch gives, and it follows
    the one before. All complaints at once."""
    held = {patch.file: patch for patch in lock.patches}
    problems: list[str] = []
    commits: list[tuple[str, bytes]] = []
    parent = base.oid
    if lock.base_commit != base.oid:
        problems.append(f"the lock was written for the pin {lock.base_commit[:12]}, not {base.oid[:12]}")
    for patch, tree in zip(series.patches, trees, strict=True):
        entry = held.get(patch.file)
        if entry is None:
            problems.append(f"{patch.file}: the lock does not know it")
            continue
        if not entry.object:
            raise ConfigError(
                f"{lock.path} holds no commits", hint=f"patchstack export {series.name} writes them into it"
            )
        raw = parse_commit(entry.commit, entry.object)
        if hashlib.sha256(patch.data or b"").hexdigest() != entry.sha256:
            problems.append(f"{patch.file}: it is not the file that was exported")
        elif object_id("commit", entry.object) != entry.commit:
            problems.append(f"{patch.file}: the lock's commit object is not commit {entry.commit[:12]}")
        elif raw.tree != tree:
            problems.append(f"{patch.file}: it does not give the tree of commit {entry.commit[:12]}")
        elif raw.parents != (parent,):
            problems.append(f"{patch.file}: commit {entry.commit[:12]} does not follow the one before it")
        parent = entry.commit
        commits.append((entry.commit, entry.object))
    if problems:
        raise NotHeldError(
            "the fork cannot be recreated; nothing was written",
            problems=problems,
            hint=f"take patches and {lock.path.name} back from version control, or, where the fork is, run "
            f"patchstack export {series.name}",
        )
    return commits


def _made_from_mails(objects: Objects, links: Sequence[Link], base: Commit) -> list[tuple[str, bytes]]:
    """A commit for every patch, as `git am` would make it. All complaints at once."""
    problems: list[str] = []
    commits: list[tuple[str, bytes]] = []
    parent = base.oid
    with an_author(base, objects.read(base.oid)[1]) as author:
        for link in links:
            if not link.applied:
                found = link.outcome.problems if link.outcome else ()
                told = "; ".join(problem.detail for problem in found) or "an earlier patch does not apply"
                problems.append(f"{link.patch.file}: {told}")
                continue
            made = author.commit(link.patch.data or b"", link.patch.subject, link.after, parent)
            if isinstance(made, NoCommit):
                problems.append(f"{link.patch.file}: {made.reason}")
            else:
                parent = made[0]
                commits.append(made)
    if problems:
        raise NotHeldError("the patches cannot be made into commits; nothing was written", problems=problems)
    return commits


def _added(objects: Objects, base: str, trees: Sequence[str]) -> Iterator[str]:
    """Every tree and blob that the series adds to the pin's, each once."""
    seen = {base}
    before = base
    for tree in trees:
        yield from _new_below(objects, before, tree, seen)
        before = tree


def _new_below(objects: Objects, old: str, new: str, seen: set[str]) -> Iterator[str]:
    pending: list[tuple[str | None, str]] = [(old, new)]
    while pending:
        before, after = pending.pop()
        if after in seen:
            continue
        seen.add(after)
        yield after
        known = {name: (mode, oid) for mode, name, oid in objects.tree(before)} if before else {}
        for mode, name, oid in objects.tree(after):
            was = known.get(name)
            if was == (mode, oid) or mode == SUBMODULE:
                continue
            if mode == DIRECTORY:
                pending.append((was[1] if was and was[0] == DIRECTORY else None, oid))
            elif oid not in seen:
                seen.add(oid)
                yield oid


def absent_files(objects: Objects, tree: str) -> list[bytes]:
    """The files of a tree whose contents are not to be had: a partial clone lacks what no patch touches."""
    blobs = {path: oid for path, (mode, oid) in TreeOverlay(objects, tree).files() if mode != SUBMODULE}
    objects.want(blobs.values())
    return sorted(path for path, oid in blobs.items() if not objects.has(oid))
