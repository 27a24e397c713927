"""List the files that a build left in `bin`, and search in files of any size."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from patchstack.builds.proofs.elf import DamagedElf, Elf, read_elf
from patchstack.causes import NoSuchBuild
from patchstack.document import Part

BIN = "bin"
"""The directory of programs and libraries, in the directory of a build."""
OBJECTS = "objects"
"""The directory of the object files that a proof needs, in the directory of a build."""
_BLOCK = 4 << 20
_BEFORE, _AFTER = 40, 60


class Binary(Part, frozen=True, kw_only=True):
    """A file of `bin`.

    `name` is its path below `bin`. `sha256` is the digest of its content in hex, and `size` is its size in bytes.
    """

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A regular file of `bin`.

    `elf` is None if it is not a valid ELF file. `damage` is the problem of a damaged ELF file.
    """

    name: str
    path: Path
    size: int
    elf: Elf | None
    damage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The content of `bin`.

    `files` are sorted by name. `links` maps the name of each link to the name of its target. `problems` describes all
    other entries, such as a socket, a link that leads to no file in `bin`, or a directory that cannot be read.
    """

    files: tuple[Built, ...]
    links: dict[str, str]
    problems: tuple[str, ...]

    @property
    def binaries(self) -> tuple[Built, ...]:
        """The ELF files, without the damaged ones."""
        return tuple(file for file in self.files if file.elf is not None)

    def named(self, name: str) -> Built | None:
        """Return the file with this name, or the target of the link with this name. Return None if neither exists."""
        return next((file for file in self.files if file.name == self.links.get(name, name)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """A byte string that `search` found in a file. `context` is the string with the printable text around it."""

    offset: int
    context: str


def binaries(directory: Path) -> tuple[Binary, ...]:
    """Return every regular file below `bin`, sorted by name. Links are not followed or listed.

    Raises `MissingError` if a file cannot be read.
    """
    found, _, _ = _walk(directory / BIN)
    return tuple(_binary(name, path) for name, path in found)


def survey(directory: Path) -> Survey:
    """Return the content of `bin` in the directory of a build. The content is empty if `bin` does not exist."""
    found, links, problems = _walk(directory / BIN)
    files = []
    for name, path in found:
        elf, damage = None, None
        try:
            elf = read_elf(path)
        except DamagedElf as error:
            damage = error.message
        files.append(Built(name=name, path=path, size=path.lstat().st_size, elf=elf, damage=damage))
    return Survey(files=tuple(files), links=links, problems=tuple(problems))


def search(path: Path, wanted: Iterable[bytes]) -> dict[bytes, Occurrence]:
    """Return the first match of each wanted byte string in a file. The file is read once, in blocks.

    The result lacks strings that the file does not contain. Raises `MissingError` if the file cannot be read.
    """
    missing = [needle for needle in dict.fromkeys(wanted) if needle]
    found: dict[bytes, Occurrence] = {}
    overlap = max(map(len, missing), default=1) - 1
    try:
        with path.open("rb") as file:
            start, buffer = 0, b""
            while missing and (block := file.read(_BLOCK)):
                buffer += block
                for needle in list(missing):
                    at = buffer.find(needle)
                    if at >= 0:
                        found[needle] = Occurrence(
                            offset=start + at, context=_context(file.fileno(), start + at, len(needle))
                        )
                        missing.remove(needle)
                start += max(len(buffer) - overlap, 0)
                buffer = buffer[max(len(buffer) - overlap, 0) :]
    except OSError as error:
        raise NoSuchBuild(f"{path} cannot be read: {error.strerror}") from error
    return found


def _walk(top: Path) -> tuple[list[tuple[str, Path]], dict[str, str], list[str]]:
    """Return the regular files below a directory, the links, and descriptions of all other entries.

    Links to directories are not followed.
    """
    found: list[tuple[str, Path]] = []
    links: dict[str, str] = {}
    problems: list[str] = []

    def failed(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            problems.append(f"{os.path.relpath(str(error.filename), top)} cannot be read: {error.strerror}")

    real_top = top.resolve()
    for folder, folders, files in os.walk(top, onerror=failed):
        for entry in sorted([*files, *(name for name in folders if os.path.islink(os.path.join(folder, name)))]):
            path = Path(folder, entry)
            name = path.relative_to(top).as_posix()
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                found.append((name, path))
            elif stat.S_ISLNK(mode):
                target = _target(path, real_top)
                if target is None:
                    problems.append(f"{name} is a link that leads to no file of the build")
                else:
                    links[name] = target
            else:
                problems.append(f"{name} is not a file")
    return sorted(found), links, sorted(problems)


def _target(link: Path, real_top: Path) -> str | None:
    """Return the target of a link, as a path relative to `real_top`.

    Returns None if the target is not a regular file below `real_top`.
    """
    try:
        real = link.resolve(strict=True)
    except (OSError, RuntimeError):  # up to Python 3.12, a link loop raises RuntimeError
        return None
    return real.relative_to(real_top).as_posix() if real.is_relative_to(real_top) and real.is_file() else None


def _binary(name: str, path: Path) -> Binary:
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                size += len(block)
    except OSError as error:
        raise NoSuchBuild(f"{path} cannot be read: {error.strerror}") from error
    return Binary(name=name, sha256=digest.hexdigest(), size=size)


def _context(descriptor: int, offset: int, length: int) -> str:
    """Return the text of a match, with the printable ASCII characters directly before and after it."""
    start = max(offset - _BEFORE, 0)
    around = os.pread(descriptor, offset - start + length + _AFTER, start)
    first, end = offset - start, offset - start + length
    while first > 0 and 0x20 <= around[first - 1] < 0x7F:
        first -= 1
    while end < len(around) and 0x20 <= around[end] < 0x7F:
        end += 1
    return around[first:end].decode("utf-8", "replace")
