"""Find out whether upstream already contains a patch or a similar change.

The module tests whether the patch would still change upstream, whether it applies in reverse, and whether upstream
contains its hunks. The module also searches for an upstream commit with the same patch-id, similar lines or a similar
title.
"""

from __future__ import annotations

from collections.abc import Sequence

from patchstack.git.objects import Objects
from patchstack.git.overlay import EXECUTABLE, FILE, Entry
from patchstack.git.patch.hunks import effort_for
from patchstack.git.trees import compare_trees
from patchstack.series.files.directory import PatchFile
from patchstack.upstream.canary.causes import Culprits
from patchstack.upstream.canary.diagnose import Diagnoser
from patchstack.upstream.canary.result import Likeness
from patchstack.upstream.canary.similarity import (
    Change,
    ChangedLines,
    bare_lines,
    changed_lines,
    growth,
    patch_ids,
    rare,
    words,
)
from patchstack.upstream.canary.taken import Taken, TakenHunks, applies_backwards
from patchstack.upstream.history import UpstreamCommit, UpstreamRange, tree_before
from patchstack.upstream.merge.edits import Lines, compare, merge_edits
from patchstack.upstream.merge.histogram import Edit
from patchstack.upstream.merge.text import is_binary

SAME_LINES = 0.6
"""The minimum share of a patch's changed lines that a similar upstream commit must change too.

Such a commit counts as a modified version of the patch.
"""
_FEW_LINES = 3
_SAME_WORDS, _FEW_WORDS = 0.6, 3


