"""Find the patch files of a directory, their order, and the files that are not applied.

A `series` file sets the order, as in quilt. Without this file, names are sorted byte by byte, as by a shell glob in the
C locale. Names without numbers do not determine the order. For such names, an error asks for a `series` file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchstack.causes import OrderUnknown, PatchUnreadable
from patchstack.series.files.mailbox import has_diff
from patchstack.series.files.names import begins_with_number, is_patch, looks_like_patch
from patchstack.series.files.quilt import FILE_NAME, read_quilt

_LOOK = 64 * 1024
_MANY = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A file to apply.

    `file` is its path in the directory. `strip` is the N of its `-pN` option in a `series` file; None without this
    option. `by_file` is true if a `series` file lists it.
    """

    file: str
    strip: int | None = None
    by_file: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NotApplied:
    """A file of the directory that is not applied, and the reason."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The files to apply, in order, and the files that look like patches but are not applied."""

    files: tuple[Listed, ...]
    left: tuple[NotApplied, ...]


def patch_names(directory: Path) -> list[str]:
    """Return the names of a directory's patch files, sorted byte by byte.

    Raises `ConfigError` for a directory that cannot be listed.
    """
    return sorted(filter(is_patch, _names(directory)), key=os.fsencode)


def has_patches(directory: Path) -> bool:
    """Return whether a directory exists and contains patch files.

    Raises `ConfigError` for a directory that cannot be listed.
    """
    return directory.is_dir() and bool(patch_names(directory))


def read_order(directory: Path, *, ordered: bool = False) -> Order:
    """Find the files to apply and their order.

    `ordered` is true if the sorted names are known to be in the right order. Raises `MissingError` if the order is
    unknown or a listed file does not exist. Raises `ConfigError` for a `series` file or a directory that cannot be
    used.
    """
    names = _names(directory)
    if FILE_NAME in names and (directory / FILE_NAME).is_file():
        return _quilt(directory)
    files = sorted(filter(is_patch, names), key=os.fsencode)
    left = list(_left(directory, names, files))
    if not files and left:
        raise OrderUnknown(
            f"the order of the patches in {directory} is unknown: no series file",
            problems=_told([one.file for one in left]),
            hint=f"list them in {directory / FILE_NAME}, one name per line; or choose a directory with such a file",
        )
    unnumbered = [file for file in files if not begins_with_number(file)]
    if unnumbered and len(files) > 1 and not ordered:
        raise OrderUnknown(
            f"the order of the patches in {directory} is unknown: names without numbers, and no series file",
            problems=_told(unnumbered),
            hint=f"list all of them in {directory / FILE_NAME}, one name per line, in the order of application",
        )
    return Order(files=tuple(Listed(file=file) for file in files), left=tuple(left))


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError as error:
        raise PatchUnreadable(f"{directory} cannot be listed: {error.strerror}") from error


def _quilt(directory: Path) -> Order:
    path = directory / FILE_NAME
    entries = read_quilt(path)
    missing = [f"line {entry.line}: {entry.file}" for entry in entries if not os.path.lexists(directory / entry.file)]
    if missing:
        raise OrderUnknown(
            f"{path} lists files that do not exist",
            problems=missing,
            hint="add the files, or put a # before the lines of patches that are not to be applied",
        )
    listed = {entry.file for entry in entries}
    left = [
        NotApplied(file=file, reason=f"{FILE_NAME} does not list it")
        for file in _below(directory)
        if file not in listed and _holds_patch(directory / file)
    ]
    return Order(
        files=tuple(Listed(file=entry.file, strip=entry.strip, by_file=True) for entry in entries),
        left=tuple(left),
    )


def _left(directory: Path, names: Sequence[str], files: Sequence[str]) -> Iterator[NotApplied]:
    """Yield the files that look like patches but are not applied.

    They are in the directory or in a directory below it.
    """
    for name in sorted(set(names) - set(files), key=os.fsencode):
        path = directory / name
        if path.is_dir() and not path.is_symlink():
            for file in _below(path):
                if is_patch(file):
                    yield NotApplied(file=f"{name}/{file}", reason="it is in a directory below")
        elif looks_like_patch(name):
            yield NotApplied(file=name, reason="its suffix is not that of a patch")
        elif "." not in name.strip(".") and _holds_patch(path):
            yield NotApplied(file=name, reason="it has a diff, but not the suffix of a patch")


def _below(directory: Path) -> Iterator[str]:
    """Yield the files below a directory as relative paths. Hidden files are skipped. Linked directories are not
    searched."""
    for parent, below, names in os.walk(directory):
        below[:] = sorted((name for name in below if not name.startswith(".")), key=os.fsencode)
        for name in sorted(names, key=os.fsencode):
            if not name.startswith("."):
                yield os.path.relpath(os.path.join(parent, name), directory)


def _holds_patch(path: Path) -> bool:
    """Return whether a file is named like a patch, or contains a diff near its beginning."""
    if is_patch(path.name) or looks_like_patch(path.name):
        return True
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return has_diff(file.read(_LOOK))
    except OSError:
        return False


def _told(files: Sequence[str]) -> list[str]:
    more = [f"and {len(files) - _MANY} more"] if len(files) > _MANY else []
    return [*files[:_MANY], *more]
