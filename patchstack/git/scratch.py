"""Temporary bare repositories without any configuration, and their removal: also of those that killed runs left."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

_NAME = re.compile(r"patchstack-(\d+)-\w+\Z")
_OLD = 3600.0  # seconds; a process of another container is alive without our seeing it


def make_bare_repository(borrow: Sequence[Path] = (), shallow: Path | None = None) -> Path:
    """A new bare repository in the temporary directory; the caller removes it.

    It borrows the objects of the given directories. Only reading commands may be run in one that does: git freshens the
    times of borrowed objects it meant to write. `shallow` is a repository's list of commits whose parents are absent.
    """
    _sweep()
    root = Path(tempfile.mkdtemp(prefix=f"patchstack-{os.getpid()}-"))
    try:
        for name in ("objects/info", "objects/pack", "refs/heads"):
            (root / name).mkdir(parents=True)
        (root / "HEAD").write_text("ref: refs/heads/none\n")
        (root / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        if borrow:
            lines = "".join(f"{_alternate(path)}\n" for path in borrow)
            (root / "objects" / "info" / "alternates").write_text(lines)
        if shallow is not None and shallow.is_file():
            shutil.copyfile(shallow, root / "shallow")
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise
    return root


@contextlib.contextmanager
def bare_repository(borrow: Sequence[Path] = (), shallow: Path | None = None) -> Iterator[Path]:
    """`make_bare_repository` for the length of a block."""
    root = make_bare_repository(borrow, shallow)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _alternate(path: Path) -> str:
    """A path as a line of `objects/info/alternates`: C-quoted where git would misread it."""
    text = str(path)
    if text.startswith(('"', "#")) or "\n" in text:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return text


def _sweep() -> None:
    """Remove what runs that were killed have left: ours, old, and of a process that is no more."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            found = _NAME.match(entry.name)
            if found is None or not entry.is_dir(follow_symlinks=False):
                continue
            status = entry.stat(follow_symlinks=False)
            gone = not Path(f"/proc/{found.group(1)}").exists() if Path("/proc").is_dir() else True
            if gone and status.st_uid == os.getuid() and time.time() - status.st_mtime > _OLD:
                shutil.rmtree(entry.path, ignore_errors=True)
