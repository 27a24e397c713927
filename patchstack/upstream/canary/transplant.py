"""Build hypothetical trees with only some of upstream's commits, to find the commits that break a patch."""

from __future__ import annotations

from collections.abc import Iterable

from patchstack.git.objects import Objects
from patchstack.git.overlay import EXECUTABLE, FILE, Entry, TreeOverlay
from patchstack.git.trees import PathChange, compare_trees
from patchstack.upstream.canary.touched_paths import TouchedPaths
from patchstack.upstream.history import UpstreamCommit, UpstreamRange, tree_before
from patchstack.upstream.merge.patch import Picker


class Transplant:
    """Applies commits of a range to upstream trees, at the paths that a series touches.

    Contents are merged only at these paths. At other paths, a change is applied if the tree has the commit's old entry.
    This matters only for following renamed files.
    """

    def __init__(self, objects: Objects, range_: UpstreamRange, touched: TouchedPaths) -> None:
        self._objects = objects
        self._range = range_
        self._touched = touched
        self._picker = Picker(objects)

    def onto(self, tree: str, commits: Iterable[UpstreamCommit]) -> str | None:
        """Return a tree with the changes of `commits`, which must be sorted oldest first.

        Return None if a commit does not merge. The tree stays in memory.
        """
        for commit in commits:
            there = self._with(tree, commit)
            if there is None:
                return None
            tree = there
        return tree

    def _with(self, tree: str, commit: UpstreamCommit) -> str | None:
        before = tree_before(self._range, self._objects, commit)
        if before == tree:
            return commit.tree
        result = TreeOverlay(self._objects, tree)
        changes = list(compare_trees(self._objects, before, commit.tree))
        # Apply removals first, because a directory may replace a file.
        for change in sorted(changes, key=lambda change: change.new is not None):
            ours = result.entry(change.path) if result.obstacle(change.path) is None else None
            if ours == change.old:
                merged = change.new
            elif change.path not in self._touched.place or ours == change.new:
                continue
            else:
                merged = self._merged(change, ours)
                if merged is None:
                    return None
            if merged is None:
                result.remove(change.path)
            elif result.obstacle(change.path) is None:
                result.put(change.path, *merged)
        return result.write()

    def _merged(self, change: PathChange, ours: Entry | None) -> Entry | None:
        """Merge three versions of one path. Return None if they conflict."""
        found = [one for one in (change.old, ours, change.new) if one is not None and one[0] in (FILE, EXECUTABLE)]
        if len(found) < 3:
            return None
        base, mine, theirs = found
        text = self._picker.texts(base[1], mine[1], theirs[1])
        if not text.clean:
            return None
        return (theirs[0] if mine[0] == base[0] else mine[0]), self._objects.add("blob", text.text)
