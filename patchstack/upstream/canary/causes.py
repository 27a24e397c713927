"""Explain why a patch fails in a strict chain.

The explanation names the hunks and files that do not fit, and the upstream commits that conflict with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patchstack.git.objects import Objects
from patchstack.git.overlay import EXECUTABLE, FILE, Entry
from patchstack.git.patch.diff import FileDiff, Unsupported
from patchstack.git.patch.effort import SPARE, Pool, TooCostly
from patchstack.git.patch.hunks import Misfit, apply_hunks, effort_for, misfit_alone, place_hunks
from patchstack.upstream.canary.line_owners import Owned, owned_after, unowned
from patchstack.upstream.canary.strict_chain import Standing
from patchstack.upstream.canary.touched_paths import TouchedPaths
from patchstack.upstream.history import UpstreamCommit, UpstreamRange
from patchstack.upstream.merge.histogram import Edit
from patchstack.upstream.merge.text import is_binary, myers

REASONS = 2 * SPARE
REASONS_OF_COMMIT = SPARE // 30
"""The additional work that is allowed in one run for finding the reasons of all failures, in nanoseconds.

The limit is `REASONS`, plus `REASONS_OF_COMMIT` for each upstream commit. 54 patches on 281 commits needed a sixth of
this limit.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason why a patch fails.

    `fault` is a value of `patchstack.git.apply.Fault`. `path` is empty if the path is unknown. `diff` is the diff of
    the file, and `hunk` is the index (from 0) of the hunk that does not fit. `diff` is None if the reason comes from
    git, or if the search was too costly. `hunk` is None if the reason is not a single hunk, for example if the file is
    missing. `line` is the 1-based line in the patch file. It is None if the line is unknown.
    """

    fault: str
    path: bytes
    detail: str
    diff: FileDiff | None = None
    hunk: int | None = None
    line: int | None = None


def reasons_against(standing: Standing, index: int, pool: Pool) -> tuple[Reason, ...]:
    """Return the reasons why a patch does not apply at its place in a chain. The result has at least one reason.

    `pool` is the additional work for placing hunks that all patches of a run share. If it is used up, the reason for a
    file names no hunk.
    """
    diffs = standing.chain.steps(index)
    if diffs is not None:
        found: list[Reason] = []
        costly: list[FileDiff] = []
        data = standing.chain.data(index)
        try:
            for diff in diffs:
                try:
                    found += _of_file(standing, diff, data, pool)
                except TooCostly:
                    costly.append(diff)
        except Unsupported:
            found, costly = [], []
        if found or costly:
            return tuple(found or map(_unsearched, costly))
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


def _unsearched(diff: FileDiff) -> Reason:
    shown = diff.path.decode("utf-8", "replace")
    detail = f"{shown}: its hunks do not match together (finding the place is too costly)"
    return Reason(fault="conflict", path=diff.path, detail=detail, line=diff.line)


def _of_file(standing: Standing, diff: FileDiff, data: bytes, pool: Pool) -> list[Reason]:
    shown = diff.path.decode("utf-8", "replace")
    if diff.new is not None and diff.new != diff.old and standing.slot(diff.new) is not None:
        detail = f"{shown}: the patch creates it, but it already exists"
        return [Reason(fault="conflict", path=diff.new, detail=detail, diff=diff, line=diff.line)]
    if diff.old is None:
        return []
    old = diff.old.decode("utf-8", "replace")
    if standing.slot(diff.old) is None:
        detail = f"{old}: the file does not exist"
        return [Reason(fault="missing-file", path=diff.old, detail=detail, diff=diff, line=diff.line)]
    lines = standing.lines(diff.old)
    if lines is None:
        raise Unsupported("not a regular file", diff.line)
    whole = list(lines)
    effort = effort_for(lines, diff.hunks, pool)
    if len(place_hunks(whole, diff.hunks, effort)) == len(diff.hunks):
        if diff.new is None and whole != [b""]:
            detail = f"{shown}: the patch deletes it, but it has lines that the patch does not list"
            return [Reason(fault="conflict", path=diff.old, detail=detail, diff=diff, line=diff.line)]
        return []

    def misplaced(misfit: Misfit) -> Reason:
        detail, number = f"{shown}: {misfit.describe()}", misfit.number - 1
        assert diff.old is not None
        return Reason(fault="conflict", path=diff.old, detail=detail, diff=diff, hunk=number, line=misfit.line(data))

    each = (misfit_alone(lines, number, hunk, effort) for number, hunk in enumerate(diff.hunks, 1))
    found = [misplaced(misfit) for misfit in each if misfit is not None]
    if not found:  # Each hunk fits alone, but not after the other hunks. Report the hunk at which git fails.
        stumbled = apply_hunks(lines, diff.hunks, effort)
        assert isinstance(stumbled, Misfit)
        found.append(misplaced(stumbled))
    return found


_Version = tuple[int, Entry | None]


class Culprits:
    """Finds the upstream commits that added or removed lines, at the paths that a series touches."""

    def __init__(self, objects: Objects, range_: UpstreamRange, touched: TouchedPaths) -> None:
        self._objects = objects
        self._range = range_
        self._touched = touched
        self._steps: list[list[Entry | None]] | None = None
        self._edits: dict[tuple[bytes, int], tuple[Edit, ...]] = {}
        self._owned: dict[bytes, list[Owned]] = {}

    @property
    def entries(self) -> Sequence[Sequence[Entry | None]]:
        """The entries at the touched paths, first at the pin and then at every commit of the range."""
        if self._steps is None:
            trees = [self._range.pin.tree, *(commit.tree for commit in self._range.commits)]
            self._steps = [self._touched.entries(tree) for tree in trees]
        return self._steps

    def versions(self, path: bytes) -> list[_Version]:
        """Return the versions of a path: at the pin (index -1), and at every commit that changed the path."""
        place = self._touched.place[path]
        found: list[_Version] = []
        for index, entries in enumerate(self.entries, -1):
            if not found or found[-1][1] != entries[place]:
                found.append((index, entries[place]))
        return found

    def changed(self, commit: UpstreamCommit) -> dict[bytes, tuple[Entry | None, Entry | None]]:
        """Return the touched paths that a commit changes, with the entries of each path before and after the commit."""
        before, after = self.entries[commit.index], self.entries[commit.index + 1]
        pairs = zip(self._touched.paths, before, after, strict=True)
        return {path: (old, new) for path, old, new in pairs if old != new}

    def edits(self, commit: UpstreamCommit, path: bytes) -> tuple[Edit, ...]:
        """Return a commit's edits to one of the paths that the commit changes."""
        self._owners(path)
        return self._edits[path, commit.index]

    def changing(self, paths: Sequence[bytes]) -> list[UpstreamCommit]:
        """Return the commits that change any of these paths, in order."""
        indices = {index for path in paths for index, _ in self.versions(path)[1:]}
        return [self._range.commits[index] for index in sorted(indices)]

    def of_path(self, path: bytes) -> UpstreamCommit | None:
        """Return the last commit that changed a path. Return None if no commit changed it."""
        indices = [index for index, _ in self.versions(path)[1:]]
        return self._range.commits[indices[-1]] if indices else None

    def of_lines(self, path: bytes, start: int, end: int) -> list[UpstreamCommit]:
        """Return the commits that added these lines to the tip's version of a path, or removed lines between them."""
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
        """Return the text at a path, with a newline added at its end.

        Return an empty string if the entry is not a text file.
        """
        if entry is None or entry[0] not in (FILE, EXECUTABLE):
            return b""
        data = self._objects.blob(entry[1], path.decode("utf-8", "replace"))
        return b"" if is_binary(data) else data + b"\n"
