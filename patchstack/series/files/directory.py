"""Read a series from disk: the ordered patch files of one directory."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from patchstack.causes import NoPatches, NoSuchPatch, PatchUnreadable
from patchstack.git.overlay import TreeOverlay
from patchstack.git.patch.mail import read_mail
from patchstack.series.files.depth import DEFAULT, TooShallow, fitting_depths, looks_usual, rewritten
from patchstack.series.files.mailbox import has_diff, is_cover, split_mails
from patchstack.series.files.names import choose_by_name, is_anchored, number_of, packed_as, spans, stem_of, title_of
from patchstack.series.files.order import Listed, NotApplied, patch_names, read_order
from patchstack.series.lock import FILE_NAME as LOCK
from patchstack.series.lock import after_merge
from patchstack.workspace import SeriesConfig

# git apply refuses patches of this size or larger (apply.c, MAX_APPLY_SIZE).
LARGEST_PATCH = 1024 * 1024 * 1023


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchFile:
    """One patch of a series.

    `file` is the path in the directory. For a patch of a mailbox, `#` and the position in the mailbox follow the path.
    `number` is the number in the file's name, or None if the name has no number. It is never the position of the patch.

    `commit` is the fork commit that the header of the patch names, if any. `data` is the uncompressed text, with names
    for -p1. It is None if the file is too large for a patch. `strip` is the N of `-pN` if a `series` file sets it.
    """

    file: str
    number: int | None
    subject: str
    commit: str | None
    data: bytes | None
    strip: int | None = None

    @property
    def anchored(self) -> bool:
        return is_anchored(self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The patches of a directory in the order in which they are applied.

    `left` lists the files of the directory that are not applied. `notes` contains remarks on the applied files.
    """

    name: str
    directory: Path
    patches: tuple[PatchFile, ...]
    left: tuple[NotApplied, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings for the user: the notes, and the files that are not applied."""
        return (*self.notes, *(f"{one.file} is not applied: {one.reason}" for one in self.left))

    def up_to(self, which: int | str) -> Series:
        """Return the series up to and including the patch with this number or name.

        0 means the pin without patches, unless a patch has the number 0. Raises `ConfigError` if no patch or more than
        one patch matches.
        """
        place = self.place_of(which)
        return replace(self, patches=self.patches[: place + 1])

    def place_of(self, which: int | str) -> int:
        """Return the position of a patch, from 0, by number or name.

        Return -1 for 0 if no patch has the number 0. Raises `ConfigError` if no patch or more than one patch matches.
        """
        if isinstance(which, str) and not (which.isascii() and which.isdigit()):
            files = [patch.file for patch in self.patches]
            named = choose_by_name(which, files)
            if named is None:
                raise NoSuchPatch(f"{self.name}: no patch is named {which}", hint=self._numbers())
            return named
        number = int(which)
        found = [place for place, patch in enumerate(self.patches) if patch.number == number]
        if len(found) > 1:
            files = [self.patches[place].file for place in found]
            raise NoSuchPatch(
                f"{self.name}: more than one patch has number {number}",
                problems=files,
                hint=f"use the name of the patch, for example {stem_of(files[0])}",
            )
        if found or number == 0:
            return found[0] if found else -1
        raise NoSuchPatch(f"{self.name}: no patch has number {number}", hint=f"{self._numbers()}; 0 is the pin")

    def _numbers(self) -> str:
        numbers = spans(patch.number for patch in self.patches if patch.number is not None)
        return f"the numbers are {numbers or 'none'}"

    @property
    def shared_numbers(self) -> frozenset[int]:
        """The numbers that several patches share."""
        counts = Counter(patch.number for patch in self.patches if patch.number is not None)
        return frozenset(number for number, count in counts.items() if count > 1)

    def at_depth(self, tree: TreeOverlay, strip: int | None = None) -> Series:
        """Return the series with the names in its patches rewritten for -p1.

        A depth that is set in the `series` file takes precedence over `strip`. If neither is set, and there is only one
        depth at which all files are in the tree, the series is read with this depth. Raises `ConfigError` for names
        with too few directories.
        """
        free = [patch for patch in self.patches if patch.strip is None and not patch.anchored and patch.data]
        if strip is None:
            if all(looks_usual(patch.data or b"") for patch in free):
                return self
            depths = fitting_depths([patch.data or b"" for patch in free], tree)
            if DEFAULT in depths or len(depths) != 1:
                return self
            strip = depths[0]
            note = f"names are read with -p{strip}: it is the only depth at which every file exists (-p N to choose)"
            return replace(self._with_depth(strip), notes=(*self.notes, note))
        return self._with_depth(strip)

    def _with_depth(self, strip: int) -> Series:
        problems: list[str] = []
        patches = [
            patch if patch.anchored or patch.strip is not None else _at_depth(patch, strip, problems)
            for patch in self.patches
        ]
        if problems:
            raise PatchUnreadable(f"the patches of {self.directory} cannot be read with -p{strip}", problems=problems)
        return replace(self, patches=tuple(patches))


def _at_depth(patch: PatchFile, strip: int, problems: list[str]) -> PatchFile:
    """Return the patch with its names rewritten for -p1.

    If a name is too short, add a problem to the list and return the patch unchanged.
    """
    try:
        return patch if patch.data is None else replace(patch, data=rewritten(patch.data, strip))
    except TooShallow as shallow:
        problems.append(f"{patch.file}: {shallow}")
        return patch


def configured_series(config: SeriesConfig) -> Series:
    """Read the patches of a configured series.

    Raises the errors of `load_series`. If there are no patches yet, the hint shows how to create them.
    """
    if config.patches.is_dir() and patch_names(config.patches):
        return load_series(config.patches, config.name)
    hint = None
    if config.listed and config.fork is not None:
        hint = f"run 'patchstack export {config.name}' to write them from the fork"
    elif config.listed:
        hint = f"set fork and fork_ref in patchstack.yaml, then run 'patchstack export {config.name}'"
    if hint is None or (config.patches.exists() and (not config.patches.is_dir() or os.listdir(config.patches))):
        return load_series(config.patches, config.name)
    raise NoPatches(f"there are no patches in {config.patches}", hint=hint)


def load_series(directory: Path, name: str | None = None) -> Series:
    """Read the patches of a directory, in the order that `read_order` finds.

    Raises `ConfigError` if the directory does not exist, contains no patches, or has files that cannot be read. The
    error lists all unreadable files. Also raises `ConfigError` if the directory has a lock and several patches share a
    number. Raises `MissingError` if the order is unknown or a listed file does not exist.
    """
    name = name or directory.name
    if not directory.is_dir():
        raise NoPatches(f"{directory} is not a directory", hint="choose the directory that contains the .patch files")
    exported = (directory / LOCK).exists()
    order = read_order(directory, ordered=exported)
    if not order.files:
        raise NoPatches(f"there are no patches in {directory}", hint="choose a directory that contains *.patch files")
    problems: list[str] = []
    patches: list[PatchFile] = []
    covers: list[NotApplied] = []
    room = _Room()
    for listed in order.files:
        strip = DEFAULT if listed.strip is None else listed.strip
        try:
            patches += [_at_depth(patch, strip, problems) for patch in _load(directory, listed, covers, room)]
        except OSError as error:
            problems.append(f"{listed.file}: {error.strerror or error}")
    series = Series(name=name, directory=directory, patches=tuple(patches), left=(*covers, *order.left))
    if exported:
        problems += [
            f"more than one patch has number {number}: "
            + ", ".join(patch.file for patch in patches if patch.number == number)
            for number in sorted(series.shared_numbers)
        ]
    if problems:
        hint = after_merge(directory) if exported and series.shared_numbers else None
        raise PatchUnreadable(f"the patches of {directory} cannot be used", problems=problems, hint=hint)
    if not patches:
        told = [f"{one.file}: {one.reason}" for one in covers]
        raise NoPatches(f"there are no patches in {directory}", problems=told)
    return series


class _Room:
    """The number of bytes that may still be decompressed for a series.

    The limit is needed because a small file can decompress to gigabytes.
    """

    LARGEST = 256 << 20

    def __init__(self) -> None:
        self.left = self.LARGEST

    def take(self, size: int) -> None:
        """Count decompressed bytes. Raises `OSError` if the limit is exceeded."""
        self.left -= size
        if self.left < 0:
            raise OSError(
                f"the compressed patches of the series decompress to more than {self.LARGEST >> 20} MiB in total"
            )


def _load(directory: Path, listed: Listed, covers: list[NotApplied], room: _Room) -> Iterator[PatchFile]:
    """Yield the patches of one file. Each mail of a mailbox is a patch. Cover letters are added to `covers` instead."""
    path = directory / listed.file
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError("not a regular file")
    if status.st_size >= LARGEST_PATCH:
        yield _patch(listed.file, listed.strip, None)
        return
    data = path.read_bytes()
    if packed_as(path.name) is not None:
        if room.left >= 0:
            data = _unpacked(path.name, data)
        room.take(len(data))
    mails = [(1, data)] if is_anchored(path.name) else split_mails(data)
    for place, (line, mail) in enumerate(mails, 1):
        file = listed.file if len(mails) == 1 else f"{listed.file}#{place}"
        if listed.by_file and not mail.strip():
            covers.append(NotApplied(file=file, reason="it is empty"))
        elif is_cover(mail, number_of(listed.file) if len(mails) == 1 else None):
            covers.append(NotApplied(file=file, reason="it is a cover letter, without a diff"))
        elif len(mails) > 1 and not has_diff(mail):
            covers.append(NotApplied(file=file, reason=f"the mail at line {line} contains no diff"))
        else:
            yield _patch(file, listed.strip, mail)


def _patch(file: str, strip: int | None, data: bytes | None) -> PatchFile:
    mail = read_mail(data or b"")
    return PatchFile(
        file=file,
        number=number_of(file) if "#" not in file else None,
        subject=mail.subject or title_of(file),
        commit=mail.commit,
        data=data,
        strip=strip,
    )


def _unpacked(file: str, data: bytes) -> bytes:
    from patchstack.series.files.packed import Unpackable, unpack

    try:
        return unpack(file, data)
    except Unpackable as refused:
        raise OSError(str(refused)) from refused