class Landing:
    """Searches upstream's commits since the pin for the patches of a series."""

    def __init__(
        self,
        objects: Objects,
        patches: Sequence[PatchFile],
        range_: UpstreamRange,
        diagnoser: Diagnoser,
        culprits: Culprits,
    ) -> None:
        self._objects = objects
        self._patches = patches
        self._range = range_
        self._diagnoser = diagnoser
        self._culprits = culprits
        self._hunks = TakenHunks(diagnoser)
        self._ids: dict[int, frozenset[str]] = {}
        self._lines: dict[int, ChangedLines] = {}
        self._own_lines: dict[int, ChangedLines] = {}
        self._every: frozenset[bytes] | None = None
        self._theirs: dict[str, frozenset[bytes]] = {}
        self._rare = rare(commit.subject for commit in range_.commits)

    def whole(self, index: int) -> Likeness | None:
        """Return how upstream's tip contains a complete patch.

        The tip contains the patch if the patch changes nothing in the tip, if a later patch with the same lines changes
        nothing there, or if the patch applies in reverse. Otherwise, the result is None.
        """
        tip = self._range.tip.tree
        if self._diagnoser.carried(tip).nothing[index]:
            return self._since("tree", index)
        with_it = self._together(tip, index)
        if with_it is not None:
            return self._since("tree", with_it)
        if self._backwards(tip, index):
            return self._since("reverse", index)
        return None

    def taken(self, index: int) -> Taken:
        """Return the parts of a patch that upstream's tip contains, hunk by hunk."""
        return self._hunks.of(self._range.tip.tree, index)

    def by_hunks(self, index: int) -> Likeness:
        """Return the commit that added the last hunk of a patch. All hunks of the patch must be in the tip."""
        return self._since("hunks", index)

    def same(self, index: int) -> Likeness | None:
        """Return the first commit that has the same patch-id as a patch under at least one diff algorithm.

        Return None if no commit has the same patch-id, or if the patch is too large or too costly to analyse.
        """
        paths = set(self._diagnoser.own.of(index))
        if not paths or self._diagnoser.own.bulky(index):
            return None
        own: list[Change] | None = None
        known: frozenset[str] | None = None
        for commit in self._culprits.changing(sorted(paths)):
            if self._culprits.changed(commit).keys() != paths or not self._nothing_else(commit, paths):
                continue
            theirs = self._commit_texts(commit)
            own = self._own_texts(index) if own is None else own
            if growth(own) != growth(theirs):
                continue
            if known is None:
                known = frozenset(patch_ids(own))
            if commit.index not in self._ids:
                self._ids[commit.index] = frozenset(patch_ids(theirs))
            if known & self._ids[commit.index]:
                return Likeness(how="patch-id", score=1.0, commit=commit)
        return None

    def similar(self, index: int) -> Likeness | None:
        """Return the commit that is most similar to a patch.

        Only commits that change a file of the patch are compared. They are compared by the lines that they change. If
        no commit has enough of the patch's lines, they are compared by title. Return None if no title is similar
        either.
        """
        mine = self._mine(index)
        total = sum(mine.values())
        best: tuple[float, UpstreamCommit] | None = None
        titled: tuple[float, UpstreamCommit] | None = None
        told = words(self._patches[index].subject) & self._rare
        for commit in self._culprits.changing(sorted(path for path, _, _, _ in self._texts_of(index))):
            score = self._shared(mine, commit) / total if total >= _FEW_LINES else 0.0
            if score >= SAME_LINES and (best is None or score > best[0]):
                best = score, commit
            theirs = words(commit.subject) & self._rare
            shared = len(told & theirs)
            part = shared / len(theirs) if shared >= _FEW_WORDS else 0.0
            if part >= _SAME_WORDS and (titled is None or part > titled[0]):
                titled = part, commit
        if best is not None:
            return Likeness(how="similar", score=best[0], commit=best[1])
        return Likeness(how="title", score=titled[0], commit=titled[1]) if titled is not None else None

    def _mine(self, index: int) -> ChangedLines:
        """Return the significant lines that a patch adds and removes."""
        found = self._own_lines.get(index)
        if found is None:
            texts = self._texts_of(index)
            found = self._own_lines[index] = changed_lines((old, new, edits) for _, old, new, edits in texts)
        return found

    def _shared(self, mine: ChangedLines, commit: UpstreamCommit) -> int:
        """Return how many lines a patch and a commit both change. Return 0 if there are too few to matter.

        An upper bound is computed first, because it is cheaper. The commit adds only lines that its files contain
        afterwards, and removes only lines that its files contained before.
        """
        changed = self._culprits.changed(commit).items()
        before, after = (
            frozenset().union(*(self._standing(path, sides[at]) for path, sides in changed)) for at in (0, 1)
        )
        most = sum(count for (sign, line), count in mine.items() if line in (after if sign == b"+" else before))
        if most < SAME_LINES * sum(mine.values()):
            return 0
        if commit.index not in self._lines:
            self._lines[commit.index] = changed_lines(
                (old.split(b"\n"), new.split(b"\n"), self._culprits.edits(commit, path))
                for path, old, new in self._commit_texts(commit)
            )
        return sum((mine & self._lines[commit.index]).values())

    def _standing(self, path: bytes, entry: Entry | None) -> frozenset[bytes]:
        """Return the lines of an upstream file that any patch of the series adds or removes."""
        oid = entry[1] if entry is not None else ""
        if oid not in self._theirs:
            if self._every is None:
                every = range(len(self._diagnoser.own))
                self._every = frozenset(line for index in every for _, line in self._mine(index))
            self._theirs[oid] = self._every.intersection(bare_lines(self._text(path, entry)))
        return self._theirs[oid]

    def _together(self, tree: str, index: int) -> int | None:
        """Return a later patch that changes the same lines, if upstream took both patches as one change.

        In this case, patch `index` alone conflicts with upstream, which contains the result of the later patch. Return
        None if no such patch exists.
        """
        own = self._diagnoser.own
        if self._diagnoser.own.bulky(index):
            return None
        nothing = self._diagnoser.carried(tree).nothing
        paths = own.of(index).keys()
        later = [one for one in range(index + 1, len(own)) if nothing[one] and paths & own.of(one).keys()]
        entries = self._diagnoser.chain.touched.entries(tree)
        for path in paths if later else ():
            last = max((one for one in later if path in own.of(one)), default=index)
            slots = own.of(index)[path].old, entries[self._diagnoser.chain.touched.place[path]], own.of(last)[path].new
            before, here, after = (own.lines(slot) for slot in slots)
            if before is None or here is None or after is None:
                return None
            if not merge_edits(here, after, compare(before, here), compare(before, after)).nothing:
                return None
        return later[-1] if later else None

    def _since(self, how: str, index: int) -> Likeness:
        """Return the commit since which upstream contains a patch.

        Upstream contains the patch at this commit, and at every later commit that touches the patch's files. `how`
        selects the test (see `Likeness`). The commit of the result is None if upstream already contained the patch at
        the pin.
        """
        commits = self._culprits.changing(sorted(self._diagnoser.own.of(index)))
        trees = [self._range.pin.tree, *(commit.tree for commit in commits)]
        first = len(commits)
        while first >= 0 and self._there(how, trees[first], index):
            first -= 1
        if first < 0:
            return Likeness(how=how, score=1.0, commit=None)
        return Likeness(how=how, score=1.0, commit=commits[min(first, len(commits) - 1)])

    def _there(self, how: str, tree: str, index: int) -> bool:
        if how == "tree":
            return self._diagnoser.landed_at(tree, index)
        if how == "hunks":
            return not self._hunks.of(tree, index).remains
        return self._backwards(tree, index)

    def _backwards(self, tree: str, index: int) -> bool:
        """Return whether a patch applies in reverse to an upstream tree, as `git apply --reverse` would apply it."""
        diffs = self._diagnoser.chain.steps(index)
        if diffs is None:
            return False
        chain = self._diagnoser.chain
        entries = chain.touched.entries(tree)
        for diff in diffs:
            there = entries[chain.touched.place[diff.new]] if diff.new is not None else None
            back = entries[chain.touched.place[diff.old]] if diff.old is not None else None
            if (there is None) is not (diff.new is None):
                return False
            if diff.old != diff.new and back is not None:
                return False
            if there is not None and (there[0] not in (FILE, EXECUTABLE) or there[0] != (diff.new_mode or there[0])):
                return False
            lines = chain.lines(there[1]) if there is not None else [b""]
            if not applies_backwards(lines, diff.hunks, effort_for(lines, diff.hunks, self._hunks.pool)):
                return False
        return True

    def _texts_of(self, index: int) -> list[tuple[bytes, Lines, Lines, tuple[Edit, ...] | None]]:
        """Return each text that a patch changes: its path, its lines before and after the patch, and its edits.

        The result is empty for a patch that is too large or too costly to analyse.
        """
        own = self._diagnoser.own
        found: list[tuple[bytes, Lines, Lines, tuple[Edit, ...] | None]] = []
        if self._diagnoser.own.bulky(index):
            return found
        for path, change in own.of(index).items():
            old, new = (own.lines(slot) if slot is not None else [b""] for slot in (change.old, change.new))
            if old is not None and new is not None:
                found.append((path, old, new, change.edits))
        return found

    def _own_texts(self, index: int) -> list[Change]:
        """Return the texts that a patch changes, as complete contents."""
        return [(path, b"\n".join(old), b"\n".join(new)) for path, old, new, _ in self._texts_of(index)]

    def _nothing_else(self, commit: UpstreamCommit, paths: set[bytes]) -> bool:
        """Return whether a commit changes exactly these paths."""
        before = tree_before(self._range, self._objects, commit)
        return {change.path for change in compare_trees(self._objects, before, commit.tree)} == paths

    def _commit_texts(self, commit: UpstreamCommit) -> list[Change]:
        """Return the changes of a commit to the files that the series touches."""
        return [
            (path, self._text(path, old), self._text(path, new))
            for path, (old, new) in self._culprits.changed(commit).items()
        ]

    def _text(self, path: bytes, entry: Entry | None) -> bytes:
        if entry is None or entry[0] not in (FILE, EXECUTABLE):
            return b""
        data = self._objects.blob(entry[1], path.decode("utf-8", "replace"))
        return b"" if is_binary(data) else data


def drop_reason(like: Likeness) -> str:
    """Return why a patch can be dropped, as a text for `--why`."""
    if like.commit is None:
        return "upstream had it at the pin already"
    return f"landed as {commit_named(like.commit)}"


def commit_named(commit: UpstreamCommit) -> str:
    """Return the name of an upstream commit: its pull request, its id and its date."""
    told = commit.date if commit.pr is None else f"{commit.oid[:12]}, {commit.date}"
    return f"upstream {commit.label} ({told})"
