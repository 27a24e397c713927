"""Has upstream a patch already, or something like it? By what it would still change, backwards, by patch-id, by lines
and by title."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from pygit2.enums import DiffOption

from patchstack.git.diff import Hunk
from patchstack.git.hunks import place_hunks
from patchstack.git.objects import Objects
from patchstack.git.overlay import EXECUTABLE, FILE, Entry
from patchstack.git.trees import compare_trees
from patchstack.series.model import PatchFile
from patchstack.upstream.carry import Lines, compare, lay
from patchstack.upstream.culprits import Culprits
from patchstack.upstream.diagnose import Diagnoser
from patchstack.upstream.history import UpstreamCommit, UpstreamRange, tree_before
from patchstack.upstream.lines import Edit, edits, is_binary
from patchstack.upstream.result import Likeness

SAME_LINES = 0.6
"""From this part of a patch's changed lines on, an upstream commit counts as the patch, landed with changes."""
_FEW_LINES = 3
_SAME_WORDS, _FEW_WORDS = 0.6, 3

# What `git diff --diff-algorithm` can write, as far as libgit2 knows it. Both sides are compared anew: how the patch
# file was written does not matter.
_ALGORITHMS = (
    DiffOption.NORMAL,
    DiffOption.INDENT_HEURISTIC,
    DiffOption.MINIMAL,
    DiffOption.PATIENCE,
    DiffOption.PATIENCE | DiffOption.INDENT_HEURISTIC,
)
_CONTEXT = 3

_Change = tuple[bytes, bytes, bytes]
"""A path, and its text before and after."""


class Landing:
    """Looks for the patches of a series among upstream's commits since the pin."""

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
        self._ids: dict[int, frozenset[str]] = {}
        self._lines: dict[int, Counter[tuple[bytes, bytes]]] = {}
        self._rare = _rare(commit.subject for commit in range_.commits)

    def whole(self, index: int) -> Likeness | None:
        """Whether upstream's tip has all that a patch does: it changes nothing there, or applies backwards."""
        tip = self._range.tip.tree
        if self._diagnoser.carried(tip).nothing[index]:
            return self._since("tree", index)
        with_it = self._together(tip, index)
        if with_it is not None:
            return self._since("tree", with_it)
        if self._backwards(tip, index):
            return self._since("reverse", index)
        return None

    def same(self, index: int) -> Likeness | None:
        """The commit that makes the same change by patch-id, under any diff algorithm."""
        paths = set(self._diagnoser.own.of(index))
        if not paths:
            return None
        known: frozenset[str] | None = None
        for commit in self._culprits.changing(sorted(paths)):
            if self._culprits.changed(commit).keys() != paths or not self._nothing_else(commit, paths):
                continue
            if known is None:
                known = frozenset(_ids(self._own_texts(index)))
            if commit.index not in self._ids:
                self._ids[commit.index] = frozenset(_ids(self._commit_texts(commit)))
            if known & self._ids[commit.index]:
                return Likeness(how="patch-id", score=1.0, commit=commit)
        return None

    def similar(self, index: int) -> Likeness | None:
        """The commit that is most like a patch: by the lines it changes, or by its title where both touch a file."""
        own = self._own_texts(index)
        changes = self._diagnoser.own.of(index)
        mine = _changed_lines(own, [changes[path].edits for path, _, _ in own])
        total = sum(mine.values())
        best: tuple[float, UpstreamCommit] | None = None
        titled: tuple[float, UpstreamCommit] | None = None
        words = _words(self._patches[index].subject) & self._rare
        for commit in self._culprits.changing(sorted({path for path, _, _ in own})):
            if commit.index not in self._lines:
                texts = self._commit_texts(commit)
                found = [self._culprits.edits(commit, path) for path, _, _ in texts]
                self._lines[commit.index] = _changed_lines(texts, found)
            score = sum((mine & self._lines[commit.index]).values()) / total if total >= _FEW_LINES else 0.0
            if score >= SAME_LINES and (best is None or score > best[0]):
                best = score, commit
            theirs = _words(commit.subject) & self._rare
            shared = len(words & theirs)
            part = shared / len(theirs) if shared >= _FEW_WORDS else 0.0
            if part >= _SAME_WORDS and (titled is None or part > titled[0]):
                titled = part, commit
        if best is not None:
            return Likeness(how="similar", score=best[0], commit=best[1])
        return Likeness(how="title", score=titled[0], commit=titled[1]) if titled is not None else None

    def _together(self, tree: str, index: int) -> int | None:
        """A later patch on the same lines that has landed, where the two have landed as one: alone, the earlier one
        collides with what the later one made of it."""
        own = self._diagnoser.own
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
            if not lay(before, here, after, compare(before, here), compare(before, after)).nothing:
                return None
        return later[-1] if later else None

    def _since(self, how: str, index: int) -> Likeness:
        """Which commit brought it: the first since which it is so at every one that touches the files."""
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
        return self._backwards(tree, index)

    def _backwards(self, tree: str, index: int) -> bool:
        """Whether a patch applies backwards, as `git apply --reverse` would, to a tree of upstream."""
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
            if there is not None and there[0] not in (FILE, EXECUTABLE):
                return False
            lines = list(chain.lines(there[1])) if there is not None else [b""]
            hunks = tuple(_reversed(hunk) for hunk in diff.hunks)
            if len(place_hunks(lines, hunks)) < len(hunks) or (diff.old is None and lines != [b""]):
                return False
        return True

    def _own_texts(self, index: int) -> list[_Change]:
        own = self._diagnoser.own
        found = []
        for path, change in own.of(index).items():
            old, new = (own.lines(slot) if slot is not None else [b""] for slot in (change.old, change.new))
            if old is not None and new is not None:
                found.append((path, b"\n".join(old), b"\n".join(new)))
        return found

    def _nothing_else(self, commit: UpstreamCommit, paths: set[bytes]) -> bool:
        """Whether a commit changes these paths and no others."""
        before = tree_before(self._range, self._objects, commit)
        return {change.path for change in compare_trees(self._objects, before, commit.tree)} == paths

    def _commit_texts(self, commit: UpstreamCommit) -> list[_Change]:
        """What a commit changes of the files that the series touches."""
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
    """Why a patch can go, in the words for `--why`."""
    if like.commit is None:
        return "upstream had it at the pin already"
    where = f"upstream {like.commit.label} ({like.commit.oid[:12]}, {like.commit.date})"
    if like.how == "similar":
        return f"landed with changes as {where}: {like.score:.0%} of its lines"
    return f"landed as {where}"


