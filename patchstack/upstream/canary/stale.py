"""Find patches that still apply but may be wrong.

Upstream may have changed a function that the patch changes, or added a name that the patch adds too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from patchstack.git.objects import Objects
from patchstack.git.overlay import EXECUTABLE, FILE, Entry
from patchstack.git.trees import compare_trees
from patchstack.upstream.canary.causes import Culprits
from patchstack.upstream.canary.diagnose import Diagnoser
from patchstack.upstream.canary.functions import Function, functions, heads_at
from patchstack.upstream.history import UpstreamRange
from patchstack.upstream.merge.edits import Lines, compare
from patchstack.upstream.merge.patch_edits import is_text

_DEFINES = (
    re.compile(rb"^\s*#\s*define\s+(\w+)"),
    re.compile(rb"^\s*(?:typedef\s+)?(?:struct|class|enum|union)\s+(?:class\s+)?(\w+)\s*(?:[:{]|\Z)"),
    re.compile(rb"^(?:[A-Za-z_][\w:<>,*&]*\s+)+[*&]*(\w+)\s*\([^;]*\Z"),
    re.compile(rb"^(?:static|extern|const|constexpr|inline)\s+[\w:<>,*&\s]*?(\w+)\s*(?:=|\[|\{|;)"),
    re.compile(rb"getenv\(\s*\"(\w+)\""),
    re.compile(rb"^\s*(?:def|option|function)\s*\(?\s*(\w+)"),
)
_SHORTEST = 5  # the minimum number of characters in a significant name


class Staleness:
    """Finds upstream's changes that may affect patches that still apply."""

    def __init__(
        self, objects: Objects, range_: UpstreamRange, diagnoser: Diagnoser, culprits: Culprits | None
    ) -> None:
        self._objects = objects
        self._range = range_
        self._diagnoser = diagnoser
        self._culprits = culprits
        self._tip = diagnoser.chain.touched.entries(range_.tip.tree)
        self._pin = diagnoser.chain.touched.entries(range_.pin.tree)
        self._functions: dict[tuple[bytes, bool], list[Function]] = {}

    def around(self, index: int) -> Iterator[str]:
        """Yield a sentence for every function that a patch changes and that upstream changed or removed.

        Yields nothing for a patch that is too large or too costly to analyse.
        """
        if self._diagnoser.own.bulky(index):
            return
        own = self._diagnoser.own
        for path, change in own.of(index).items():
            place = self._diagnoser.chain.touched.place[path]
            lines, pin, tip = own.lines(change.old), own.lines(self._pin[place]), own.lines(self._tip[place])
            if self._pin[place] == self._tip[place] or lines is None or pin is None or tip is None:
                continue
            for head in sorted(heads_at(lines, (edit.at for edit in change.edits or ()))):
                old, new = (self._named(path, there, head) for there in (False, True))
                if old is None:
                    continue  # a function that the series added
                shown = f"{path.decode('utf-8', 'replace')}: {old.name}()"
                if new is None:
                    yield f"{shown} no longer exists in its old form"
                elif list(pin[old.start : old.end]) != list(tip[new.start : new.end]):
                    yield f"{shown}, which the patch changes, has changed{self._by(path, pin, tip, old, new)}"

    def _named(self, path: bytes, tip: bool, head: bytes) -> Function | None:
        """Return the function with the given head in upstream's file.

        Return None unless exactly one function matches.
        """
        key = (path, tip)
        if key not in self._functions:
            slot = (self._tip if tip else self._pin)[self._diagnoser.chain.touched.place[path]]
            self._functions[key] = functions(self._diagnoser.own.lines(slot) or ())
        found = [one for one in self._functions[key] if one.head == head]
        return found[0] if len(found) == 1 else None

    def _by(self, path: bytes, pin: Lines, tip: Lines, old: Function, new: Function) -> str:
        if self._culprits is None:
            return ""
        commits = {
            commit.index: commit.label
            for edit in compare(pin[old.start : old.end], tip[new.start : new.end])
            for commit in self._culprits.of_lines(path, new.start + edit.to, new.start + edit.to + edit.added)
        }
        return f" with {', '.join(commits[one] for one in sorted(commits))}" if commits else ""

    def names(self, indices: Sequence[int], *, everywhere: bool) -> dict[int, list[str]]:
        """Return, for each patch, messages about the names that both the patch and upstream added.

        Each message names upstream's file. A name counts only if upstream added it since the pin. `indices` are the
        patches that apply. Without `everywhere`, only files that the series touches are searched. With `everywhere`,
        all available files that upstream changed are searched, if the series touches a file with the same suffix.
        """
        defined = {index: self._defined(index) for index in indices}
        wanted: set[bytes] = set().union(*defined.values())
        if not wanted:
            return {}
        where: dict[bytes, str] = {}
        for path, old, new in self._changed(everywhere):
            # If a word is in the new text but not in the old text, upstream added a line with it.
            text = self._objects.blob(new[1], path.decode("utf-8", "replace"))
            there = {name for name in wanted - where.keys() if name in text and _is_word(name, text)}
            if not there or not is_text(text):
                continue
            before = self._objects.blob(old[1]) if old is not None else b""
            if is_text(before):
                fresh = (name for name in there if not _is_word(name, before))
                where.update(dict.fromkeys(fresh, path.decode("utf-8", "replace")))
        return {
            index: [
                f"{name.decode()}, which the patch adds, is also in {where[name]} now"
                for name in sorted(names & where.keys())
            ]
            for index, names in defined.items()
            if names & where.keys()
        }

    def _defined(self, index: int) -> set[bytes]:
        own = self._diagnoser.own
        found: set[bytes] = set()
        if self._diagnoser.own.bulky(index):
            return found
        for change in own.of(index).values():
            after = own.lines(change.new)
            added = [after[edit.to : edit.to + edit.added] for edit in change.edits or ()] if after is not None else []
            if change.old is None and after is not None:
                added = [after]
            for line in (line for lines in added for line in lines):
                for define in _DEFINES:
                    match = define.search(line)
                    if match is not None and len(match.group(1)) >= _SHORTEST:
                        found.add(match.group(1))
        return found

    def _changed(self, everywhere: bool) -> Iterator[tuple[bytes, Entry | None, Entry]]:
        """Yield the available files that upstream changed, as path, entry at the pin, and entry at the tip.

        Without `everywhere`, only files that the series touches are included. With `everywhere`, a file is included if
        the series touches a file with the same suffix.
        """
        paths = self._diagnoser.chain.touched.paths
        pairs: list[tuple[bytes, Entry | None, Entry | None]] = list(zip(paths, self._pin, self._tip, strict=True))
        if everywhere:
            kinds = {_kind(path) for path in paths}
            changes = compare_trees(self._objects, self._range.pin.tree, self._range.tip.tree)
            pairs = [(change.path, change.old, change.new) for change in changes if _kind(change.path) in kinds]
        texts = [
            (path, old if _is_file(old) else None, new)
            for path, old, new in pairs
            if old != new and new is not None and _is_file(new)
        ]
        missing = frozenset(self._objects.missing(one[1] for _, old, new in texts for one in (old, new) if one))
        yield from (one for one in texts if all(entry is None or entry[1] not in missing for entry in one[1:]))


def _is_file(entry: Entry | None) -> bool:
    return entry is not None and entry[0] in (FILE, EXECUTABLE)


def _is_word(name: bytes, text: bytes) -> bool:
    return re.search(rb"\b" + re.escape(name) + rb"\b", text) is not None


def _kind(path: bytes) -> bytes:
    """Return the suffix of a file name."""
    return path.rpartition(b"/")[2].rpartition(b".")[2]
