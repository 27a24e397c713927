"""Read the fork's commits since the pin, oldest first, one for each patch."""

from __future__ import annotations

from dataclasses import dataclass

from patchstack.causes import NotDescended, ShallowHistory
from patchstack.git import run as git
from patchstack.git.objects import Commit, MissingObject, Objects, Repository


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkHistory:
    """The commits of the fork since the pin along first parents, oldest first.

    `merges` contains the commits with several parents. `name` is the repository and ref as the user wrote them.
    `branch` is the ref alone.
    """

    name: str
    branch: str
    head: Commit
    commits: tuple[Commit, ...]
    merges: tuple[Commit, ...]


def read_fork(
    repository: Repository,
    ref: str,
    pin: Commit,
    objects: Objects,
    *,
    branch: str | None = None,
    note: str = "",
    head_only: bool = False,
) -> ForkHistory:
    """Follow the fork's history from its ref back to the pin.

    `branch` is the ref as the user wrote it. In messages, `note` is added to the ref. With `head_only`, only the head
    commit is read.

    Raises `NotHeldError` if the fork does not descend from the pin. Raises `MissingError` if the ref does not exist, or
    if a shallow clone does not reach the pin.
    """
    head = repository.resolve_commit(ref, "fork ref", objects)
    branch = branch or ref
    name = f"{repository.name} {branch}{note}"
    if head_only:
        return ForkHistory(name=name, branch=branch, head=head, commits=(), merges=())
    commits: list[Commit] = []
    at = head
    while at.oid != pin.oid:
        commits.append(at)
        if not at.parents:
            raise _no_descent(repository, ref, branch, pin)
        try:
            at = objects.commit(at.parents[0])
        except MissingObject:
            if repository.shallow:
                raise ShallowHistory(
                    f"{repository.name} is shallow: its history does not reach the pin {pin.oid[:12]}",
                    hint=f"run 'git -C {repository.name} fetch --deepen=1000'",
                ) from None
            raise
    commits.reverse()
    merges = tuple(commit for commit in commits if len(commit.parents) > 1)
    return ForkHistory(name=name, branch=branch, head=head, commits=tuple(commits), merges=merges)


def check_pushed(repository: Repository, head: str, *branches: str, required: bool) -> str | None:
    """Return a warning if the commit `head` is not pushed. Return None otherwise.

    The commit is pushed if a remote-tracking branch of one of the `branches` contains it, as of the last fetch. With
    `required`, raises `NotHeldError` instead of returning the warning.
    """
    behind = _unpushed(repository, head, branches)
    if behind is None:
        return None
    told = f"the fork is not pushed: {behind}"
    if required:
        raise NotDescended(told, hint=f"run 'git -C {repository.name} push', then run this command again")
    return told


def _unpushed(repository: Repository, head: str, branches: tuple[str, ...]) -> str | None:
    names = list(dict.fromkeys(name for branch in branches for name in _remote_branches(repository, branch)))
    if not names:
        return f"no remote of {repository.name} has a branch {' or '.join(branches)}"
    if any(repository.is_ancestor(head, name) for name in names):
        return None
    return f"{', '.join(name.removeprefix('refs/remotes/') for name in names)} does not have {head[:12]}"


def _remote_branches(repository: Repository, branch: str) -> list[str]:
    """Return the full names of the remote-tracking branches that show whether a branch is pushed.

    If the branch is itself a remote-tracking branch, return its name.
    """
    names = []
    for rev in (f"{branch}@{{upstream}}", branch):
        asked = git.read(repository.path, "rev-parse", "--symbolic-full-name", "--verify", "--quiet", rev)
        name = asked.stdout.decode().strip() if asked.ok else ""
        # A branch may track a local branch, which gives no information about a remote.
        if name and not name.startswith(("refs/heads/", "refs/tags/")):
            names.append(name)
    if names:
        return names
    listed = git.read(repository.path, "for-each-ref", "--format=%(refname)", f"refs/remotes/*/{branch}")
    return listed.stdout.decode().split()


def _no_descent(repository: Repository, ref: str, branch: str, pin: Commit) -> Exception:
    if repository.is_ancestor(pin.oid, ref):
        # The pin is reachable, but not along first parents: it was merged into the fork.
        return NotDescended(
            f"the fork {repository.name} {branch} has merged the pin {pin.oid[:12]} instead of being rebased onto it",
            hint="rebase the fork onto the pin, or compare only the last tree with --tree-only",
        )
    if repository.shallow:
        return ShallowHistory(
            f"{repository.name} is shallow: its history does not reach the pin {pin.oid[:12]}",
            hint=f"run 'git -C {repository.name} fetch --deepen=1000'",
        )
    return NotDescended(
        f"the fork {repository.name} {branch} does not descend from the pin {pin.oid[:12]}",
        hint="the pin may be older or newer than the fork's base: run 'git merge-base' to see where they diverge",
    )
