"""Trees of files as tar streams: packed the same everywhere, unpacked as what they are: untrusted."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from patchstack.errors import MissingError

OWNER = 1000
"""The user and group id that jobs run as in a container, and that own what is sent there."""
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file (`data`), a symbolic link (`link`, its target) or, with neither, a directory. `path` is relative."""

    path: str
    data: bytes | None = None
    link: str | None = None
    executable: bool = False


def pack(entries: Iterable[Entry], *, mtime: int = 0) -> Iterator[bytes]:
    """A tar stream (pax) of the entries and of the directories they are in, all owned by `OWNER`, in blocks of about
    1 MiB. `mtime` is every entry's time, in seconds since the epoch. The first entry is `.`, so that the directory it
    is unpacked into belongs to `OWNER` too."""
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
            if entry.data is None and entry.link is None:
                directories(path)
                continue
            directories(path.parent)
            if entry.link is not None:
                info = _info(entry.path, mtime, tarfile.SYMTYPE, 0o777)
                info.linkname = entry.link
                archive.addfile(info)
            else:
                info = _info(entry.path, mtime, tarfile.REGTYPE, 0o755 if entry.executable else 0o644)
                info.size = len(entry.data or b"")
                archive.addfile(info, io.BytesIO(entry.data or b""))
            if buffer.tell() >= _BLOCK:
                yield buffer.getvalue()
                buffer.seek(0)
                buffer.truncate()
    yield buffer.getvalue()


def _info(path: str, mtime: int, kind: bytes, mode: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.type = kind
    info.mode = mode
    info.mtime = mtime
    info.uid = info.gid = OWNER
    return info


def unpack(stream: Iterable[bytes], into: Path) -> tuple[Path, ...]:
    """Unpack regular files, directories, and symbolic links to a name in the same directory; give the files and links.

    What a build made is untrusted: an entry of another kind, an absolute path, one through `..`, or a link that leads
    elsewhere is refused with `MissingError`, and nothing outside `into` is written.
    """
    made = []
    with tarfile.open(fileobj=Stream(stream), mode="r|") as archive:
        for info in archive:
            path = PurePosixPath(info.name)
            if path.is_absolute() or ".." in path.parts:
                raise MissingError(f"the archive has an entry that leads out of it: {info.name}")
            target = into / path
            if info.isdir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            if not target.resolve().is_relative_to(into.resolve()):
                raise MissingError(f"the archive has an entry that leads out of it: {info.name}")
            target.parent.mkdir(parents=True, exist_ok=True)
            if info.issym():
                if "/" in info.linkname or info.linkname in ("", ".", ".."):
                    raise MissingError(f"the archive has a link that leads elsewhere: {info.name} -> {info.linkname}")
                target.symlink_to(info.linkname)
            elif info.isreg():
                source = archive.extractfile(info)
                assert source is not None
                with target.open("xb") as out:
                    while block := source.read(_BLOCK):
                        out.write(block)
                target.chmod(0o755 if info.mode & 0o111 else 0o644)
            else:
                raise MissingError(f"the archive has an entry that is no file: {info.name}")
            made.append(target)
    return tuple(made)


class Stream(io.RawIOBase):
    """Chunks as a file to read from."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._chunk = memoryview(b"")  # what is left of the chunk at hand: taken from without copying the rest

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
