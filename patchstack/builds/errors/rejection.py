"""Find why a source does not compile, and which patch wrote the failing line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchstack.builds.errors.first_error import Failure, FailureKind, find_failure
from patchstack.builds.inputs.arch import toolkit_complaint
from patchstack.builds.inputs.plan import Plan
from patchstack.builds.inputs.source import Source
from patchstack.builds.record.record import Rejection
from patchstack.builds.run.recipe import Layout
from patchstack.builds.run.session import NotJudged, out_of_memory
from patchstack.causes import BuildFailed, ToolchainUnusable
from patchstack.engine.protocol import OutOfSpace
from patchstack.errors import PatchstackError
from patchstack.git import run as git
from patchstack.git.objects import EMPTY_TREE, Objects, object_id
from patchstack.git.overlay import DIRECTORY, SUBMODULE
from patchstack.git.scratch import bare_repository, write_object
from patchstack.git.trees import compare_trees, want_contents

_ESCAPE = re.compile(rb"\\(?:([0-3][0-7]{2})|(.))")
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameStep:
    """A patch of the series: its file name, and the tree after it."""

    label: str
    tree: str
    number: int | None = None
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of a line. `patch`, `number` and `subject` are those of the patch that wrote it; `patch` is None for a
    line of upstream. `path` and `line` are its place in that patch's tree; `text` is the line. `touched_by` are the
    patches that changed the file (under any name), in order, because their changes may break a line of upstream."""

    patch: str | None
    number: int | None
    subject: str
    path: str
    line: int
    text: str
    touched_by: tuple[str, ...]


def who_wrote(objects: Objects, base_tree: str, steps: Sequence[BlameStep], path: str, line: int) -> Origin | None:
    """Return the origin of a line (from 1) of a file in the last tree; None if that tree has no such file or line (a
    file that the build made). The answer is that of `git blame` with its default options.

    Raises `MissingError` if objects are not available, or if git fails.
    """
    return who_wrote_each(objects, base_tree, steps, [(path, line)])[0]


def who_wrote_each(
    objects: Objects, base_tree: str, steps: Sequence[BlameStep], places: Iterable[tuple[str, int]]
) -> tuple[Origin | None, ...]:
    """Return the result of `who_wrote` for several places (path and line)."""
    wanted = list(places)
    last = steps[-1].tree if steps else base_tree
    lines: dict[tuple[str, str], list[int]] = {}
    for path in dict.fromkeys(path for path, _ in wanted):
        blob = _find_blob(objects, last, path)
        if blob is not None:
            data = objects.blob(blob, path)
            count = data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
            numbers = sorted({line for other, line in wanted if other == path and 1 <= line <= count})
            if numbers:
                lines[path, blob] = numbers
    found: dict[tuple[str, int], Origin] = {}
    if lines:
        with bare_repository(objects.directories) as root:
            history = _History(root, objects, base_tree, steps)
            for (path, blob), numbers in lines.items():
                origins = history.blame(path, blob, numbers)
                found |= {(path, number): origin for number, origin in origins}
    return tuple(found.get(place) for place in wanted)


def _find_blob(objects: Objects, tree: str, path: str) -> str | None:
    """Return the id of a file's content; None if the file does not exist."""
    *folders, name = path.encode("utf-8", "surrogateescape").split(b"/")
    for folder in folders:
        entry = next(((mode, oid) for mode, other, oid in objects.tree(tree) if other == folder), None)
        if entry is None or entry[0] != DIRECTORY:
            return None
        tree = entry[1]
    entry = next(((mode, oid) for mode, other, oid in objects.tree(tree) if other == name), None)
    return None if entry is None or entry[0] in (DIRECTORY, SUBMODULE) else entry[1]


