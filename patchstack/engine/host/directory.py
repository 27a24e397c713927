"""A host engine's volume: a directory that is read and written as tar streams. Its content is never trusted."""

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
"""The seconds within which the processes of a killed patchstack end."""


def put(directory: Path, archive: Iterable[bytes]) -> None:
    """Unpack a tar stream into the directory. Existing files are replaced atomically, one by one. A link in the way is
    removed, not followed. Modes and times come from the archive.

    Raises `MissingError` for an entry that leads out, or is neither file, directory nor symbolic link, and
    `OutOfSpace`. Earlier entries are then in place.
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
        raise UnsafeArchive(f"the archive has an entry that leads out of it: {info.name}")
    if info.issym() and _leads_out(path.parent, info.linkname):
        raise UnsafeArchive(f"the archive has a link that leads out of it: {info.name} -> {info.linkname}")
    if not (info.isdir() or info.isreg() or info.issym()):
        raise UnsafeArchive(f"the archive has an entry that is not a file: {info.name}")
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
    """Return whether the path is a directory, not a link to one."""
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
    """Return a file or directory below `directory` as a tar stream. The names in it begin with the last component of
    the path.

    Raises `MissingError`, at once, if it does not exist or its path goes through a link, and `UsageError` for a path
    that is not below the directory.
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
        raise EngineRefused(f"there is no {path} in the volume {directory.name}")
    return _pack(source, below.name or ".")


def _pack(source: Path, name: str) -> Iterator[bytes]:
    """Yield the stream one block at a time, because a file may be larger than memory."""
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

    The processes of a killed patchstack end a moment later, and may write to the directory until then. So removal is
    retried for some seconds.
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
        open_up(str(directory))  # before the walk, which must read it
        for parent, names, _ in os.walk(directory):
            for name in names:
                if not os.path.islink(found := os.path.join(parent, name)):
                    open_up(found)
    shutil.rmtree(directory)


def out_of_space(directory: Path) -> OutOfSpace:
    """Return the error for a full disk under a directory of ours."""
    return OutOfSpace(
        f"the disk that holds {directory} is full", hint="make room there, or set PATCHSTACK_CACHE to another disk"
    )
