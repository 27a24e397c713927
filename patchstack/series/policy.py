"""Read the policy from a commit of the workspace's own repository, or from a workspace file."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from patchstack.causes import NotFetchable, WorkspaceUnusable
from patchstack.errors import ConfigError
from patchstack.files.regular import same_content
from patchstack.git import run as git
from patchstack.workspace import Workspace, is_url
from patchstack.workspace.policy import governed, named_files

_FILES = (".yaml", ".yml")
_LARGEST = 64 << 20
_AT_ONCE = 200


@contextlib.contextmanager
def policy_from(head: Path, source: str) -> Iterator[Workspace]:
    """Open the workspace at `head` with the policy of `source`, inside a `with` block.

    `source` is a file if its name ends in `.yaml` or `.yml`. Otherwise, it is a commit. It is not checked whether a
    file with this name exists, because a change under review could add a file with the name of a commit.

    Raises `MissingError` for a file or commit that does not exist, and for a commit that has no workspace file. Raises
    `ConfigError` for a policy that cannot be used.
    """
    if source.endswith(_FILES):
        if not Path(source).is_file():
            raise NotFetchable(f"no policy file at {source}", hint="give the path of a workspace file, or a commit")
        found = governed(head, Path(source), source)
        _refuse_brought(found)
        yield found
        return
    with tempfile.TemporaryDirectory(prefix="patchstack-policy-") as directory:
        policy, commit, top = _written(head, source, Path(directory).resolve())
        origin = f"{source} ({commit[:12]})" if not commit.startswith(source) else commit[:12]
        try:
            found = governed(head, policy, origin)
        except ConfigError as error:
            told = [text.replace(f"{policy.parent}{os.sep}", f"{origin}:") for text in error.problems]
            raise WorkspaceUnusable(error.message, problems=told, hint=error.hint) from error
        changed = tuple(_changed_files(policy, top, head.parent))
        _refuse_brought(found)
        yield replace(found, not_used=(*found.not_used, *changed))


def _written(head: Path, ref: str, directory: Path) -> tuple[Path, str, Path]:
    """Write the workspace file of a commit, and the files that it names, into a directory.

    Return the file, the id of the commit, and the directory that represents the repository's root.
    """
    below = head.parent.resolve()
    root = _repository(below)
    asked = git.read(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if not asked.ok:
        raise NotFetchable(
            f"the commit {ref}, which contains the policy, is missing",
            hint="fetch the commit; in CI, check out with fetch-depth: 2 (a pull request's merge) or 0",
        )
    commit = asked.stdout.decode("ascii").strip()
    prefix = "" if below == root else f"{below.relative_to(root)}/"
    name = f"{prefix}{head.name}"
    content = _contents(root, commit, [name]).get(name)
    if content is None:
        raise NotFetchable(
            f"{ref} has no {name}, so there is no policy for this change",
            hint="a maintainer must add the workspace to the base branch in a separate change",
        )
    flat = directory / head.name
    flat.write_bytes(content)
    names = sorted(name for name in set(named_files(flat)) if not name.startswith("/"))
    # The nesting keeps names with `..` inside this directory, where only this user can add files.
    up = max((PurePosixPath(name).parts.count("..") for name in names), default=0)
    top = directory.joinpath("top", *["below"] * up)
    policy = top / prefix / head.name
    policy.parent.mkdir(parents=True)
    policy.write_bytes(content)
    flat.unlink()
    inside = {path for one in names if not (path := os.path.normpath(f"{prefix}{one}")).startswith("..")}
    for path, found in _contents(root, commit, sorted(inside - {name, "."})).items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(found)
    return policy, commit, top


def _repository(directory: Path) -> Path:
    """Return the root of the repository that contains a directory. If there is no repository, return the directory."""
    return next((one for one in (directory, *directory.parents) if (one / ".git").exists()), directory)


def _refuse_brought(workspace: Workspace) -> None:
    """Raise `ConfigError` for a fork or upstream that the change itself adds.

    The change may add a repository as files, as a link, or as a submodule of the checkout.
    """
    root = _repository(workspace.root.resolve())
    if not (root / ".git").exists():
        return
    problems = []
    for config in workspace.series:
        for key, place in (("upstream", config.upstream), ("fork", config.fork)):
            if place is not None and not is_url(place) and (why := _brought(root, place)):
                problems.append(f"series.{config.name}.{key}: {why}")
    if problems:
        raise WorkspaceUnusable(
            "the policy names a repository that the change itself adds",
            problems=problems,
            hint="use a URL, a path outside the checkout, or a clone that the checkout does not track",
        )


def _brought(root: Path, place: str) -> str:
    """Describe how the checkout at `root` contains the repository at a path.

    Return an empty string if the checkout does not contain the repository.
    """
    # Directories above the checkout are not part of the change, so their links are followed.
    path = os.path.normpath(os.path.join(os.path.realpath(os.curdir), place))
    within = os.path.relpath(path, root)
    steps = PurePosixPath(within)
    if within == os.curdir or steps.parts[0] == os.pardir:
        return ""
    ways = [str(one) for one in (*reversed(steps.parents), steps) if str(one) != "."]
    listed = git.read(root, "--literal-pathspecs", "ls-files", "-s", "-z", "--", *ways)
    for entry in listed.stdout.decode("utf-8", "surrogateescape").split("\0"):
        mode, name = entry.partition(" ")[0], entry.partition("\t")[2]
        if name in ways and mode in ("120000", "160000"):
            return f"{name} is a {'link' if mode == '120000' else 'submodule'} of the checkout"
        if name.startswith(f"{within}/") and not os.path.lexists(root / within / ".git"):
            return f"{name} is a file of the checkout"
    return ""


def _contents(root: Path, commit: str, paths: Sequence[str]) -> dict[str, bytes]:
    """Return the contents of the regular files of a commit at these paths. Links and very large files are ignored."""
    found = {}
    for start in range(0, len(paths), _AT_ONCE):
        some = paths[start : start + _AT_ONCE]
        listed = git.read(root, "--literal-pathspecs", "ls-tree", "-z", "--full-tree", "-l", commit, "--", *some)
        for entry in filter(None, listed.stdout.split(b"\0")):
            mode, kind, oid, size = entry.partition(b"\t")[0].split()
            path = entry.partition(b"\t")[2].decode("utf-8", "surrogateescape")
            if path in some and kind == b"blob" and mode in (b"100644", b"100755") and int(size) <= _LARGEST:
                shown = git.read(root, "cat-file", "blob", oid.decode("ascii"))
                if shown.ok:
                    found[path] = shown.stdout
    return found


def _changed_files(policy: Path, top: Path, root: Path) -> Iterator[str]:
    """Yield the files that the policy names and that differ in the checkout. `root` contains the workspace file."""
    for path in sorted(top.rglob("*")):
        if path == policy or not path.is_file():
            continue
        name = os.path.relpath(path, policy.parent)
        if not same_content(path, root / name):
            yield f"{name}: changed or removed"