def _reversed(hunk: Hunk) -> Hunk:
    return Hunk(
        old_start=hunk.new_start,
        new_start=hunk.old_start,
        before=hunk.after,
        after=hunk.before,
        context=hunk.context,
        trailing=hunk.trailing,
        before_no_newline=hunk.after_no_newline,
        after_no_newline=hunk.before_no_newline,
        line=hunk.line,
        header=hunk.header,
    )


def _ids(changes: Sequence[_Change]) -> set[str]:
    """A change's id under every algorithm: as `git patch-id`, of the lines with their context, without blanks."""
    return {_id(changes, algorithm) for algorithm in _ALGORITHMS}


def _id(changes: Sequence[_Change], algorithm: DiffOption) -> str:
    digest = hashlib.sha256()
    for path, old, new in sorted(changes):
        before, after = old.split(b"\n"), new.split(b"\n")
        digest.update(path + b"\0")
        found = edits(old + b"\n", new + b"\n", algorithm)
        at = 0
        for edit in found:
            _feed(digest, before[max(at, edit.at - _CONTEXT) : edit.at], b" ")
            _feed(digest, before[edit.at : edit.at + edit.removed], b"-")
            _feed(digest, after[edit.to : edit.to + edit.added], b"+")
            at = edit.at + edit.removed
            ahead = next((one.at for one in found if one.at >= at and one is not edit), at + _CONTEXT)
            _feed(digest, before[at : min(at + _CONTEXT, ahead)], b" ")
            at = min(at + _CONTEXT, ahead)
    return digest.hexdigest()


def _feed(digest: hashlib._Hash, lines: Lines, sign: bytes) -> None:
    for line in lines:
        digest.update(sign + b"".join(line.split()) + b"\0")


def _changed_lines(
    changes: Sequence[_Change], found: Sequence[tuple[Edit, ...] | None]
) -> Counter[tuple[bytes, bytes]]:
    """The lines that a change adds (`+`) and removes (`-`), without blanks; those that say little are left out.

    `found` are its edits of each file, where they are known."""
    counted: Counter[tuple[bytes, bytes]] = Counter()
    for (_, old, new), known in zip(changes, found, strict=True):
        before, after = old.split(b"\n"), new.split(b"\n")
        for edit in edits(old + b"\n", new + b"\n") if known is None else known:
            for sign, lines in (
                (b"-", before[edit.at : edit.at + edit.removed]),
                (b"+", after[edit.to : edit.to + edit.added]),
            ):
                for line in lines:
                    bare = b"".join(line.split())
                    if len(_LETTER.findall(bare)) >= 4:
                        counted[sign, bare] += 1
    return counted


_LETTER = re.compile(rb"\w")
_WORD = re.compile(r"[a-z0-9]{4,}")
_PREFIX = re.compile(r"\b([a-z]{2,3})-(?=[a-z])")  # de-dup is dedup
_STEM = 6  # letters by which two forms of a word are one


def _words(title: str) -> frozenset[str]:
    joined = _PREFIX.sub(r"\1", title.lower())
    return frozenset(word[:_STEM] for word in _WORD.findall(joined) if not word.isdigit())


def _rare(titles: Iterable[str]) -> frozenset[str]:
    """The words that few of the titles have: those that tell one from another."""
    counted: Counter[str] = Counter()
    number = 0
    for title in titles:
        number += 1
        counted.update(_words(title))
    return frozenset(word for word, count in counted.items() if count <= max(2, number // 20))
