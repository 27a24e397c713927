"""Apply a series to a directory of source files, as product builds do.

Patches must apply strictly. Either all of them are applied, or none.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from patchstack.causes import BadPath, DirectoryNotPatched, DirectoryRefused, InputUnreadable, PatchDoesNotApply
from patchstack.files.journal import STAGE, WHO, Change, install, unfinished
from patchstack.files.lock import locked_directory
from patchstack.git.apply import Applier
from patchstack.git.handover import every_path
from patchstack.git.objects import EMPTY_TREE, Objects
from patchstack.git.overlay import DIRECTORY, EXECUTABLE, FILE, SUBMODULE, SYMLINK, TreeOverlay
from patchstack.git.trees import PathChange, compare_trees
from patchstack.series.files.depth import deepest, looks_usual, named_at
from patchstack.series.files.directory import Series
from patchstack.series.verify.prefix_trees import Link, apply_series
from patchstack.tasks import task


@dataclass(frozen=True, slots=True, kw_only=True)
class Materialized:
    """The sorted paths that were created, changed and removed. With `check`, these paths were not written."""

    patch_count: int
    created: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    warnings: tuple[str, ...]


@task("applying the series")
def materialize(series: Series, directory: Path, *, check: bool = False, strip: int | None = None) -> Materialized:
    """Apply a series to the files of a directory.

    The directory is a plain directory or the root of a work tree. No index is touched. With `check`, nothing is
    written. `strip` is the N of `-p N`.

    Files are replaced one by one, with a journal. After an interruption, run `patchstack apply --resume` to replace the
    remaining files.

    Raises `UsageError` for a directory that cannot be used or in which an earlier run was interrupted. Raises
    `NotHeldError` if a patch does not apply. Nothing is written in these cases.
    """
    if not directory.is_dir():
        raise BadPath(
            f"{directory} is not a directory", hint="give the source directory to which the patches are applied"
        )
    with locked_directory(directory, WHO):
        if unfinished(directory):
            raise DirectoryNotPatched(
                f"an earlier apply was killed while it wrote into {directory}",
                hint=f"run 'patchstack apply --resume {directory}' to complete it",
            )
        objects = Objects()
        series, base = _read_ground(objects, series, directory, strip)
        links, changes, contents = _compute(objects, series, base, directory)
        if not check:
            install(directory, contents)
    named = [(change, os.fsdecode(change.path)) for change in changes]
    return Materialized(
        patch_count=len(links),
        created=tuple(path for change, path in named if change.old is None),
        changed=tuple(path for change, path in named if change.old is not None and change.new is not None),
        removed=tuple(path for change, path in named if change.new is None),
        warnings=(
            *series.warnings,
            *(f"{link.patch.file}: {text}" for link in links if link.outcome for text in link.outcome.warnings),
        ),
    )


def _read_ground(objects: Objects, series: Series, directory: Path, strip: int | None) -> tuple[Series, str]:
    """Return the series with names for -p1, and a tree of the files that the series names."""
    texts = [patch.data or b"" for patch in series.patches]
    if strip is None and not all(map(looks_usual, texts)):
        anywhere = {path for data in texts for depth in range(deepest(data) + 1) for path in named_at(data, depth)}
        series = series.at_depth(TreeOverlay(objects, _read(objects, directory, anywhere)))
    elif strip is not None:
        series = series.at_depth(TreeOverlay(objects, EMPTY_TREE), strip)
    paths = {path for patch in series.patches for path in every_path(patch.data or b"")}
    return series, _read(objects, directory, paths)


def _compute(
    objects: Objects, series: Series, base: str, directory: Path
) -> tuple[tuple[Link, ...], list[PathChange], list[Change]]:
    """Apply the series in memory to a tree of the directory's files.

    Raises `NotHeldError` if it does not apply.
    """
    with Applier(objects, base) as applier:
        links = apply_series(applier, series)
        failed = next((link for link in links if not link.applied), None)
        if failed is not None:
            assert failed.outcome is not None
            raise PatchDoesNotApply(
                f"{failed.patch.file} does not apply to {directory}; nothing was written",
                problems=[problem.detail for problem in failed.outcome.problems],
                hint="choose a directory with the pin's source, to which no patches were applied",
            )
        changes = list(compare_trees(objects, base, links[-1].after if links else base))
        _refuse_what_no_disk_holds(objects, changes)
        return links, changes, [_change(objects, change) for change in changes]


def _read(objects: Objects, directory: Path, paths: Iterable[bytes]) -> str:
    """Return a tree of the files at the given paths, and of files that block these paths."""
    tree = TreeOverlay(objects, EMPTY_TREE)
    for path in sorted(paths):
        parts = path.split(b"/")
        if b".git" in parts or b"" in parts or b"." in parts:
            continue
        for depth in range(1, len(parts) + 1):
            part = b"/".join(parts[:depth])
            found = _entry(objects, os.path.join(os.fsencode(directory), part))
            if found is None:
                break
            mode, oid = found
            if mode != DIRECTORY:
                tree.put(part, mode, oid)
                break
            if depth == len(parts):
                # A patch may create a file at the path of this directory. The files below the directory must block that
                # patch, unless the series removes them. They are added without their contents. Later iterations read
                # the contents of the files that the series names.
                for other in _files_below(os.path.join(os.fsencode(directory), part)):
                    tree.put(part + b"/" + other, FILE, objects.add("blob", b""))
    return tree.write()


def _files_below(directory: bytes) -> Iterator[bytes]:
    for parent, below, names in os.walk(directory):
        for name in [*names, *(name for name in below if os.path.islink(os.path.join(parent, name)))]:
            yield os.path.relpath(os.path.join(parent, name), directory)


def _entry(objects: Objects, path: bytes) -> tuple[int, str] | None:
    """Return the mode and object id for a path on disk, without following links. Return None if nothing exists there.

    A directory has the id of the empty tree.
    """
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return SYMLINK, objects.add("blob", os.readlink(path))
        if stat.S_ISDIR(status.st_mode):
            return DIRECTORY, EMPTY_TREE
        if not stat.S_ISREG(status.st_mode):
            return FILE, objects.add("blob", b"")  # a device or pipe has no content, but it blocks the path
        with open(path, "rb") as file:
            return EXECUTABLE if status.st_mode & 0o100 else FILE, objects.add("blob", file.read())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # too long for a path on this system, so no such file exists
            return None
        raise InputUnreadable(f"{os.fsdecode(path)} cannot be read: {error.strerror}") from error


def _refuse_what_no_disk_holds(objects: Objects, changes: list[PathChange]) -> None:
    for change in changes:
        path = os.fsdecode(change.path)
        if path.partition("/")[0].casefold() == STAGE:
            raise DirectoryRefused(
                f"{path}: the series writes where patchstack apply keeps its journal; nothing was written"
            )
        if SUBMODULE in {entry[0] for entry in (change.old, change.new) if entry}:
            raise DirectoryNotPatched(
                f"{path}: the series changes a submodule, which is not a file",
                hint="check out the submodule at the commit that the patch names",
            )
        if change.new is not None and change.new[0] == SYMLINK:
            target = objects.blob(change.new[1], path)
            if not target or b"\0" in target:
                raise DirectoryNotPatched(f"{path}: the series creates a link with an invalid target: {target!r}")


def _change(objects: Objects, change: PathChange) -> Change:
    path = os.fsdecode(change.path)
    if change.new is None:
        return Change(path=path, content=None, link=False, executable=False)
    mode, oid = change.new
    return Change(path=path, content=objects.blob(oid, path), link=mode == SYMLINK, executable=mode == EXECUTABLE)
