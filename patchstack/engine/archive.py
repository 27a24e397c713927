"""Pack files into tar streams, and unpack tar streams.

Packing is deterministic. Unpacking does not trust the stream.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from patchstack.causes import UnsafeArchive

OWNER = 1000
"""The user id and group id of jobs in a container, and of the files that are sent to a container."""
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of an archive. `path` is relative.

    The content of a file is in `data`, or in the file at the path `file`. `link` is the target of a symbolic link. An
    entry with none of these is a directory.
    """

    path: str
    data: bytes | None = None
    file: Path | None = None
    link: str | None = None
    executable: bool = False


def pack(entries: Iterable[Entry], *, mtime: int = 0) -> Iterator[bytes]:
    """Yield a tar stream (pax) of the entries and their parent directories, in blocks of about 1 MiB.

    Every entry belongs to `OWNER`, and has the time `mtime` in seconds since the epoch. The first entry is `.`, the
    target directory itself.
    """
    buffer = io.BytesIO()
    made: set[str] = set()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:

        def directories(path: PurePosixPath) -> None:
            for parent in (*reversed(path.parents), path):
                if str(parent) not in made:
                    made.add(str(parent))
                    archive.addfile(_info(str(parent), mtime, tarfile.DIRTYPE, 0o755))

        directories(PurePosixPath("."))
        for entry in entries:
            path = PurePosixPath(entry.path)
            if entry.data is None and entry.file is None and entry.link is None:
                directories(path)
                continue
            directories(path.parent)
            if entry.link is not None:
                info = _info(entry.path, mtime, tarfile.SYMTYPE, 0o777)
                info.linkname = entry.link
                archive.addfile(info)
            elif entry.file is not None:
                info = _info(entry.path, mtime, tarfile.REGTYPE, 0o755 if entry.executable else 0o644)
                with entry.file.open("rb") as content:
                    info.size = os.fstat(content.fileno()).st_size
                    archive.addfile(info)  # the content follows in blocks, because it may be larger than memory
                    yield _taken(buffer)
                    yield from whole_blocks(content, info.size)
                archive.offset += info.size + -info.size % tarfile.BLOCKSIZE
            else:
                info = _info(entry.path, mtime, tarfile.REGTYPE, 0o755 if entry.executable else 0o644)
                info.size = len(entry.data or b"")
                archive.addfile(info, io.BytesIO(entry.data or b""))
            if buffer.tell() >= _BLOCK:
                yield _taken(buffer)
    yield buffer.getvalue()


def _taken(buffer: io.BytesIO) -> bytes:
    """Return the content of a buffer and empty the buffer."""
    taken = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return taken


def whole_blocks(content: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield `size` bytes of a file, then the padding to a whole tar block.

    Raises `MissingError` if the file has fewer than `size` bytes left.
    """
    left = size
    while left:
        if not (block := content.read(min(left, _BLOCK))):
            raise UnsafeArchive(f"{content.name} became shorter while it was read")
        left -= len(block)
        yield block
    yield bytes(-size % tarfile.BLOCKSIZE)


def _info(path: str, mtime: int, kind: bytes, mode: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.type = kind
    info.mode = mode
    info.mtime = mtime
    info.uid = info.gid = OWNER
    return info


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits for a copy from an engine.

    `size` limits the total size of all files, in bytes. `entries` limits the number of entries.
    """

    size: int
    entries: int

    def check(self, size: int, entries: int) -> None:
        """Raise `MissingError` if the bytes or the entries copied so far exceed a limit."""
        if size > self.size:
            raise UnsafeArchive(f"the files of the job cannot be copied: more than {self.size >> 20} MiB")
        if entries > self.entries:
            raise UnsafeArchive(
                f"the files of the job cannot be copied: more than {self.entries} files and directories"
            )


def unpack(stream: Iterable[bytes], into: Path, bounds: Bounds) -> tuple[Path, ...]:
    """Unpack a tar stream into the directory `into`. Return the files and links.

    The output of a build is untrusted, so nothing is written outside `into`. Only regular files, directories, and
    symbolic links to a name in the same directory are allowed. Raises `MissingError` for any other entry, for an
    absolute path, for a path with `..`, and for a stream that is incomplete or exceeds the bounds. Only one block is in
    memory at a time.
    """
    try:
        return _unpacked(stream, into, bounds)
    except tarfile.TarError as error:
        raise UnsafeArchive(f"the engine sent an incomplete archive: {error}") from error


def _unpacked(stream: Iterable[bytes], into: Path, bounds: Bounds) -> tuple[Path, ...]:
    made = []
    size = entries = 0
    with tarfile.open(fileobj=Stream(stream), mode="r|") as archive:
        while (info := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined] # tarfile keeps every entry that it has seen
            size, entries = size + info.size, entries + 1
            bounds.check(size, entries)
            path = PurePosixPath(info.name)
            if path.is_absolute() or ".." in path.parts:
                raise UnsafeArchive(f"archive entry is outside the target directory: {info.name}")
            target = into / path
            if info.isdir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            if not target.resolve().is_relative_to(into.resolve()):
                raise UnsafeArchive(f"archive entry is outside the target directory: {info.name}")
            target.parent.mkdir(parents=True, exist_ok=True)
            if info.issym():
                if "/" in info.linkname or info.linkname in ("", ".", ".."):
                    raise UnsafeArchive(f"archive link leads outside its own directory: {info.name} -> {info.linkname}")
                target.symlink_to(info.linkname)
            elif info.isreg():
                source = archive.extractfile(info)
                assert source is not None
                with target.open("xb") as out:
                    while block := source.read(_BLOCK):
                        out.write(block)
                target.chmod(0o755 if info.mode & 0o111 else 0o644)
            else:
                raise UnsafeArchive(f"archive entry is not a file, directory or symbolic link: {info.name}")
            made.append(target)
    return tuple(made)


class Stream(io.RawIOBase):
    """A readable file object for the content of `chunks`."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._chunk = memoryview(b"")  # the rest of the current chunk, which is read without copying

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        pieces = []
        while size:
            if not self._chunk:
                chunk = next(self._chunks, None)
                if chunk is None:
                    break
                self._chunk = memoryview(chunk)
            piece = self._chunk[:size] if size > 0 else self._chunk
            self._chunk = self._chunk[len(piece) :]
            size -= len(piece) if size > 0 else 0
            pieces.append(piece)
        return b"".join(pieces)
