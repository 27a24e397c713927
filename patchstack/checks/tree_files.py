"""Select files of a tree by globs or paths.

Directories are cached by their id, so unchanged directories are not listed again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from patchstack.checks.model import TreeFile
from patchstack.git.objects import Objects
from patchstack.git.overlay import DIRECTORY
from patchstack.series.lint.globs import matching

_REGULAR = 0o100000
_WILD = re.compile(r"[*?\[]")


class Selection:
    """Selects files by globs or by exact paths."""

    def __init__(self, *, globs: Collection[str] = (), paths: Collection[str] = ()) -> None:
        self._globs = tuple(globs)
        self._paths = frozenset(paths)
        self._below = {path.rpartition("/")[0] for path in self._paths}
        self._below |= {"/".join(one.split("/")[:n]) for one in list(self._below) for n in range(one.count("/") + 1)}
        self._roots = tuple(map(_root, self._globs))
        self.key = (self._globs, self._paths)

    def matches(self, path: str) -> bool:
        """Return whether a file is selected."""
        return path in self._paths or (bool(self._globs) and matching(path, self._globs) is not None)

    def may_hold(self, directory: str) -> bool:
        """Return whether a directory may contain selected files, at any depth."""
        return directory in self._below or any(
            not root or root.startswith(f"{directory}/") or f"{directory}/".startswith(root) for root in self._roots
        )


def _root(glob: str) -> str:
    """Return the common beginning of all paths that a glob matches.

    If the glob has wildcards, this is the directory before the first wildcard, with a trailing slash. Otherwise, it is
    the path itself. It is empty if the glob can match anywhere in the tree.
    """
    body = glob.rstrip("/")
    if "/" not in body:
        return ""
    body = body.lstrip("/")
    wild = _WILD.search(body)
    fixed = body if wild is None else body[: wild.start()]
    return fixed if wild is None else fixed.rpartition("/")[0] + ("/" if "/" in fixed else "")


class TreeFiles:
    """Lists the files of trees, with a cache."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._listed: dict[tuple[object, str, str], tuple[TreeFile, ...]] = {}
        self._entries: dict[str, tuple[tuple[int, str, str], ...]] = {}

    def select(self, tree: str, selection: Selection) -> tuple[TreeFile, ...]:
        """Return the selected regular files of a tree, sorted by path.

        Raises `MissingObject` if the git object of a directory is missing.
        """
        return self._below(tree, "", selection.key, selection.matches, selection.may_hold)

    def _below(
        self, oid: str, prefix: str, key: object, matches: Callable[[str], bool], may_hold: Callable[[str], bool]
    ) -> tuple[TreeFile, ...]:
        known = self._listed.get((key, prefix, oid))
        if known is not None:
            return known
        found: list[TreeFile] = []
        for mode, name, entry in self._directory(oid):
            path = prefix + name
            if mode == DIRECTORY:
                if may_hold(path):
                    found.extend(self._below(entry, f"{path}/", key, matches, may_hold))
            elif mode & 0o170000 == _REGULAR and matches(path):
                found.append(TreeFile(path=path, mode=mode, oid=entry))
        listed = self._listed[key, prefix, oid] = tuple(found)
        return listed

    def _directory(self, oid: str) -> tuple[tuple[int, str, str], ...]:
        """Return the mode, name and id of each entry of a directory.

        The entries are cached, because all checks read the same directories.
        """
        found = self._entries.get(oid)
        if found is None:
            listed = self._objects.tree(oid)
            found = tuple((mode, name.decode("utf-8", "surrogateescape"), entry) for mode, name, entry in listed)
            self._entries[oid] = found
        return found
