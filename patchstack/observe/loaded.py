"""Find the files of a build that a program may load, with their digests.

The key of an observation contains the digests of these files, and of no other files of the build.

A program loads the libraries that it names (`NEEDED`), and the libraries that these libraries name. ggml also loads
backends at run time, and any program can load a library by a name that it contains or computes. Therefore these files
count as loaded, too:

- `libggml-*`: backends, which ggml searches for next to the program;
- a library whose name occurs in a loaded file;
- a library that no file of the build names, because it can only be loaded at run time;
- every file that is neither a program nor a library.

Other programs, and libraries that only other programs name, do not count. For a program that is not an ELF file (a
script), every file counts.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterable, Mapping
from pathlib import Path

from patchstack.builds.proofs.elf import DamagedElf, Elf, read_elf
from patchstack.errors import MissingError

_PIECE = 1 << 22


class LoadedFiles:
    """The files in a directory of programs. The digest of each file is computed once.

    `stamps` are the build keys that the programs may contain.
    """

    def __init__(self, directory: Path, names: Iterable[str], stamps: Iterable[str] = ()) -> None:
        self._directory = directory
        self._names = frozenset(names)
        self._stamps = tuple(stamp.encode() for stamp in stamps if stamp)
        self._elves: dict[str, Elf | None] | None = None
        self._digests: dict[Path, str] = {}

    def by(self, program: str) -> dict[str, str]:
        """Return the files that a program may load, with their digests. The program itself is one of them."""
        return {name: self.digest(name) for name in sorted(self._loaded(program))}

    def all(self) -> dict[str, str]:
        """Return all files with their digests."""
        return {name: self.digest(name) for name in sorted(self._names)}

    def borrowable(self, program: str, others: Iterable[str]) -> bool:
        """Return whether a program can run with the libraries named in `others`.

        `others` contains the file names of a different build. Return True if the program needs at least one library of
        this build, and `others` contains each library of this build that the program needs.
        """
        elf = self._read().get(program)
        needed = [one for one in elf.needed if one in self._names] if elf is not None else []
        return bool(needed) and set(needed) <= set(others)

    def digest(self, name: str) -> str:
        """Return the SHA-256 of a file's content, in hex.

        The build key and the linker's build id in the file are replaced by zeros. Both change whenever the source
        changes, even if the rest of the file does not change.
        """
        path = (self._directory / name).resolve()
        if path not in self._digests:
            elf = self._read().get(name)
            self._digests[path] = _digest(path, self._stamps, elf.build_id if elf is not None else None)
        return self._digests[path]

    def _loaded(self, program: str) -> frozenset[str]:
        elves = self._read()
        if elves.get(program) is None:
            return self._names
        libraries = {name for name, elf in elves.items() if elf is not None and not elf.program}
        named = {one for elf in elves.values() if elf is not None for one in elf.needed if one in self._names}
        # Compared by content, because a library often has several names, and a program uses only one of them.
        needed = {self.digest(name) for name in named}
        start = {program, *(name for name in self._names if elves.get(name) is None)}
        start |= {name for name in libraries if name.startswith("libggml-") or self.digest(name) not in needed}
        found: set[str] = set()
        while start:
            name = start.pop()
            if name in found:
                continue
            found.add(name)
            elf = elves.get(name)
            if elf is not None:
                start |= {one for one in elf.needed if one in self._names}
                start |= self._mentioned(self._directory / name, libraries - found)
        return frozenset(found)

    def _mentioned(self, path: Path, libraries: Iterable[str]) -> set[str]:
        """Return the libraries whose names occur in the file `path`."""
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return {name for name in libraries if content.find(name.encode() + b"\0") >= 0}

    def _read(self) -> Mapping[str, Elf | None]:
        """Return the ELF headers of each file, or None for a file that is not a valid ELF file."""
        if self._elves is None:
            self._elves = {name: _elf(self._directory / name) for name in self._names}
        return self._elves


def _elf(path: Path) -> Elf | None:
    try:
        return read_elf(path)
    except DamagedElf:
        return None
    except MissingError:  # without pyelftools no ELF file can be read, so every file counts
        return None


def _digest(path: Path, stamps: Iterable[bytes], build_id: tuple[int, int] | None) -> str:
    whole = hashlib.sha256()
    with path.open("rb") as file:
        if not path.stat().st_size:
            return whole.hexdigest()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            at = 0
            for start, length in sorted(_masked(content, stamps, build_id)):
                start, end = max(start, at), start + length
                _update(whole, content, at, start)
                whole.update(bytes(max(0, end - start)))
                at = max(at, end)
            _update(whole, content, at, len(content))
    return whole.hexdigest()


def _masked(content: mmap.mmap, stamps: Iterable[bytes], build_id: tuple[int, int] | None) -> list[tuple[int, int]]:
    found = [build_id] if build_id is not None else []
    for stamp in stamps:
        at = content.find(stamp)
        while at >= 0:
            found.append((at, len(stamp)))
            at = content.find(stamp, at + len(stamp))
    return found


def _update(whole: hashlib._Hash, content: mmap.mmap, start: int, end: int) -> None:
    for at in range(start, end, _PIECE):
        whole.update(content[at : min(at + _PIECE, end)])
