"""Recreate the fork branch with the same commit ids, in a repository or a work tree.

Only the pin, the series and the lock are needed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Protocol

from patchstack.causes import BadValue, BranchInTheWay, CloneMissing, ForkNotRecreated, LockUnusable, PatchDoesNotApply
from patchstack.files.atomic import refuse_occupied
from patchstack.git import run as git
from patchstack.git.apply import Applier
from patchstack.git.authored import NoCommit, an_author
from patchstack.git.objects import Commit, Objects, object_id, parse_commit
from patchstack.git.overlay import DIRECTORY, SUBMODULE, TreeOverlay
from patchstack.git.remote import shown_url
from patchstack.git.scratch import borrow_objects, write_object
from patchstack.series.files.directory import Series
from patchstack.series.lock import Lock
from patchstack.series.verify.prefix_trees import Link, apply_series
from patchstack.tasks import task


class Destination(Protocol):
    """The target of a recreated branch. The objects are written first, then the branch name and the files.

    `borrows` is true if the target uses objects of other repositories. These repositories may lack some objects.
    """

    borrows: ClassVar[bool]

    def make(self, branch: str, head: str, base: str) -> Path:
        """Prepare to create `branch`, which will point at `head`, a descendant of `base`.

        Return the directory to which the new objects must be written.
        """

    def publish(self, branch: str, head: str, *, files: bool, absent: Sequence[bytes]) -> None:
        """Create the branch after its objects were written. With `files`, write its work tree, except the `absent`
        files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRepository:
    """A new repository that borrows upstream's objects, as `git clone --shared` does.

    `borrowed` lists the object directories.
    """

    borrows: ClassVar[bool] = True
    directory: Path
    upstream: str
    borrowed: Sequence[Path]

    def make(self, branch: str, head: str, base: str) -> Path:
        """Create the repository, with `upstream` as a remote."""
        self.directory.mkdir(parents=True, exist_ok=True)
        change(self.directory, "init", "--quiet", f"--initial-branch={branch}", "--template=")
        change(self.directory, "config", "remote.upstream.url", shown_url(self.upstream))
        store = self.directory / ".git" / "objects"
        borrow_objects(store, self.borrowed)
        return store

    def publish(self, branch: str, head: str, *, files: bool, absent: Sequence[bytes]) -> None:
        """Set the branch, and write the work tree."""
        change(self.directory, "update-ref", f"refs/heads/{branch}", head)
        if absent:
            leave_out(self.directory, absent)
        if files:
            change(self.directory, "reset", "--quiet", "--hard", branch)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkTreeOf:
    """A new work tree of a repository that has the pin.

    The repository gets the new objects and the branch. If the branch already exists at a different commit, `make`
    raises `BranchInTheWay` with the hint `way_out`.
    """

    borrows: ClassVar[bool] = False
    directory: Path
    repository: Path
    way_out: str = "choose a different name with --branch NAME"

    def make(self, branch: str, head: str, base: str) -> Path:
        """Check that the branch can be created in the repository."""
        found = git.read(self.repository, "rev-parse", "--git-path", "objects")
        if not found.ok:
            raise CloneMissing(
                f"{self.repository} is not a git repository", hint="--worktree-of needs the path of a clone"
            )
        if not git.read(self.repository, "cat-file", "-e", f"{base}^{{tree}}").ok:
            raise CloneMissing(
                f"{self.repository} does not have the pin {base}",
                hint=f"fetch it: run 'git -C {self.repository} fetch URL' with the URL of upstream",
            )
        at = git.read(self.repository, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}")
        if at.ok and (stands := at.stdout.decode("ascii").strip()) != head:
            raise BranchInTheWay(
                f"cannot create branch {branch}: {self.repository} has it at {stands[:12]}, but the series ends at"
                f" {head[:12]}",
                hint=self.way_out,
            )
        return self.repository / found.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def publish(self, branch: str, head: str, *, files: bool, absent: Sequence[bytes]) -> None:
        """Create the work tree, and the branch if it does not exist yet. If the work tree cannot be created, create
        neither."""
        ref = f"refs/heads/{branch}"
        ours = not git.read(self.repository, "show-ref", "--verify", "--quiet", ref).ok
        if ours:
            change(self.repository, "update-ref", ref, head, "")
        added = git.write(
            self.repository,
            *("worktree", "add", "--quiet"),
            *([] if files else ["--no-checkout"]),
            *("--", str(self.directory.absolute()), branch),
        )
        if added.ok:
            return
        git.write(self.repository, "worktree", "remove", "--force", "--", str(self.directory.absolute()))
        if ours:
            git.write(self.repository, "update-ref", "-d", ref, head)
        raise git.GitFailed(
            f"git worktree add in {self.repository} failed",
            added,
            hint="use --branch NAME if a different work tree has this branch, or --no-files if contents are missing",
        )