class _History:
    """A temporary repository with the commits of the series."""

    def __init__(self, root: Path, objects: Objects, base_tree: str, steps: Sequence[BlameStep]) -> None:
        self._root = root
        self._objects = objects
        self._steps: dict[str, BlameStep] = {}
        before = base_tree
        self._keep_tree(base_tree)
        parent = self._commit(base_tree, None, 0)
        for position, step in enumerate(steps, 1):
            self._keep(before, step.tree)
            parent = self._commit(step.tree, parent, position)
            self._steps[parent] = step
            before = step.tree
        self._head = parent

    def blame(self, path: str, blob: str, numbers: Sequence[int]) -> list[tuple[int, Origin]]:
        """Return the origins of existing lines of a file, in order."""
        self._keep_object(blob)
        ranges = [f"-L{number},{number}" for number in numbers]
        said = self._git("blame", "--porcelain", *ranges, self._head, "--", path)
        touched = self._touched(path)
        origins = []
        names: dict[str, str] = {}
        commit, line, number = "", 0, 0
        for raw in said.split(b"\n"):
            if raw.startswith(b"\t"):
                step = self._steps.get(commit)
                origin = Origin(
                    patch=step.label if step else None,
                    number=step.number if step else None,
                    subject=step.subject if step else "",
                    path=names[commit],
                    line=line,
                    text=raw[1:].decode("utf-8", "replace"),
                    touched_by=touched,
                )
                origins.append((number, origin))
            elif re.match(rb"[0-9a-f]{40} ", raw):
                fields = raw.split(b" ")
                commit, line, number = fields[0].decode(), int(fields[1]), int(fields[2])
            elif raw.startswith(b"filename "):
                # git prints the name once for each commit; a commit has the lines of a file under one name only.
                names[commit] = _unquoted(raw[9:]).decode("utf-8", "surrogateescape")
        return origins

    def _touched(self, path: str) -> tuple[str, ...]:
        """Return the patches that changed a file, following renames."""
        said = self._git("log", "--follow", "-M", "--format=%H", self._head, "--", path)
        return tuple(self._steps[oid].label for oid in reversed(said.decode().split()) if oid in self._steps)

    def _git(self, *args: str) -> bytes:
        done = git.isolated(self._root, "-c", "core.quotePath=false", "--literal-pathspecs", *args)
        return git.checked(done, "git cannot say which patch wrote a line", short=True)

    def _keep(self, before: str, after: str) -> None:
        """Write the differing objects of two trees that exist only in memory. Stored objects are borrowed."""
        changes = list(compare_trees(self._objects, before, after))
        want_contents(self._objects, changes)
        for change in changes:
            for entry in (change.old, change.new):
                if entry is not None and entry[0] != SUBMODULE:
                    self._keep_object(entry[1])
        self._keep_tree(after, {change.path for change in changes})

    def _keep_tree(self, tree: str, changed: set[bytes] | None = None) -> None:
        """Write a tree from memory and its subtrees with changed paths (all subtrees, without a list)."""
        folders = None if changed is None else {parent for path in changed for parent in _parents(path)}
        pending = [(tree, b"")]
        while pending:
            oid, path = pending.pop()
            self._keep_object(oid)
            # All subtrees of a stored tree are stored as well.
            if oid not in self._objects.made:
                continue
            pending += [
                (below, path + name + b"/")
                for mode, name, below in self._objects.tree(oid)
                if mode == DIRECTORY and (folders is None or path + name + b"/" in folders)
            ]

    def _keep_object(self, oid: str) -> None:
        if oid in self._objects.made or oid == EMPTY_TREE:
            kind, data = ("tree", b"") if oid == EMPTY_TREE else self._objects.read(oid)
            write_object(self._root / "objects", oid, kind, data)

    def _commit(self, tree: str, parent: str | None, position: int) -> str:
        who = f"patchstack <patchstack@localhost> {position} +0000"
        lines = [f"tree {tree}", *([f"parent {parent}"] if parent else []), f"author {who}", f"committer {who}"]
        data = ("\n".join(lines) + f"\n\n{position}\n").encode()
        oid = object_id("commit", data)
        write_object(self._root / "objects", oid, "commit", data)
        return oid


def _parents(path: bytes) -> list[bytes]:
    """Return the parent directories of a path, each with a trailing slash."""
    return [path[: at + 1] for at, character in enumerate(path) if character == 0x2F]


