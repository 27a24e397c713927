"""Does a pull request change what its series are compared with?

Whoever edits a patch can edit the lock beside it, and the workspace that names the fork. Comparing with the fork
catches the first, this the second: where patches, upstream and fork of a series are others than in the base, no
comparison of the pull request's own choosing may call it good.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from patchstack.causes import BaseMissing, PullRequestRefused
from patchstack.errors import MissingError, PatchstackError
from patchstack.git import run as git
from patchstack.workspace import read_workspace, read_yaml

# What makes a comparison, and so may not be a pull request's own choice.
COMPARED = ("patches", "upstream", "fork", "fork_ref")


def hold_against_base(root: Path, workspace: str, base: str) -> list[str]:
    """Hold the workspace of a checkout against that of the commit it is to be merged into. Gives what should be looked
    at: series that are new.

    Raises `NotHeldError` for series whose comparison changed, and for those that are gone; `MissingError` where
    the base is not here: not to know is not to pass.
    """
    if not base or not git.read(root, "cat-file", "-e", f"{base}^{{commit}}").ok:
        base = _first_parent(root)
    found = git.read(root, "ls-tree", "-z", "--full-tree", base, "--", workspace)
    if not found.ok:
        raise _not_here(found.complaint)
    if not found.stdout:
        return [f"{workspace} is new with this pull request: see what its series are compared with"]
    shown = git.read(root, "cat-file", "blob", f"{base}:{workspace}")
    if not shown.ok:
        raise _not_here(shown.complaint)
    with tempfile.TemporaryDirectory(prefix="patchstack-base-") as scratch:
        path = Path(scratch) / "patchstack.yaml"
        path.write_bytes(shown.stdout)
        try:
            before = _series(path)
        except PatchstackError as error:
            raise PullRequestRefused(
                f"{workspace} of the base cannot be used, so nothing tells what to compare with",
                problems=error.problems,
                hint="mend it on the base branch",
            ) from error
    changed, new = differences(before, _series(root / workspace))
    if changed:
        raise PullRequestRefused(
            "this pull request changes what its series are compared with",
            problems=changed,
            hint="a maintainer decides that: change the workspace on the base branch, in a change of its own",
        )
    return new


def differences(
    before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]]
) -> tuple[list[str], list[str]]:
    """What of the base's series is compared otherwise, in words; and the series that are new. Both are given by name,
    each with what is written of it."""
    changed: list[str] = []
    for name, was in before.items():
        now = after.get(name)
        if now is None:
            changed.append(f"{name} is gone")
            continue
        for key in COMPARED:
            old, new = was.get(key, ""), now.get(key, "")
            if old != new:
                changed.append(f"{name}: {key} is {new or 'not set'}, in the base {old or 'not set'}")
    fresh = [name for name in after if name not in before]
    return changed, [f"series {name} is new with this pull request: see what it is compared with" for name in fresh]


def _series(path: Path) -> dict[str, dict[str, str]]:
    """What a workspace file says of every series, as it is written: at one place the same words are the same thing."""
    read_workspace(path)
    series = read_yaml(path)["series"]
    return {str(name): {key: str(one[key]) for key in COMPARED if key in one} for name, one in series.items()}


def _first_parent(root: Path) -> str:
    """The base, where what is checked out is the pull request merged into it."""
    asked = git.read(root, "rev-parse", "--verify", "--quiet", "HEAD^2")
    if not asked.ok:
        raise _not_here(asked.complaint)
    found = git.read(root, "rev-parse", "--verify", "HEAD^1")
    return found.stdout.decode("ascii").strip()


def _not_here(complaint: str) -> MissingError:
    told = f": {complaint.splitlines()[0]}" if complaint else ""
    return BaseMissing(
        f"the commit that this pull request is to be merged into is not here{told}",
        hint="check out with fetch-depth: 2",
    )
