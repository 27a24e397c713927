"""A series on disk: the ordered patch files of one directory."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from patchstack.errors import ConfigError
from patchstack.git.patch.mail import read_mail
from patchstack.series.files.names import is_anchored, number_of, patch_names, title_of

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
        """The series up to and including the patch of that number. Raises `ConfigError` where none has it."""
        for position, patch in enumerate(self.patches, 1):
            if patch.number == number:
                return Series(name=self.name, directory=self.directory, patches=self.patches[:position])
        numbers = spans(patch.number for patch in self.patches if patch.number is not None)
        raise ConfigError(f"{self.name}: no patch has number {number}", hint=f"the numbers are {numbers or 'none'}")


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