def refuse_name(branch: str) -> None:
    """Raise `UsageError` for a name that git does not allow for a branch."""
    if branch.startswith("-") or not git.read(Path.cwd(), "check-ref-format", f"refs/heads/{branch}").ok:
        raise BadValue(f"{branch!r} is not a valid branch name", hint="choose a valid name with --branch NAME")


def leave_out(directory: Path, paths: Sequence[bytes]) -> None:
    """Make a work tree sparse so that it does not contain these files."""
    change(directory, "config", "core.sparseCheckout", "true")
    change(directory, "config", "core.sparseCheckoutCone", "false")
    patterns = [b"!/" + re.sub(rb"([\\*?\[]| \Z)", rb"\\\1", path) for path in paths]
    (directory / ".git" / "info").mkdir(exist_ok=True)
    (directory / ".git" / "info" / "sparse-checkout").write_bytes(b"\n".join([b"/*", *patterns, b""]))


def change(directory: Path, *args: str) -> None:
    """Run a git command in the repository of a recreated branch. Raises `GitFailed` if the command fails."""
    git.checked(
        git.write(directory, *args),
        f"git {args[0]} in {directory} failed",
        hint="the branch exists; use --no-files if some contents of upstream are missing",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedOut:
    """A recreated branch.

    `count` is the number of commits since the pin. `left_out` lists the files of the head whose contents are missing.
    The work tree is sparse and does not contain them.
    """

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
    at: int | str | None = None,
    files: bool = True,
    worktree_of: Path | None = None,
) -> CheckedOut:
    """Recreate the fork's branch in a new repository, up to the patch `at`.

    `at` is the number or name of a patch; None means the whole series. `branch` is the name of the branch; with `at`,
    `-at-AT` is appended to it. Without a lock, the commits are made from the mails of the patches. Without `files`, no
    files are checked out.

    The repository borrows upstream's objects (as `git clone --shared` does) and receives only the objects that the
    series adds. With `worktree_of`, the branch and a work tree are created in a repository that has the pin. Everything
    is first recreated and checked in memory.

    Raises `UsageError` for a directory that is not empty, or a branch that cannot be created. Raises `ConfigError` for
    a lock without commits, and `NotHeldError` if series and lock do not produce the recorded commits.
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
            commits = commits_of_mails(objects, links, base)
        branch = branch if at is None else f"{branch}-at-{at}"
        head = commits[-1][0] if commits else base.oid
        tree = links[-1].after if links else base.tree
        added = list(added_objects(objects, base.tree, [link.after for link in links]))
        store = destination.make(branch, head, base.oid)
        for oid in added:
            write_object(store, oid, *objects.read(oid))
        absent = absent_files(objects, tree) if files and destination.borrows else []
    for oid, raw in commits:
        write_object(store, oid, "commit", raw)
    destination.publish(branch, head, files=files, absent=absent)
    left_out = tuple(path.decode("utf-8", "replace") for path in absent)
    return CheckedOut(directory=directory, branch=branch, head=head, count=len(commits), left_out=left_out)


def pick_alone(made: CheckedOut, base: Commit, which: str) -> CheckedOut:
    """Apply only the newest commit of a recreated branch to the pin, on a new branch.

    The commit is merged three-way. `which` is the number or name of its patch. If the commit depends on an earlier
    patch, raises a `NotHeldError` that lists the conflicting files. The recreated branch is then still checked out.
    """
    branch = f"{made.branch.removesuffix(f'-at-{which}')}-patch-{which}"
    begun = git.write(made.directory, "checkout", "--quiet", "-b", branch, base.oid)
    if not begun.ok:
        raise BranchInTheWay(
            f"cannot create branch {branch}: {begun.complaint}", hint="choose a different name with --branch NAME"
        )
    picked = git.write(made.directory, *_COMMITTER, "cherry-pick", "--allow-empty", made.head)
    if not picked.ok:
        unmerged = git.write(made.directory, "diff", "--name-only", "--diff-filter=U").stdout.decode("utf-8", "replace")
        git.write(made.directory, "cherry-pick", "--abort")
        change(made.directory, "checkout", "--quiet", made.branch)
        change(made.directory, "branch", "--quiet", "-D", branch)
        raise PatchDoesNotApply(
            f"patch {which.zfill(4)} cannot be applied alone to the pin: it depends on an earlier patch",
            problems=[f"{path}: both patches change it" for path in unmerged.split("\n") if path],
            hint=f"branch {made.branch} in {made.directory} contains the series up to this patch",
        )
    head = git.write(made.directory, "rev-parse", "HEAD").stdout.decode("ascii").strip()
    return replace(made, branch=branch, head=head, count=1)


_COMMITTER = ("-c", "user.name=patchstack", "-c", "user.email=patchstack@localhost", "-c", "commit.gpgSign=false")


def _recreate(series: Series, lock: Lock, base: Commit, trees: Sequence[str | None]) -> list[tuple[str, bytes]]:
    """Check the lock's commit for each patch, and return the commits.

    The patch file must be the exported file. The hash of the commit object must be the id of the commit. The tree must
    be the tree that the patch produces, and the parent must be the previous commit. Raises a `NotHeldError` that lists
    every problem, and `ConfigError` if the lock contains no commit objects.
    """
    held = {patch.file: patch for patch in lock.patches}
    problems: list[str] = []
    commits: list[tuple[str, bytes]] = []
    parent = base.oid
    if lock.base_commit != base.oid:
        problems.append(f"the lock was written for the pin {lock.base_commit[:12]}, not {base.oid[:12]}")
    for patch, tree in zip(series.patches, trees, strict=True):
        entry = held.get(patch.file)
        if entry is None:
            problems.append(f"{patch.file}: the lock does not list it")
            continue
        if not entry.object:
            raise LockUnusable(
                f"{lock.path} contains no commits", hint=f"run 'patchstack export {series.name}' to add them"
            )
        raw = parse_commit(entry.commit, entry.object)
        if hashlib.sha256(patch.data or b"").hexdigest() != entry.sha256:
            problems.append(f"{patch.file}: it is not the file that was exported")
        elif object_id("commit", entry.object) != entry.commit:
            problems.append(f"{patch.file}: the lock's commit object is not commit {entry.commit[:12]}")
        elif raw.tree != tree:
            problems.append(f"{patch.file}: it does not produce the tree of commit {entry.commit[:12]}")
        elif raw.parents != (parent,):
            problems.append(f"{patch.file}: commit {entry.commit[:12]} does not follow the previous commit")
        parent = entry.commit
        commits.append((entry.commit, entry.object))
    if problems:
        raise ForkNotRecreated(
            "the fork cannot be recreated; nothing was written",
            problems=problems,
            hint=f"restore patches and {lock.path.name} from version control; or, if you have the fork, run "
            f"'patchstack export {series.name}'",
        )
    return commits


def commits_of_mails(objects: Objects, links: Sequence[Link], base: Commit) -> list[tuple[str, bytes]]:
    """Return a commit for every patch, as `git am` would create it.

    Raises a `NotHeldError` that lists every problem.
    """
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
        raise ForkNotRecreated("the patches cannot be converted to commits; nothing was written", problems=problems)
    return commits


def added_objects(objects: Objects, base: str, trees: Sequence[str]) -> Iterator[str]:
    """Yield every tree and blob that the series adds to the pin, without repetition."""
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
    """Return the files of a tree whose contents are not available.

    A partial clone may lack files that no patch touches.
    """
    blobs = {path: oid for path, (mode, oid) in TreeOverlay(objects, tree).files() if mode != SUBMODULE}
    objects.want(blobs.values())
    missing = frozenset(objects.missing(blobs.values()))
    return sorted(path for path, oid in blobs.items() if oid in missing)
