"""Read and write the volumes of the host engine as tar streams.

A volume is a directory. Its content is never trusted.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import stat
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from patchstack.causes import EngineRefused, JobRefused, UnsafeArchive
from patchstack.engine.archive import OWNER, Stream, whole_blocks
from patchstack.engine.protocol import OutOfSpace
from patchstack.files.atomic import put_in_place

_BLOCK = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)
_LAST_WRITES = 10.0
"""How long the removal of a directory is retried, in seconds.

Processes of a killed patchstack may still write to the directory.
"""


def put(directory: Path, archive: Iterable[bytes]) -> None:
    """Unpack a tar stream into the directory. Modes and times come from the archive.

    Existing files are replaced atomically, one by one. A link at a directory's path is removed and not followed. Raises
    `MissingError` if an entry is outside the directory, or is not a file, directory or symbolic link. Raises
    `OutOfSpace` if the disk is full. After an error, earlier entries stay unpacked.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=Stream(archive), mode="r|") as entries:
            for info in entries:
                _place(entries, info, directory)
    except tarfile.TarError as error:
        raise UnsafeArchive(f"the tar archive for {directory} is incomplete: {error}") from error
    except OSError as error:
        if error.errno in _FULL:
            raise out_of_space(directory) from error
        raise


def _place(entries: tarfile.TarFile, info: tarfile.TarInfo, directory: Path) -> None:
    path = PurePosixPath(info.name)
    if path.is_absolute() or ".." in path.parts:
        raise UnsafeArchive(f"archive entry is outside the target directory: {info.name}")
    if info.issym() and _leads_out(path.parent, info.linkname):
        raise UnsafeArchive(f"archive link leads outside the target directory: {info.name} -> {info.linkname}")
    if not (info.isdir() or info.isreg() or info.issym()):
        raise UnsafeArchive(f"archive entry is not a file, directory or symbolic link: {info.name}")
    target = directory
    for part in path.parts if info.isdir() else path.parent.parts:
        target = target / part
        if not _is_directory(target):
            target.unlink(missing_ok=True)
            target.mkdir()
    if info.isdir():
        target.chmod(info.mode & 0o777 | stat.S_IRWXU)
        return
    target = target / path.name
    if _is_directory(target):
        remove(target)
    new = Path(tempfile.mktemp(prefix=".patchstack-", dir=target.parent))  # noqa: S306  (made exclusively below)
    try:
        if info.issym():
            new.symlink_to(info.linkname)
        else:
            source = entries.extractfile(info)
            assert source is not None
            with new.open("xb") as out:
                shutil.copyfileobj(source, out, _BLOCK)
            new.chmod(info.mode & 0o777)
            os.utime(new, (info.mtime, info.mtime))
        put_in_place(new, target)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _is_directory(path: Path) -> bool:
    """Return whether the path is a directory and not a link to a directory."""
    return path.is_dir() and not path.is_symlink()


def _leads_out(parent: PurePosixPath, link: str) -> bool:
    if not link or link.startswith("/"):
        return True
    depth = len(parent.parts)
    for part in PurePosixPath(link).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False


def get(directory: Path, path: str) -> Iterator[bytes]:
    """Return a file or directory below `directory` as a tar stream.

    The names in the stream begin with the last component of `path`. Raises `MissingError` if `path` does not exist or
    goes through a link, and `UsageError` if it is not below the directory. These errors are raised before the first
    block.
    """
    below = PurePosixPath(path)
    if below.is_absolute() or ".." in below.parts:
        raise JobRefused(f"{path!r} is not a path below a volume")
    source = directory
    for part in below.parts:
        if source.is_symlink():
            break
        source = source / part
    if not os.path.lexists(source) or source.parts[len(directory.parts) :] != below.parts:
        raise EngineRefused(f"{path} does not exist in the volume {directory.name}")
    return _pack(source, below.name or ".")


def _pack(source: Path, name: str) -> Iterator[bytes]:
    """Yield a tar stream of `source` in blocks, because a file may be larger than memory."""
    with tarfile.open(fileobj=io.BytesIO(), mode="w") as reader:
        pending = [(source, name)]
        while pending:
            path, named = pending.pop()
            info = reader.gettarinfo(path, arcname=named)
            if info is None:  # a socket, which a tar archive cannot contain
                continue
            info.uid = info.gid = OWNER
            info.uname = info.gname = ""
            if info.islnk():  # a hard link is packed as a file
                info.type, info.linkname, info.size = tarfile.REGTYPE, "", path.stat().st_size
            yield info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
            if info.isreg():
                with path.open("rb") as content:
                    yield from whole_blocks(content, info.size)
            elif info.isdir():
                pending += [(child, f"{named}/{child.name}") for child in sorted(path.iterdir(), reverse=True)]
    yield bytes(2 * tarfile.BLOCKSIZE)


def remove(directory: Path) -> None:
    """Remove a directory with its content, even if it is not writable. Links are not followed.

    The removal is retried for up to 10 s, because processes of a killed patchstack end a moment later and may still
    write to the directory.
    """
    end = time.monotonic() + _LAST_WRITES
    while True:
        try:
            _remove(directory)
            return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or time.monotonic() > end:
                raise
        time.sleep(0.05)


def _remove(directory: Path) -> None:

    def open_up(path: str) -> None:
        with contextlib.suppress(OSError):
            os.chmod(path, stat.S_IRWXU)

    if not os.path.lexists(directory):
        return
    if not directory.is_symlink():
        open_up(str(directory))  # os.walk must be able to read this directory
        for parent, names, _ in os.walk(directory):
            for name in names:
                if not os.path.islink(found := os.path.join(parent, name)):
                    open_up(found)
    shutil.rmtree(directory)


def out_of_space(directory: Path) -> OutOfSpace:
    """Return the error for a full disk. `directory` is on this disk."""
    return OutOfSpace(
        f"the disk that holds {directory} is full",
        hint="free disk space there, or set PATCHSTACK_CACHE to a directory on a different disk",
    )
