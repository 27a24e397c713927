"""Where policy comes from: a commit of the workspace's own repository, or a workspace file."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from patchstack.causes import NotFetchable, WorkspaceUnusable
from patchstack.errors import ConfigError
from patchstack.git import run as git
from patchstack.workspace import Workspace
from patchstack.workspace.policy import governed, named_files

_FILES = (".yaml", ".yml")
_LARGEST = 64 << 20


@contextlib.contextmanager
def policy_from(head: Path, source: str) -> Iterator[Workspace]:
    """Open the workspace at `head` with the policy of `source`, for as long as the block: a file whose name ends in
    `.yaml` or `.yml`, else a commit. The name of a commit is never taken for a file: a change could bring one.

    Raises `MissingError` for a commit that is not here or has no workspace file, `ConfigError` for what cannot be used.
    """
    if source.endswith(_FILES):
        if not Path(source).is_file():
            raise NotFetchable(f"there is no policy at {source}", hint="name a workspace file, or a commit")
        yield governed(head, Path(source), source)
        return
    with tempfile.TemporaryDirectory(prefix="patchstack-policy-") as directory:
        policy, commit = _written(head, source, Path(directory).resolve())
        origin = f"{source} ({commit[:12]})" if not commit.startswith(source) else commit[:12]
        try:
            found = governed(head, policy, origin)
        except ConfigError as error:
            told = [text.replace(f"{policy.parent}{os.sep}", f"{origin}:") for text in error.problems]
            raise WorkspaceUnusable(error.message, problems=told, hint=error.hint) from error
        changed = tuple(_changed_files(policy, head.parent))
        yield replace(found, not_used=(*found.not_used, *changed))


def _written(head: Path, ref: str, directory: Path) -> tuple[Path, str]:
    """Write the workspace file of a commit, and the files that it names, into a directory; gives the file and the
    commit's id."""
    below = head.parent.resolve()
    root = next((one for one in (below, *below.parents) if (one / ".git").exists()), below)
    asked = git.read(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if not asked.ok:
        raise NotFetchable(
            f"the commit {ref}, which the policy comes from, is not here",
            hint="fetch it: in CI, check out with fetch-depth: 2 (a pull request's merge) or 0",
        )
    commit = asked.stdout.decode("ascii").strip()
    prefix = "" if below == root else f"{below.relative_to(root)}/"
    policy = directory / head.name
    content = _blob(root, commit, f"{prefix}{head.name}")
    if content is None:
        raise NotFetchable(
            f"{ref} has no {prefix}{head.name}, so nothing says what to hold this change to",
            hint="a maintainer adds the workspace on the base branch, in a change of its own",
        )
    policy.write_bytes(content)
    for name in sorted(set(named_files(policy))):
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            continue
        found = _blob(root, commit, f"{prefix}{path}")
        if found is not None:
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(found)
    return policy, commit


def _blob(root: Path, commit: str, path: str) -> bytes | None:
    """The content of a regular file of a commit; None for anything else, links included."""
    listed = git.read(root, "--literal-pathspecs", "ls-tree", "-z", "--full-tree", "-l", commit, "--", path)
    entries = [entry for entry in listed.stdout.split(b"\0") if entry]
    if not listed.ok or len(entries) != 1:
        return None
    mode, kind, oid, size = entries[0].partition(b"\t")[0].split()
    if kind != b"blob" or mode not in (b"100644", b"100755") or int(size) > _LARGEST:
        return None
    shown = git.read(root, "cat-file", "blob", oid.decode("ascii"))
    return shown.stdout if shown.ok else None


def _changed_files(policy: Path, root: Path) -> Iterator[str]:
    """The files that the policy names and that are different beside the head's workspace file."""
    for path in sorted(policy.parent.rglob("*")):
        if path == policy or not path.is_file():
            continue
        name = path.relative_to(policy.parent)
        ours = root / name
        try:
            same = ours.is_file() and ours.read_bytes() == path.read_bytes()
        except OSError:
            same = False
        if not same:
            yield f"{name}: changed or taken out"
