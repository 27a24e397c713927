"""Find the reason why a source does not compile, and the patch that added the failing line."""

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
    """A patch of the series. `label` is its file name. `tree` is the tree after the patch."""

    label: str
    tree: str
    number: int | None = None
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of a line.

    `patch`, `number` and `subject` describe the patch that added the line. `patch` is None if the line is upstream's.
    `path` and `line` are the place of the line in the tree after that patch. `text` is the content of the line.
    `touched_by` lists the patches that changed the file, in order, also under its earlier names. Such a change may
    break a line of upstream.
    """

    patch: str | None
    number: int | None
    subject: str
    path: str
    line: int
    text: str
    touched_by: tuple[str, ...]


def who_wrote(objects: Objects, base_tree: str, steps: Sequence[BlameStep], path: str, line: int) -> Origin | None:
    """Return the origin of a line of a file. Line numbers start at 1.

    The file is read from the tree after the last of the `steps`, or from `base_tree` if there are no steps. Returns
    None if that tree has no such file or line, for example because the build created the file. `git blame` with its
    default options gives the same result.

    Raises `MissingError` if objects are not available, or if git fails.
    """
    return who_wrote_each(objects, base_tree, steps, [(path, line)])[0]


def who_wrote_each(
    objects: Objects, base_tree: str, steps: Sequence[BlameStep], places: Iterable[tuple[str, int]]
) -> tuple[Origin | None, ...]:
    """Return the origins of several lines (see `who_wrote`). A place is a path and a line number."""
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
    """Return the blob id of a file. Return None if the file does not exist."""
    *folders, name = path.encode("utf-8", "surrogateescape").split(b"/")
    for folder in folders:
        entry = next(((mode, oid) for mode, other, oid in objects.tree(tree) if other == folder), None)
        if entry is None or entry[0] != DIRECTORY:
            return None
        tree = entry[1]
    entry = next(((mode, oid) for mode, other, oid in objects.tree(tree) if other == name), None)
    return None if entry is None or entry[0] in (DIRECTORY, SUBMODULE) else entry[1]


class _History:
    """A temporary repository with a commit for each patch of the series."""

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
        """Return pairs of a line number and the origin of the line, in order. The lines must exist."""
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
                # git prints the file's name once for each commit, because a file has only one name in a commit.
                names[commit] = _unquoted(raw[9:]).decode("utf-8", "surrogateescape")
        return origins

    def _touched(self, path: str) -> tuple[str, ...]:
        """Return the patches that changed a file, in order. Renames are followed."""
        said = self._git("log", "--follow", "-M", "--format=%H", self._head, "--", path)
        return tuple(self._steps[oid].label for oid in reversed(said.decode().split()) if oid in self._steps)

    def _git(self, *args: str) -> bytes:
        done = git.isolated(self._root, "-c", "core.quotePath=false", "--literal-pathspecs", *args)
        return git.checked(done, "git cannot determine which patch wrote a line", short=True)

    def _keep(self, before: str, after: str) -> None:
        """Write the objects in which two trees differ, if these objects exist only in memory.

        git finds all other objects through the alternates of the repository.
        """
        changes = list(compare_trees(self._objects, before, after))
        want_contents(self._objects, changes)
        for change in changes:
            for entry in (change.old, change.new):
                if entry is not None and entry[0] != SUBMODULE:
                    self._keep_object(entry[1])
        self._keep_tree(after, {change.path for change in changes})

    def _keep_tree(self, tree: str, changed: set[bytes] | None = None) -> None:
        """Write a tree from memory, and its subtrees that contain a path in `changed`.

        Without `changed`, all subtrees are written.
        """
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
    """Remove git's C-style quoting from a printed name."""
    if not name.startswith(b'"'):
        return name

    def plain(match: re.Match[bytes]) -> bytes:
        octal, letter = match.groups()
        return bytes([int(octal, 8)]) if octal else _ESCAPED.get(letter, letter)

    return _ESCAPE.sub(plain, name[1:-1])


_FEW = 4


def explain(log: bytes, source: Source, plan: Plan, layout: Layout) -> Rejection:
    """Return the reason why a build failed, if the cause is in the source.

    For other causes, raises `NotJudged` (out of memory, or no known error), `OutOfSpace`, `MissingError` (the CUDA
    toolkit is too old), or `NotHeldError` (the build needs the network, but has no access to it).
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
                hint="run 'docker system df' on the engine's machine to show the usage"
                if plan.engine.isolated
                else None,
            )
        case FailureKind.TOOLKIT_TOO_OLD:
            need = toolkit_complaint(plan.arch, (0, 0)) if plan.arch else None
            return ToolchainUnusable(f"the CUDA toolkit is too old: {failure.message}", problems=shown, hint=need)
        case FailureKind.NETWORK:
            where = f" ({failure.file}:{failure.line})" if failure.line else ""
            return BuildFailed(
                f"the build needs the network, but has no access to it{where}: {failure.message}",
                problems=shown,
                hint="find the option that needs the network, and turn it off with --define NAME=OFF",
            )
        case FailureKind.UNKNOWN:
            return NotJudged(
                f"the build failed, and its log contains no known error: {failure.message}",
                problems=shown,
                hint="use --keep-container to keep the build for inspection",
            )
    return None


def _origin(failure: Failure, source: Source) -> tuple[str | None, str]:
    """Return the patch that added the failing line, with a phrase that describes the line's origin.

    For a line of upstream, the patch is the one that added the code from which the line was reached. The patch is None
    if there is no such code, or if the origin is unknown.
    """
    if not source.steps or source.base_tree is None:
        return None, "the source is not a series"
    if failure.file is None:
        return None, "the error names no file of the source"
    steps = [BlameStep(label=step.file, tree=step.tree) for step in source.steps]
    found = who_wrote(source.objects, source.base_tree, steps, failure.file, failure.line or 1)
    if found is None:
        return None, f"{failure.file} is not in the tree: the build generated it"
    if failure.line is None:
        return None, "the error names no line" + _changed_by(found.touched_by)
    if found.patch is not None:
        order = [step.file for step in source.steps]
        since = tuple(one for one in found.touched_by if order.index(one) > order.index(found.patch))
        told = _changed_by(since).replace("in this file", "in this file since")
        return found.patch, f"line written by {found.patch}{told}"
    # If upstream's line was reached from code of a patch, such as an include or a template instantiation, the patch may
    # be the cause. Use the first such place.
    inside = [place for place in failure.sites if not place[0].startswith("/")]
    places = zip(inside, who_wrote_each(source.objects, source.base_tree, steps, inside), strict=True)
    for (file, line), origin in places:
        if origin is not None and origin.patch is not None:
            return origin.patch, f"upstream's own line, reached from {file}:{line}, written by {origin.patch}"
    return None, "upstream's own line" + (_changed_by(found.touched_by) or ", in a file that no patch touches")


def _changed_by(patches: tuple[str, ...]) -> str:
    names = ", ".join(patches[:_FEW]) + (", …" if len(patches) > _FEW else "")
    return f"; changed in this file: {names}" if patches else ""
