"""Recreate the fork branch from pin + series + lock alone: the same commits, down to their ids."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchstack.errors import ConfigError, MissingError, NotHeldError, UsageError
from patchstack.git.apply import Applier
from patchstack.git.objects import Commit, Objects, object_id, parse_commit
from patchstack.git.overlay import DIRECTORY, SUBMODULE
from patchstack.git.scratch import borrow_objects, write_object
from patchstack.process import Finished, clean_environment, run
from patchstack.series.chain import apply_series
from patchstack.series.lock import Lock
from patchstack.series.model import Series


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedOut:
    """A recreated branch: its head, and how many commits lie above the pin."""

    directory: Path
    branch: str
    head: str
    count: int


def check_out(
    objects: Objects,
    series: Series,
    lock: Lock,
    base: Commit,
    directory: Path,
    *,
    upstream: str,
    at: int | None = None,
    files: bool = True,
) -> CheckedOut:
    """Make a repository whose branch is the fork's, up to the patch numbered `at`.

    The repository borrows the upstream's objects (as `git clone --shared` does) and gets only what the series adds.
    Everything is recreated and checked in memory first. Raises `UsageError` for a directory that is not empty,
    `ConfigError` for a lock without commits, `NotHeldError` where series and lock do not give the commits they promise.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"{directory} is there already", hint="name a new directory")
    if at is not None:
        series = series.up_to(at)
    borrowed = tuple(objects.directories)
    with Applier(objects, base.tree) as applier:
        links = apply_series(applier, series)
        commits = _recreate(series, lock, base, [link.after if link.applied else None for link in links])
        branch = lock.branch if at is None else f"{lock.branch}-at-{at}"
        added = list(_added(objects, base.tree, [link.after for link in links]))
        _make_repository(directory, branch, borrowed, upstream)
        for oid in added:
            write_object(directory / ".git" / "objects", oid, *objects.read(oid))
    for oid, raw in commits:
        write_object(directory / ".git" / "objects", oid, "commit", raw)
    head = commits[-1][0]
    _git(directory, "update-ref", f"refs/heads/{branch}", head)
    if files:
        _git(directory, "reset", "--quiet", "--hard", branch)
    return CheckedOut(directory=directory, branch=branch, head=head, count=len(commits))


def pick_alone(made: CheckedOut, base: Commit, number: int) -> CheckedOut:
    """Put the newest commit of a recreated branch alone on the pin, three-way, on a branch of its own.

    Raises `NotHeldError` naming the files where it needs what an earlier patch does; the repository is then left at the
    branch as recreated.
    """
    branch = f"{made.branch.removesuffix(f'-at-{number}')}-patch-{number}"
    _git(made.directory, "checkout", "--quiet", "-B", branch, base.oid)
    picked = _run_git(made.directory, *_COMMITTER, "cherry-pick", "--allow-empty", made.head)
    if not picked.ok:
        unmerged = _run_git(made.directory, "diff", "--name-only", "--diff-filter=U").stdout.decode("utf-8", "replace")
        _run_git(made.directory, "cherry-pick", "--abort")
        _git(made.directory, "checkout", "--quiet", made.branch)
        _git(made.directory, "branch", "--quiet", "-D", branch)
        raise NotHeldError(
            f"patch {number:04d} cannot stand alone on the pin: it needs what an earlier patch does",
            problems=[f"{path}: both change it" for path in unmerged.split("\n") if path],
            hint=f"{made.directory} has the series up to it, on branch {made.branch}",
        )
    head = _run_git(made.directory, "rev-parse", "HEAD").stdout.decode("ascii").strip()
    return CheckedOut(directory=made.directory, branch=branch, head=head, count=1)


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
            raise ConfigError(f"{lock.path} holds no commits", hint="export the series once; the lock then has them")
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
        raise NotHeldError("the fork cannot be recreated; nothing was written", problems=problems)
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


def _make_repository(directory: Path, branch: str, borrowed: Sequence[Path], upstream: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    _git(directory, "init", "--quiet", f"--initial-branch={branch}", "--template=")
    _git(directory, "config", "remote.upstream.url", upstream)
    borrow_objects(directory / ".git" / "objects", borrowed)


def _run_git(directory: Path, *args: str) -> Finished:
    environment = clean_environment({"GIT_CEILING_DIRECTORIES": str(directory.resolve().parent)})
    return run(["git", "-C", str(directory), *args], env=environment)


def _git(directory: Path, *args: str) -> None:
    done = _run_git(directory, *args)
    if not done.ok:
        raise MissingError(
            f"git {args[0]} in {directory} failed: {done.complaint}",
            hint="the branch is there; some contents of the upstream may be missing: --no-files leaves the files out",
        )