def _unquoted(name: bytes) -> bytes:
    """Return a name that git printed, without C-style quoting."""
    if not name.startswith(b'"'):
        return name

    def plain(match: re.Match[bytes]) -> bytes:
        octal, letter = match.groups()
        return bytes([int(octal, 8)]) if octal else _ESCAPED.get(letter, letter)

    return _ESCAPE.sub(plain, name[1:-1])


_FEW = 4


def explain(log: bytes, source: Source, plan: Plan, layout: Layout) -> Rejection:
    """Return why a build failed, if the source is the cause.

    Raises otherwise: `NotJudged` (out of memory, or no known error), `OutOfSpace`, `MissingError` (the toolkit is too
    old), `NotHeldError` (the build needs the network, which it may not use).
    """
    lines = log.decode("utf-8", "replace").splitlines()
    failure = find_failure(lines, source=layout.source, build=layout.build)
    if (error := _not_the_source(failure, plan)) is not None:
        raise error
    patch, origin = _origin(failure, source)
    return Rejection(
        kind=str(failure.kind),
        message=failure.message,
        file=failure.file,
        line=failure.line,
        patch=patch,
        origin=origin,
        block=failure.block,
    )


def _not_the_source(failure: Failure, plan: Plan) -> PatchstackError | None:
    shown = failure.block[:12]
    match failure.kind:
        case FailureKind.OUT_OF_MEMORY:
            error: PatchstackError = out_of_memory(plan)
            error.problems = shown
            return error
        case FailureKind.NO_SPACE:
            return OutOfSpace(
                f"the disk of {plan.engine.spec} is full: {failure.message}",
                problems=shown,
                hint="docker system df on the engine's machine shows what uses it" if plan.engine.isolated else None,
            )
        case FailureKind.TOOLKIT_TOO_OLD:
            need = toolkit_complaint(plan.arch, (0, 0)) if plan.arch else None
            return ToolchainUnusable(f"the CUDA toolkit is too old: {failure.message}", problems=shown, hint=need)
        case FailureKind.NETWORK:
            where = f" ({failure.file}:{failure.line})" if failure.line else ""
            return BuildFailed(
                f"the build needs the network, which it may not use{where}: {failure.message}",
                problems=shown,
                hint="find the option that needs it and turn it off: --define NAME=OFF",
            )
        case FailureKind.UNKNOWN:
            return NotJudged(
                f"the build failed, and nothing in its log is a known error: {failure.message}",
                problems=shown,
                hint="--keep-container keeps it for inspection",
            )
    return None


def _origin(failure: Failure, source: Source) -> tuple[str | None, str]:
    """Return the patch that wrote the line, and the answer in words."""
    if not source.steps or source.base_tree is None:
        return None, "not a series: no patch to name"
    if failure.file is None:
        return None, "no file of the source is named"
    steps = [BlameStep(label=step.file, tree=step.tree) for step in source.steps]
    found = who_wrote(source.objects, source.base_tree, steps, failure.file, failure.line or 1)
    if found is None:
        return None, f"{failure.file} is not in the tree: the build generated it"
    if failure.line is None:
        return None, "no line is named" + _changed_by(found.touched_by)
    if found.patch is not None:
        order = [step.file for step in source.steps]
        since = tuple(one for one in found.touched_by if order.index(one) > order.index(found.patch))
        told = _changed_by(since).replace("in this file", "in this file since")
        return found.patch, f"line written by {found.patch}{told}"
    # For a header of upstream that a patch's code instantiates or includes: the first place on the path that a patch
    # wrote.
    inside = [place for place in failure.sites if not place[0].startswith("/")]
    places = zip(inside, who_wrote_each(source.objects, source.base_tree, steps, inside), strict=True)
    for (file, line), origin in places:
        if origin is not None and origin.patch is not None:
            return origin.patch, f"upstream's own line, reached from {file}:{line}, written by {origin.patch}"
    return None, "upstream's own line" + (_changed_by(found.touched_by) or ", in a file that no patch touches")


def _changed_by(patches: tuple[str, ...]) -> str:
    names = ", ".join(patches[:_FEW]) + (", …" if len(patches) > _FEW else "")
    return f"; changed in this file: {names}" if patches else ""
