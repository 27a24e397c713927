"""Where a recreated branch goes: a repository of its own, or a work tree of one that is there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from patchstack.errors import MissingError, UsageError
from patchstack.git import run as git
from patchstack.git.remote import shown_url
from patchstack.git.scratch import borrow_objects


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
    """A new work tree of a repository that has the pin. The branch is made in it, and nothing of its own is changed:
    a branch of that name that stands elsewhere is refused."""

    borrows: ClassVar[bool] = False
    directory: Path
    repository: Path

    def make(self, branch: str, head: str, base: str) -> Path:
        """See that the repository can take the branch."""
        found = git.read(self.repository, "rev-parse", "--git-path", "objects")
        if not found.ok:
            raise MissingError(
                f"{self.repository} is no git repository", hint="--worktree-of takes the path of a clone"
            )
        if not git.read(self.repository, "cat-file", "-e", f"{base}^{{tree}}").ok:
            raise MissingError(
                f"{self.repository} does not have the pin {base}", hint=f"git -C {self.repository} fetch the upstream"
            )
        at = git.read(self.repository, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}")
        if at.ok and (stands := at.stdout.decode("ascii").strip()) != head:
            raise UsageError(
                f"{self.repository} has a branch {branch} at {stands[:12]}; the series' is at {head[:12]}",
                hint="--branch NAME gives it another name",
            )
        return self.repository / found.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def publish(self, branch: str, head: str, *, files: bool, absent: Sequence[bytes]) -> None:
        """Make the branch where it is not there yet, and the work tree; both or none."""
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
            hint="--branch NAME, where another work tree has that branch; --no-files, where contents are missing",
        )


def refuse_name(branch: str) -> None:
    """Raise `UsageError` for a name that no branch may have."""
    if branch.startswith("-") or not git.read(Path.cwd(), "check-ref-format", f"refs/heads/{branch}").ok:
        raise UsageError(f"{branch!r} is no name for a branch", hint="--branch NAME")


def leave_out(directory: Path, paths: Sequence[bytes]) -> None:
    """Make a work tree sparse: all but these files."""
    change(directory, "config", "core.sparseCheckout", "true")
    change(directory, "config", "core.sparseCheckoutCone", "false")
    patterns = [b"!/" + re.sub(rb"([\\*?\[]| \Z)", rb"\\\1", path) for path in paths]
    (directory / ".git" / "info").mkdir(exist_ok=True)
    (directory / ".git" / "info" / "sparse-checkout").write_bytes(b"\n".join([b"/*", *patterns, b""]))


def change(directory: Path, *args: str) -> None:
    """Run a git command in a recreated branch's repository. Raises `GitFailed`."""
    git.checked(
        git.write(directory, *args),
        f"git {args[0]} in {directory} failed",
        hint="the branch is there; some contents of the upstream may be missing: --no-files leaves the files out",
    )
