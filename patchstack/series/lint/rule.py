"""Define the types of lint: the subject of a rule, its findings, and the rule itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from patchstack.git.objects import Objects
from patchstack.git.overlay import EXECUTABLE, FILE, TreeOverlay
from patchstack.git.patch.text import PatchText
from patchstack.series.files.directory import PatchFile, Series
from patchstack.series.verify.prefix_trees import Link
from patchstack.workspace import LintPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding.

    `line` is the line in the patch file, from 1. `number` is the number of the patch; None if the file has no number.
    """

    rule: str
    file: str
    line: int
    message: str
    number: int | None = None


class Contents:
    """The files of trees. Each file is read only once."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._trees: dict[str, TreeOverlay] = {}
        self._lines: dict[str, list[bytes]] = {}

    def has(self, tree: str, path: bytes) -> bool:
        """Return whether the tree has a file or link at a path."""
        return self._oid(tree, path, (FILE, EXECUTABLE, 0o120000)) is not None

    def lines(self, tree: str, path: bytes) -> list[bytes] | None:
        """Return the lines of a regular file without their newlines. Return None if the file does not exist.

        The caller must not change the list. Raises `MissingObject` if the content is not available.
        """
        oid = self._oid(tree, path, (FILE, EXECUTABLE))
        if oid is None:
            return None
        if oid not in self._lines:
            lines = self._objects.blob(oid, path.decode("utf-8", "replace")).split(b"\n")
            self._lines[oid] = lines if lines[-1] else lines[:-1]
        return self._lines[oid]

    def _oid(self, tree: str, path: bytes, modes: tuple[int, ...]) -> str | None:
        if tree not in self._trees:
            self._trees[tree] = TreeOverlay(self._objects, tree)
        entry = self._trees[tree].entry(path)
        return entry[1] if entry is not None and entry[0] in modes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LintedPatch:
    """One patch as the rules see it.

    `data` contains the bytes that rules read. It is empty if the patch is too large. `text` is the parsed form of
    `data`. `link` is the result of applying the patch, with the trees before and after.
    """

    file: PatchFile
    data: bytes
    text: PatchText
    link: Link

    @property
    def applied(self) -> bool:
        return self.link.applied

    def finding(self, rule: str, line: int, message: str) -> Finding:
        """Return a finding on a line of this patch."""
        return Finding(rule=rule, file=self.file.file, line=line, message=message, number=self.file.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The input of a rule.

    `base_tree` is the tree of the pin. `contents` reads files from any tree. `others` contains the names of the
    directory's other files.
    """

    series: Series
    patches: tuple[LintedPatch, ...]
    base_tree: str
    contents: Contents
    policy: LintPolicy
    others: tuple[str, ...] = ()

    def pin_lines(self, path: bytes) -> list[bytes] | None:
        """Return the lines of a file of the pin. Return None if the pin does not contain the file."""
        return self.contents.lines(self.base_tree, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule, with its id, a line that explains its reason, and its check. Checks do not write or print."""

    id: str
    reason: str
    check: Callable[[Subject], Iterable[Finding]]


def shown(text: bytes, width: int = 80) -> str:
    """Return a line of a file for a message: in backticks, shortened, and with control characters escaped."""
    words = text.decode("utf-8", "replace").strip()
    words = words if len(words) <= width else words[: width - 3] + "..."
    return "`" + "".join(c if c.isprintable() else repr(c)[1:-1] for c in words) + "`"


def named(path: bytes) -> str:
    """Return a path as text for a message."""
    return path.decode("utf-8", "replace")


def counted(count: int, what: str) -> str:
    """Return a count with its noun: `1 line`, `2 lines`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def also(lines: Iterable[int]) -> str:
    """Return the end of a message, which refers to further lines of the same kind.

    Up to 5 lines are listed by number. For more lines, the text states their count and the last line number.
    """
    rest = list(lines)
    if not rest:
        return ""
    if len(rest) > 5:
        return f" (and {len(rest)} more lines, up to line {rest[-1]})"
    return f" (also line{'' if len(rest) == 1 else 's'} {', '.join(map(str, rest))})"


def each_applied(subject: Subject) -> Iterator[LintedPatch]:
    """Yield the patches that apply. Other patches are skipped, because their effect is unknown."""
    return (patch for patch in subject.patches if patch.applied)
