"""Apply patches to a tree in memory, with the same result as git.

`git -c apply.whitespace=nowarn -c core.protectNTFS=true -c core.protectHFS=true apply --cached` accepts exactly the
same patches, and produces the same trees. This module applies plain text diffs, and lets git apply all other patches.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from patchstack.git.handover import GitApply
from patchstack.git.objects import Objects
from patchstack.git.overlay import DIRECTORY, EXECUTABLE, FILE, TreeOverlay
from patchstack.git.patch.diff import FileDiff, Unsupported, parse_diffs
from patchstack.git.patch.effort import A_FILE_LINE, A_PATCH_LINE, SPARE, Effort, TooCostly, bulky
from patchstack.git.patch.hunks import Misfit, apply_hunks

if TYPE_CHECKING:
    from types import TracebackType

    from patchstack.git.patch.text import PatchedFile


class Fault(StrEnum):
    """The reason why a patch was not applied."""

    CONFLICT = "conflict"
    MISSING_FILE = "missing-file"
    MALFORMED = "malformed"
    UNSAFE = "unsafe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One reason why a patch does not apply.

    `path` is empty if git named no path. `hunk` counts from 1 within the diff of `path`, and `line` is the 1-based line
    of the problem in the patch file. Each of them is None if it is unknown.
    """

    fault: Fault
    path: str
    detail: str
    hunk: int | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of applying a patch: the new tree, or the problems.

    `tree` is None if there are problems. `left_to_git` is the reason why git itself handled the patch. It is empty for
    a patch that this module handled. `offset` is the largest offset of a hunk: the number of lines between its place in
    the file and the line in its header. It is 0 unless git applied the patch and reported offsets. `warnings` name
    hunks that git accepts but probably puts in the wrong place.
    """

    tree: str | None
    problems: tuple[Problem, ...] = ()
    left_to_git: str = ""
    warnings: tuple[str, ...] = ()
    offset: int = 0

    @property
    def applied(self) -> bool:
        return self.tree is not None


MOST_OF_FILE = 400_000
"""The maximum number of lines in a file that this module patches."""


class _Lines:
    """A cache of the lines of recently patched files, because the next patch often changes the same files."""

    LIMIT = 150_000

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._kept: OrderedDict[str, list[bytes]] = OrderedDict()
        self._count = 0

    def of(self, oid: str, path: str) -> list[bytes]:
        """Return the lines of a blob.

        Raises `TooCostly` if the blob has so many lines that git is faster.
        """
        kept = self._kept.get(oid)
        if kept is not None:
            return kept
        content = self._objects.blob(oid, path)
        if len(content) > MOST_OF_FILE and content.count(b"\n") > MOST_OF_FILE:
            raise TooCostly("a file with too many lines", 1)
        return content.split(b"\n")

    def keep(self, lines: list[bytes]) -> str:
        """Create a blob from lines, cache the lines, and return the id of the blob."""
        oid = self._objects.add("blob", b"\n".join(lines))
        if oid not in self._kept:
            self._kept[oid] = lines
            self._count += len(lines)
        while self._count > self.LIMIT:
            self._count -= len(self._kept.popitem(last=False)[1])
        return oid


class Applier:
    """Applies patches to a tree, one after the other.

    This is a context manager, because git needs a temporary directory.
    """

    def __init__(self, objects: Objects, tree: str) -> None:
        self.objects = objects
        self.overlay = TreeOverlay(objects, tree)
        self._lines = _Lines(objects)
        self._git: GitApply | None = None
        self._spare = SPARE  # the remaining additional work for all patches together

    def __enter__(self) -> Applier:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._git is not None:
            self._git.close()

    def restart(self, tree: str) -> None:
        """Continue from a different tree."""
        self.overlay = TreeOverlay(self.objects, tree)

    def apply(self, data: bytes) -> Outcome:
        """Apply one patch file, completely or not at all.

        A patch with problems is not applied. Raises `MissingObject` if the content of a touched file is not available.
        """
        try:
            if bulky(data):
                raise TooCostly("a patch that is too large", 1)
            return self._apply_here(parse_diffs(data), data)
        except Unsupported as unsupported:
            return self._hand_over(data, str(unsupported), costly=isinstance(unsupported, TooCostly))

    def leave_to_git(self, data: bytes) -> Outcome:
        """Apply one patch file with git.

        The caller already knows that the patch is too costly for this module.
        """
        return self._hand_over(data, "too costly to apply here", costly=True)

    def _apply_here(self, diffs: tuple[FileDiff, ...], data: bytes) -> Outcome:
        problems: list[Problem] = []
        edits: list[tuple[FileDiff, int, str]] = []
        lines = sum(len(hunk.before) + len(hunk.after) for diff in diffs for hunk in diff.hunks)
        effort = Effort(A_PATCH_LINE * lines + self._spare)
        try:
            edited = [self._edited(diff, data, effort) for diff in diffs]
        finally:
            self._spare = max(0, min(self._spare, effort.left))
        for diff, edit in zip(diffs, edited, strict=True):
            if isinstance(edit, Problem):
                problems.append(edit)
            else:
                edits.append((diff, *edit))
        if problems:
            return Outcome(tree=None, problems=tuple(problems))
        for diff, _, _ in edits:
            if diff.old is not None and diff.old != diff.new:
                self.overlay.remove(diff.old)
        for diff, mode, oid in edits:
            if diff.new is not None:
                self.overlay.put(diff.new, mode, oid)
        return Outcome(tree=self.overlay.write(), warnings=tuple(_fooled(diffs)))

    def _edited(self, diff: FileDiff, data: bytes, effort: Effort) -> tuple[int, str] | Problem:
        self._check_ground(diff)
        return self._edit(diff, data, effort)

    def _check_ground(self, diff: FileDiff) -> None:
        """Leave a patch to git if one of its paths is unusual.

        Raises `Unsupported` if a path is a link, a submodule or a directory, or if one of its parents is not a
        directory.
        """
        for path in {diff.old, diff.new} - {None}:
            assert path is not None
            if self.overlay.obstacle(path) is not None:
                raise Unsupported("a parent that is not a directory", diff.line)
            entry = self.overlay.entry(path)
            if entry is not None and entry[0] not in (FILE, EXECUTABLE):
                kind = "a directory" if entry[0] == DIRECTORY else "a link or submodule"
                raise Unsupported(f"{kind} at the path of a file", diff.line)

    def _edit(self, diff: FileDiff, data: bytes, effort: Effort) -> tuple[int, str] | Problem:
        """Return the mode and the blob id of a file after a diff, or the problem.

        For a deletion, the mode and the id have no meaning.
        """
        path = diff.path.decode("utf-8", "replace")
        lines: Sequence[bytes] = (b"",)
        mode, old_oid = diff.new_mode or FILE, ""
        if diff.old is not None:
            entry = self.overlay.entry(diff.old)
            old = diff.old.decode("utf-8", "replace")
            if entry is None:
                detail = f"{old}: the file does not exist"
                return Problem(fault=Fault.MISSING_FILE, path=old, detail=detail, line=diff.line)
            mode, old_oid = diff.new_mode or entry[0], entry[1]
            if diff.hunks or diff.new is None:
                lines = self._lines.of(old_oid, old)
                effort.left += A_FILE_LINE * len(lines)
        if diff.new is not None and diff.new != diff.old and self.overlay.entry(diff.new) is not None:
            detail = f"{path}: the patch creates it, but it already exists"
            return Problem(fault=Fault.CONFLICT, path=path, detail=detail, line=diff.line)
        result = apply_hunks(lines, diff.hunks, effort)
        if isinstance(result, Misfit):
            detail = f"{path}: {result.describe()}"
            return Problem(fault=Fault.CONFLICT, path=path, detail=detail, hunk=result.number, line=result.line(data))
        if diff.new is None:
            if result != [b""]:
                detail = f"{path}: the patch deletes it, but it has lines that the patch does not list"
                return Problem(fault=Fault.CONFLICT, path=path, detail=detail, line=diff.line)
            return mode, old_oid
        return mode, self._lines.keep(result) if diff.hunks or not old_oid else old_oid

    def _hand_over(self, data: bytes, reason: str, *, costly: bool) -> Outcome:
        if self._git is None:
            self._git = GitApply(self.objects)
        verdict = self._git.apply(self.overlay, data, costly=costly)
        if verdict.overlay is not None:
            self.overlay = verdict.overlay
            return Outcome(
                tree=self.overlay.write(),
                left_to_git=reason,
                offset=verdict.offset,
                warnings=tuple(_fooled_as_text(data)),
            )
        return Outcome(tree=None, problems=tuple(_explain(verdict.complaint, data)), left_to_git=reason)


def _fooled(diffs: tuple[FileDiff, ...]) -> list[str]:
    """Return a warning for each hunk that inserts lines into an existing file without context.

    git puts such a hunk at the end of the file instead of at its line.
    """
    return [
        _fooled_at(diff.path, hunk.header)
        for diff in diffs
        for hunk in diff.hunks
        if not hunk.before and diff.old is not None
    ]


def _fooled_as_text(data: bytes) -> list[str]:
    """Return the same warnings as `_fooled`, for a patch that git applies.

    A bulky patch gets at most 20 warnings.
    """
    from patchstack.git.patch.text import bare_insertions, read_text

    if bulky(data):
        return [_fooled_at(*found) for found in bare_insertions(data, 20)]
    return [
        _fooled_at(file.path, hunk.header)
        for file in read_text(data).files
        for hunk in file.hunks
        if not hunk.before and hunk.old_start and file.old is not None
    ]


def _fooled_at(path: bytes, header: bytes) -> str:
    return (
        f"{path.decode('utf-8', 'replace')}: {header.decode('ascii')} has no context, so git apply puts its "
        "lines at the end of the file; give it context, or make it an anchored patch"
    )


_MALFORMED = (
    *("corrupt patch", "patch fragment without header", "No valid patches", "git diff header lacks", "inconsistent"),
    *("only garbage", "bad git-diff", "invalid mode", "depends on old contents", "still has contents", "unrecognized"),
    *(
        "unable to find filename",
        "corrupt binary patch",
        "without full index line",
        "failed to read",
        "does not match old mode",
    ),
)
_UNSAFE = ("invalid path", "beyond a symbolic link")


def _explain(complaint: str, data: bytes) -> list[Problem]:
    """Convert git's message about a refused patch to problems."""
    from patchstack.git.patch.text import read_text

    problems: list[Problem] = []
    sample = data[: 1 << 20]
    mangled = sample.count(b"\r\n") * 2 > sample.count(b"\n") > 0
    files = () if bulky(data) else read_text(data).files
    for line in complaint.splitlines():
        text = line.removeprefix("error: ").removeprefix("fatal: ")
        if line.startswith(("warning:", "<stdin>:")) or text.endswith(": patch does not apply") or not text.strip():
            continue
        if any(words in text for words in _UNSAFE):
            fault = Fault.UNSAFE
        elif any(words in text for words in _MALFORMED):
            fault = Fault.MALFORMED
        elif "does not exist in index" in text:
            fault = Fault.MISSING_FILE
        else:
            fault = Fault.CONFLICT
        detail = _worded(text, fault, data)
        if mangled and not problems:
            detail += " (its lines end in CRLF: was it changed in transfer?)"
        path = _path_in(text)
        hunk, at = _place(text, path, files)
        problems.append(Problem(fault=fault, path=path, detail=detail, hunk=hunk, line=at))
    return problems or [
        Problem(fault=Fault.CONFLICT, path="", detail=complaint or "git apply refused it without a message")
    ]


