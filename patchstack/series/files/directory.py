"""A series on disk: the ordered patch files of one directory, and their names.

This is the one module that knows the suffixes. `0007-fast-path.patch` is plain: git applies it. `.anchored` is a suffix
of its own since git would apply such a patch to the wrong place and say OK.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from patchstack.errors import ConfigError
from patchstack.git.patch.mail import read_mail
from patchstack.workspace import SeriesConfig

_PLAIN, _ANCHORED = ".patch", ".anchored"
_SUFFIXES = (_PLAIN, _ANCHORED)
_LOOKS = (_PLAIN, ".diff", _ANCHORED)
_NUMBER = re.compile(r"(\d+)(?=[-_.])")
_NUMBERED = re.compile(r"\d{4}-")
_LONGEST = 64  # as `git format-patch` is told to cut names


def is_patch(file: str) -> bool:
    """Whether a file of that name is a patch of the series."""
    return file.endswith(_SUFFIXES)


def is_anchored(file: str) -> bool:
    """Whether a patch of that name is anchored."""
    return file.endswith(_ANCHORED)


def looks_like_patch(file: str) -> bool:
    """Whether a file that is no patch of the series has a name that a person could take for one."""
    return _NUMBERED.match(file) is not None and any(look in file.lower() for look in _LOOKS)


def number_of(file: str) -> int | None:
    """Return the number in a file's name; None if it has none."""
    found = _NUMBER.match(file)
    return int(found.group(1)) if found else None


def slug_of(file: str) -> str:
    """Return a numbered file's name without number and suffix; empty for a name that has no more."""
    stem, found = _stem(file), _NUMBER.match(file)
    return stem[found.end() + 1 :] if found else stem


def title_of(file: str) -> str:
    """Return a subject for a patch without mail head, from its file name."""
    return _NUMBER.sub("", _stem(file), count=1).replace("-", " ").replace("_", " ").strip()


def make_name(number: int | None, slug: str, *, anchored: bool) -> str:
    """Return the name that export gives a patch. One that is on its way to a number has none in its name."""
    numbered = slug if number is None else f"{number:04d}-{slug}"
    return numbered + (_ANCHORED if anchored else _PLAIN)


def cut_slug(number: int, slug: str) -> str:
    """Return a slug as `git format-patch` cuts it. git counts its own suffix and one character more, whatever suffix
    the file gets from us."""
    return slug[: _LONGEST - len(make_name(number, "", anchored=False)) - 1]


def in_form(file: str, *, anchored: bool) -> str:
    """Return the name of a patch file with the suffix of the given form."""
    return make_name(None, _stem(file), anchored=anchored)


def patch_names(directory: Path) -> list[str]:
    """Return the names of a directory's patch files in apply order: sorted byte by byte.

    Raises `ConfigError` for a directory that cannot be listed.
    """
    try:
        return sorted((name for name in os.listdir(directory) if is_patch(name)), key=os.fsencode)
    except OSError as error:
        raise ConfigError(f"{directory} cannot be listed: {error.strerror}") from error


def has_patches(directory: Path) -> bool:
    """Whether a directory exists and holds patch files. Raises `ConfigError` for one that cannot be listed."""
    return directory.is_dir() and bool(patch_names(directory))


def _stem(file: str) -> str:
    return file.rsplit(".", 1)[0]


# git apply reads no patch of this size or more (apply.c, MAX_APPLY_SIZE).
LARGEST_PATCH = 1024 * 1024 * 1023
_SPANS = 12  # as many as a person reads


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchFile:
    """One file of a series. `number` is the number in its name (None for a name without one), never a position.

    `commit` is the fork commit its head names, if any; `data` is None where the file is too large to be a patch.
    """

    file: str
    number: int | None
    subject: str
    commit: str | None
    data: bytes | None

    @property
    def anchored(self) -> bool:
        return is_anchored(self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The patches of a directory in apply order: sorted by file name, byte by byte."""

    name: str
    directory: Path
    patches: tuple[PatchFile, ...]

    def up_to(self, number: int) -> Series:
        """The series up to and including the patch of that number; 0 is the pin, with no patches, unless a patch has
        that number. Raises `ConfigError` if no patch has it."""
        for position, patch in enumerate(self.patches, 1):
            if patch.number == number:
                return Series(name=self.name, directory=self.directory, patches=self.patches[:position])
        if number == 0:
            return Series(name=self.name, directory=self.directory, patches=())
        numbers = spans(patch.number for patch in self.patches if patch.number is not None) or "none"
        raise ConfigError(
            f"{self.name}: no patch has number {number}", hint=f"the numbers are {numbers or 'none'}; 0 is the pin"
        )


def configured_series(config: SeriesConfig) -> Series:
    """Read the patches of a configured series. Raises what `load_series` raises; if there are no patches yet, the hint
    is how to get them."""
    if config.patches.is_dir() and has_patches(config.patches):
        return load_series(config.patches, config.name)
    hint = None
    if config.listed and config.fork is not None:
        hint = f"patchstack export {config.name} writes them from the fork"
    elif config.listed:
        hint = f"name the fork with fork: and fork_ref: in patchstack.yaml, then run patchstack export {config.name}"
    if hint is None or (config.patches.exists() and not config.patches.is_dir()):
        return load_series(config.patches, config.name)
    raise ConfigError(f"there are no patches in {config.patches}", hint=hint)


def load_series(directory: Path, name: str | None = None) -> Series:
    """Read every `*.patch` and `*.anchored` of a directory.

    Raises `ConfigError` for a directory that is not there or holds no patches, and, all at once, for files that cannot
    be read and numbers that two files share.
    """
    name = name or directory.name
    if not directory.is_dir():
        raise ConfigError(f"{directory} is not a directory", hint="name the directory that holds the .patch files")
    names = patch_names(directory)
    if not names:
        raise ConfigError(f"there are no patches in {directory}", hint="a series is a directory of *.patch files")
    problems: list[str] = []
    patches: list[PatchFile] = []
    for file in names:
        try:
            patches.append(_load(directory / file))
        except OSError as error:
            problems.append(f"{file}: {error.strerror or error}")
    problems += _shared_numbers(patches)
    if problems:
        raise ConfigError(f"the patches of {directory} cannot be used", problems=problems)
    return Series(name=name, directory=directory, patches=tuple(patches))


def _load(path: Path) -> PatchFile:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError("not a regular file")
    data = path.read_bytes() if status.st_size < LARGEST_PATCH else None
    mail = read_mail(data or b"")
    return PatchFile(
        file=path.name,
        number=number_of(path.name),
        subject=mail.subject or title_of(path.name),
        commit=mail.commit,
        data=data,
    )


def _shared_numbers(patches: list[PatchFile]) -> list[str]:
    by_number: dict[int, list[str]] = {}
    for patch in patches:
        if patch.number is not None:
            by_number.setdefault(patch.number, []).append(patch.file)
    return [
        f"number {number} is taken by more than one patch: {', '.join(files)}"
        for number, files in by_number.items()
        if len(files) > 1
    ]


def spans(numbers: Iterable[int]) -> str:
    """Numbers for a sentence: `0001-0004, 0006`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    told = [f"{a:04d}" if a == b else f"{a:04d}-{b:04d}" for a, b in runs]
    more = [f"{len(told) - _SPANS} more"] if len(told) > _SPANS else []
    return ", ".join([*told[:_SPANS], *more])
