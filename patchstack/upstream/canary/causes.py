"""Why a patch fails in a strict chain: every hunk and file that does not fit, and the upstream commits in its way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchstack.git.objects import Objects
from patchstack.git.overlay import EXECUTABLE, FILE, Entry
from patchstack.git.patch.diff import FileDiff, Unsupported
from patchstack.git.patch.hunks import Misfit, apply_hunks, place_hunks
from patchstack.upstream.canary.line_owners import Owned, owned_after, unowned
from patchstack.upstream.canary.strict_chain import Standing
from patchstack.upstream.canary.touched_paths import TouchedPaths
from patchstack.upstream.history import UpstreamCommit, UpstreamRange
from patchstack.upstream.merge.histogram import Edit
from patchstack.upstream.merge.text import is_binary, myers


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason against a patch. `fault` is a word of `patchstack.git.apply.Fault`; `path` is empty if none is
    known.

    `diff` and `hunk` (counted from 0) tell the hunk that does not fit; `hunk` is None for a missing file, or
    that exists and should not be. `line` is the 1-based line of the patch file that it is about, None if not known.
    """

    fault: str
    path: bytes
    detail: str
    diff: FileDiff | None = None
    hunk: int | None = None
    line: int | None = None


def reasons_against(standing: Standing, index: int) -> tuple[Reason, ...]:
    """The reasons for which a patch does not apply when a chain comes to it; at least one."""
    diffs = standing.chain.steps(index)
    if diffs is not None:
        try:
            data = standing.chain.data(index)
            found = tuple(reason for diff in diffs for reason in _of_file(standing, diff, data))
        except Unsupported:
            found = ()
        if found:
            return found
    outcome = standing.chain.outcome(standing, index)
    return tuple(
        Reason(
            fault=problem.fault.value,
            path=problem.path.encode("utf-8", "surrogateescape"),
            detail=problem.detail,
            line=problem.line,
        )
        for problem in outcome.problems
    )


def _of_file(standing: Standing, diff: FileDiff, data: bytes) -> list[Reason]:
    shown = diff.path.decode("utf-8", "replace")
    if diff.new is not None and diff.new != diff.old and standing.slot(diff.new) is not None:
        detail = f"{shown}: the patch makes it, but it is there already"
        return [Reason(fault="conflict", path=diff.new, detail=detail, diff=diff, line=diff.line)]
    if diff.old is None:
        return []
    old = diff.old.decode("utf-8", "replace")
    if standing.slot(diff.old) is None:
        detail = f"{old}: the file is not there"
        return [Reason(fault="missing-file", path=diff.old, detail=detail, diff=diff, line=diff.line)]
    lines = standing.lines(diff.old)
    if lines is None:
        raise Unsupported("no regular file", diff.line)
    whole = list(lines)
    if len(place_hunks(whole, diff.hunks)) == len(diff.hunks):
        if diff.new is None and whole != [b""]:
            detail = f"{shown}: the patch deletes it, but it holds lines the patch does not know"
            return [Reason(fault="conflict", path=diff.old, detail=detail, diff=diff, line=diff.line)]
        return []

    def misplaced(misfit: Misfit) -> Reason:
        detail, number = f"{shown}: {misfit.describe()}", misfit.number - 1
        assert diff.old is not None
        return Reason(fault="conflict", path=diff.old, detail=detail, diff=diff, hunk=number, line=misfit.line(data))

    found = []
    for number, hunk in enumerate(diff.hunks, 1):
        alone = apply_hunks(lines, (hunk,))
        if isinstance(alone, Misfit):
            found.append(misplaced(replace(alone, number=number)))
    if not found:  # each fits alone, but not after the others: the one that git stumbles over
        stumbled = apply_hunks(lines, diff.hunks)
        assert isinstance(stumbled, Misfit)
        found.append(misplaced(stumbled))
    return found


_Version = tuple[int, Entry | None]


class Culprits:
    """The commits of a range as the owners of upstream's lines, at the paths a series touches."""

    def __init__(self, objects: Objects, range_: UpstreamRange, touched: TouchedPaths) -> None:
        self._objects = objects
        self._range = range_
        self._touched = touched
        self._steps: list[list[Entry | None]] | None = None
        self._edits: dict[tuple[bytes, int], tuple[Edit, ...]] = {}
        self._owned: dict[bytes, list[Owned]] = {}

    @property
    def entries(self) -> Sequence[Sequence[Entry | None]]:
        """What is at the touched paths at the pin (first) and at every commit behind it."""
        if self._steps is None:
            trees = [self._range.pin.tree, *(commit.tree for commit in self._range.commits)]
            self._steps = [self._touched.entries(tree) for tree in trees]
        return self._steps

    def versions(self, path: bytes) -> list[_Version]:
        """What was at a path: at the pin (index -1), and at every commit that changed it."""
        place = self._touched.place[path]
        found: list[_Version] = []
        for index, entries in enumerate(self.entries, -1):
            if not found or found[-1][1] != entries[place]:
                found.append((index, entries[place]))
        return found

    def changed(self, commit: UpstreamCommit) -> dict[bytes, tuple[Entry | None, Entry | None]]:
        """What a commit changes of the touched paths: what stood there before, and what stands there now."""
        before, after = self.entries[commit.index], self.entries[commit.index + 1]
        pairs = zip(self._touched.paths, before, after, strict=True)
        return {path: (old, new) for path, old, new in pairs if old != new}

    def edits(self, commit: UpstreamCommit, path: bytes) -> tuple[Edit, ...]:
        """The edits that a commit makes to a path it changes."""
        self._owners(path)
        return self._edits[path, commit.index]

    def changing(self, paths: Sequence[bytes]) -> list[UpstreamCommit]:
        """The commits that change any of these paths, in order."""
        indices = {index for path in paths for index, _ in self.versions(path)[1:]}
        return [self._range.commits[index] for index in sorted(indices)]

    def of_path(self, path: bytes) -> UpstreamCommit | None:
        """The last commit that changed a path."""
        indices = [index for index, _ in self.versions(path)[1:]]
        return self._range.commits[indices[-1]] if indices else None

    def of_lines(self, path: bytes, start: int, end: int) -> list[UpstreamCommit]:
        """The commits that made some lines of a path at the tip, or took lines away between them."""
        known = self._owners(path)
        return [self._range.commits[by] for by in sorted(known[-1].within(start, end))] if known else []

    def _owners(self, path: bytes) -> list[Owned]:
        known = self._owned.get(path)
        if known is None:
            known = self._owned[path] = []
            text = b""
            last = unowned(0)
            for index, entry in self.versions(path):
                new = self._text(path, entry)
                if index < 0:
                    last = unowned(new.count(b"\n"))
                else:
                    found = self._edits[path, index] = myers(text, new)
                    last = owned_after(last, index, found)
                text = new
                known.append(last)
        return known

    def _text(self, path: bytes, entry: Entry | None) -> bytes:
        """What is at a path, every line with a newline; nothing for what is not a text."""
        if entry is None or entry[0] not in (FILE, EXECUTABLE):
            return b""
        data = self._objects.blob(entry[1], path.decode("utf-8", "replace"))
        return b"" if is_binary(data) else data + b"\n"
