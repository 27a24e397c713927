"""Refresh a series by writing a copy.

In the copy, patches that need fuzz get the actual context of the files. The original files stay unchanged.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from patchstack.causes import PatchesNotConverted
from patchstack.files.atomic import put_in_place, refuse_occupied
from patchstack.git.apply import Applier, Outcome
from patchstack.git.diagnose import diagnose
from patchstack.git.format import diff_trees
from patchstack.git.objects import Commit, Objects
from patchstack.git.overlay import EXECUTABLE, FILE
from patchstack.git.patch.fuzz import Placed, place_with_fuzz
from patchstack.git.patch.heads import head_text
from patchstack.git.patch.text import PatchedFile, read_text
from patchstack.git.scratch import bare_repository, write_object
from patchstack.series.files.directory import PatchFile, Series, load_series
from patchstack.series.files.names import refreshed_name
from patchstack.series.files.quilt import FILE_NAME as QUILT
from patchstack.series.mirror.checkout import added_objects
from patchstack.series.verify.prefix_trees import apply_in_turn, apply_series
from patchstack.tasks import task


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzyHunk:
    """A hunk that was applied with fuzz.

    `hunk` is the number of the hunk, from 1. `line` is the line of the file at which the hunk was applied.
    """

    path: str
    hunk: int
    line: int
    fuzz: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshedFile:
    """One patch of the copy.

    `hunks` lists the hunks that needed fuzz. If there are none, the patch was copied unchanged from `original`.
    """

    file: str
    original: str
    hunks: tuple[FuzzyHunk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """A copy that was written.

    The copy, applied without fuzz, produces the same tree as the originals, applied with fuzz.
    """

    directory: Path
    files: tuple[RefreshedFile, ...]
    tree: str

    @property
    def changed(self) -> int:
        """The number of patches that needed fuzz."""
        return sum(bool(file.hunks) for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    patch: PatchFile
    before: str
    after: str
    hunks: tuple[FuzzyHunk, ...]


@task("refreshing the patches")
def refresh(objects: Objects, series: Series, base: Commit, directory: Path) -> Refreshed:
    """Write a refreshed copy of the series to a new directory.

    Patches that need a fuzz of up to 2 get the actual context of the files. The copy is published only if it applies
    strictly and produces the same trees.

    Raises `UsageError` for a directory that is not empty. Raises a `NotHeldError` that lists all patches that have no
    context or do not apply even with fuzz. Nothing is written in these cases.
    """
    refuse_occupied(directory)
    names = [refreshed_name(patch.file) for patch in series.patches]
    # Objects that git created can be read only while the applier is open.
    with Applier(objects, base.tree) as applier, bare_repository(objects.directories) as root:
        steps = _steps(applier, series)
        for oid in added_objects(objects, base.tree, [step.after for step in steps]):
            write_object(root / "objects", oid, *objects.read(oid))
        texts = [
            head_text(step.patch.data or b"") + diff_trees(root, step.before, step.after)
            if step.hunks
            else step.patch.data or b""
            for step in steps
        ]
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}-", dir=directory.parent) as temporary:
        draft = Path(temporary, "patches")
        for name, text in zip(names, texts, strict=True):
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            (draft / name).write_bytes(text)
        if names != sorted(names) or (series.directory / QUILT).is_file() or len(set(names)) < len(names):
            (draft / QUILT).write_bytes(b"".join(os.fsencode(name) + b"\n" for name in names))
        with Applier(objects, base.tree) as applier:
            given = [link.after for link in apply_series(applier, load_series(draft, series.name))]
        if given != [step.after for step in steps]:
            raise PatchesNotConverted("the copy would produce a different tree than the patches; nothing was written")
        put_in_place(draft, directory)
    files = tuple(
        RefreshedFile(file=name, original=step.patch.file, hunks=step.hunks)
        for name, step in zip(names, steps, strict=True)
    )
    return Refreshed(directory=directory, files=files, tree=given[-1])


def _steps(applier: Applier, series: Series) -> list[_Step]:
    """Apply each patch to the tree before it, with fuzz if necessary, and return the steps.

    Raises a `NotHeldError` that lists all patches that have no context or do not apply even with fuzz.
    """
    steps: list[_Step] = []
    problems: list[str] = []
    for patch in series.patches:
        before = applier.overlay.write()
        outcome = apply_in_turn(applier, patch)
        hunks: tuple[FuzzyHunk, ...] = ()
        if not outcome.applied:
            found = None if patch.anchored or patch.data is None else _with_fuzz(applier, patch.data)
            if found is None:
                problems += _problems(applier, patch, outcome)
                continue
            hunks = found
        problems += [f"{patch.file}: {text}" for text in outcome.warnings]
        steps.append(_Step(patch=patch, before=before, after=applier.overlay.write(), hunks=hunks))
    if problems:
        raise PatchesNotConverted(
            "not every patch can be refreshed; nothing was written",
            problems=problems,
            hint="repair these patches first; a later patch may fail only because of them",
        )
    return steps


def _problems(applier: Applier, patch: PatchFile, outcome: Outcome) -> list[str]:
    if patch.data is not None and not patch.anchored:
        outcome = diagnose(applier.objects, applier.overlay, patch.data, outcome).outcome
    return [f"{patch.file}: {problem.detail}" for problem in outcome.problems]


def _with_fuzz(applier: Applier, data: bytes) -> tuple[FuzzyHunk, ...] | None:
    """Apply a whole patch with fuzz, and return the hunks that needed fuzz.

    Return None if the patch does not fit or no hunk needs fuzz. A patch that does not fit is not applied.
    """
    found: list[FuzzyHunk] = []
    edits: list[tuple[PatchedFile, int, bytes]] = []
    files = read_text(data).files
    named = [name for file in files for name in {file.old, file.new} - {None}]
    if not files or len(set(named)) < len(named):
        return None
    for file in files:
        edit = _edit(applier, file, found)
        if edit is None:
            return None
        edits.append((file, *edit))
    for file, _, _ in edits:
        if file.old is not None and file.old != file.new and not file.copied:
            applier.overlay.remove(file.old)
    for file, mode, content in edits:
        if file.new is not None:
            applier.overlay.put(file.new, mode, applier.objects.add("blob", content))
    return tuple(found) or None


def _edit(applier: Applier, file: PatchedFile, found: list[FuzzyHunk]) -> tuple[int, bytes] | None:
    """Return the mode and content that one diff produces. Return None if the diff does not fit.

    Hunks that needed fuzz are added to `found`.
    """
    overlay, path = applier.overlay, file.path
    if file.binary or any(overlay.obstacle(name) is not None for name in (file.old, file.new) if name is not None):
        return None
    content, mode = b"", FILE
    if file.old is not None:
        entry = overlay.entry(file.old)
        if entry is None or entry[0] not in (FILE, EXECUTABLE):
            return None
        mode, content = entry[0], applier.objects.blob(entry[1], path.decode("utf-8", "replace"))
    if file.new is not None and file.new != file.old and overlay.entry(file.new) is not None:
        return None
    for line in file.modes:
        if line.startswith((b"new mode ", b"new file mode ")):
            if line.split()[-1] not in _MODES:
                return None
            mode = _MODES[line.split()[-1]]
    placed = place_with_fuzz(content, file.hunks)
    if not isinstance(placed, Placed) or (file.new is None and placed.content):
        return None
    name = path.decode("utf-8", "replace")
    found += [
        FuzzyHunk(path=name, hunk=number, line=place.line, fuzz=place.fuzz)
        for number, place in enumerate(placed.places, 1)
        if place.fuzz
    ]
    return mode, placed.content


_MODES = {b"100644": FILE, b"100755": EXECUTABLE}