_NUMBERED = re.compile(r"(?:corrupt patch at (?:line |<stdin>:)|fragment without header at (?:line |<stdin>:))(\d+)")
_FAILED_AT = re.compile(r"patch failed: .*:(\d+)\Z", re.DOTALL)


def _place(text: str, path: str, files: Sequence[PatchedFile]) -> tuple[int | None, int | None]:
    """Return the number of the hunk, and the line of the patch file, to which git's message refers.

    Each of them is None if it is unknown.
    """
    if numbered := _NUMBERED.search(text):
        return None, int(numbered[1])
    named = path.encode("utf-8", "replace")
    file = next((one for one in files if named in (one.old, one.new)), None) if named else None
    if file is None:
        return None, None
    failed_at = _FAILED_AT.match(text)
    for number, hunk in enumerate(file.hunks if failed_at else (), 1):
        if failed_at and hunk.old_start == int(failed_at[1]):
            return number, hunk.number
    return None, file.number


def _path_in(text: str) -> str:
    if "'" in text:
        return text.split("'")[1]
    if text.startswith("patch failed: "):
        return text.removeprefix("patch failed: ").rpartition(":")[0]
    return text.partition(": ")[0] if ": " in text else ""


def _worded(text: str, fault: Fault, data: bytes) -> str:
    if fault is Fault.MALFORMED:
        if not data or data.isspace():
            return "the file is empty"
        if "No valid patches" in text:
            return "there is no diff in it"
    if text.startswith("patch failed: "):
        path, _, line = text.removeprefix("patch failed: ").rpartition(":")
        return f"{path}: a hunk does not match at line {line}"
    return text
