"""Where a recreated branch goes: a repository of its own, or a work tree of one that is there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from patchstack.errors import MissingError, UsageError
from patchstack.git.objects import read_only_git
from patchstack.git.scratch import borrow_objects
from patchstack.git.transport import shown_url
from patchstack.process import Finished, clean_environment, run


class Destination(Protocol):
    """Takes a branch: first its objects, then its name and files. `borrows` says whether it lives on others' objects,
    some of which may be absent."""

    borrows: ClassVar[bool]

    def make(self, branch: str, head: str, base: str) -> Path:
        """Get ready for `branch`, to stand at `head` above `base`; the object directory that its objects go to."""

    def publish(self, branch: str, head: str, *, files: bool, absent: Sequence[bytes]) -> None:
        """Make the branch, whose objects are there now, and its work tree without the files that are `absent`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRepository:
    """A repository that borrows the upstream's objects, those of the directories `borrowed`, as `git clone --shared`
    does."""

    borrows: ClassVar[bool] = True
    directory: Path
    upstream: str
    borrowed: Sequence[Path]

    def make(self, branch: str, head: str, base: str) -> Path:
        """Make the repository, with `upstream` as a remote."""
        self.directory.mkdir(parents=True, exist_ok=True)
        git(self.directory, "init", "--quiet", f"--initial-branch={branch}", "--template=")
        git(self.directory, "config", "remote.upstream.url", shown_url(self.upstream))
        store = self.directory / ".git" / "objects"
        borrow_objects(store, self.borrowed)
        return store

    def publish(self, branch: str, head: str, *, files: bool, absent: Sequence[bytes]) -> None:
        """Set the branch, and write the work tree."""
        git(self.directory, "update-ref", f"refs/heads/{branch}", head)
        if absent:
            leave_out(self.directory, absent)
        if files:
            git(self.directory, "reset", "--quiet", "--hard", branch)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkTreeOf:
    """A new work tree of a repository that has the pin. The branch is made in it, and nothing of its own is changed:
    a branch of that name that stands elsewhere is refused."""

    borrows: ClassVar[bool] = False
    directory: Path
    repository: Path

    def make(self, branch: str, head: str, base: str) -> Path:
        """See that the repository can take the branch."""
        found = read_only_git(self.repository, "rev-parse", "--git-path", "objects")
        if not found.ok:
            raise MissingError(
                f"{self.repository} is no git repository", hint="--worktree-of takes the path of a clone"
            )
        if not read_only_git(self.repository, "cat-file", "-e", f"{base}^{{tree}}").ok:
            raise MissingError(
                f"{self.repository} does not have the pin {base}", hint=f"git -C {self.repository} fetch the upstream"
            )
        at = read_only_git(self.repository, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}")
        if at.ok and (stands := at.stdout.decode("ascii").strip()) != head:
            raise UsageError(
                f"{self.repository} has a branch {branch} at {stands[:12]}; the series' is at {head[:12]}",
                hint="--branch NAME gives it another name",
            )
        return self.repository / found.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def publish(self, branch: str, head: str, *, files: bool, absent: Sequence[bytes]) -> None:
        """Make the branch where it is not there yet, and the work tree; both or none."""
        ref = f"refs/heads/{branch}"
        ours = not read_only_git(self.repository, "show-ref", "--verify", "--quiet", ref).ok
        if ours:
            git(self.repository, "update-ref", ref, head, "")
        added = run_git(
            self.repository,
            *("worktree", "add", "--quiet"),
            *([] if files else ["--no-checkout"]),
            *("--", str(self.directory.absolute()), branch),
        )
        if added.ok:
            return
        run_git(self.repository, "worktree", "remove", "--force", "--", str(self.directory.absolute()))
        if ours:
            run_git(self.repository, "update-ref", "-d", ref, head)
        raise MissingError(
            f"git worktree add in {self.repository} failed: {added.complaint}",
            hint="--branch NAME, where another work tree has that branch; --no-files, where contents are missing",
        )


def refuse_name(branch: str) -> None:
    """Raise `UsageError` for a name that no branch may have."""
    if branch.startswith("-") or not read_only_git(Path.cwd(), "check-ref-format", f"refs/heads/{branch}").ok:
        raise UsageError(f"{branch!r} is no name for a branch", hint="--branch NAME")


def leave_out(directory: Path, paths: Sequence[bytes]) -> None:
    """Make a work tree sparse: all but these files."""
    git(directory, "config", "core.sparseCheckout", "true")
    git(directory, "config", "core.sparseCheckoutCone", "false")
    patterns = [b"!/" + re.sub(rb"([\\*?\[]| \Z)", rb"\\\1", path) for path in paths]
    (directory / ".git" / "info").mkdir(exist_ok=True)
    (directory / ".git" / "info" / "sparse-checkout").write_bytes(b"\n".join([b"/*", *patterns, b""]))


def run_git(directory: Path, *args: str) -> Finished:
    """git in a directory that is a work tree or repository itself, without anybody's hooks."""
    environment = clean_environment({"GIT_CEILING_DIRECTORIES": str(directory.resolve().parent)})
    return run(["git", "-C", str(directory), "-c", "core.hooksPath=/dev/null", *args], env=environment)


def git(directory: Path, *args: str) -> None:
    """As `run_git`; raises `MissingError` where it fails."""
    done = run_git(directory, *args)
    if not done.ok:
        raise MissingError(
            f"git {args[0]} in {directory} failed: {done.complaint}",
            hint="the branch is there; some contents of the upstream may be missing: --no-files leaves the files out",
        )
