"""Create temporary bare repositories without configuration, and remove them.

Repositories of killed runs are removed too.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from patchstack.files.atomic import put_in_place
from patchstack.files.processes import TAG, left_behind, tag

_NAME = re.compile(rf"patchstack-(?P<tag>{TAG})-\w+\Z")


def make_directory() -> Path:
    """Return a new temporary directory, which the caller removes.

    If this process is killed, the next run removes the directory.
    """
    return Path(tempfile.mkdtemp(prefix=f"patchstack-{tag()}-"))


def make_bare_repository(borrow: Sequence[Path] = (), shallow: Path | None = None) -> Path:
    """Return a new bare repository in the temporary directory, which the caller removes.

    The repository borrows the objects of the given directories. Run only read-only commands in a repository that
    borrows, because other git commands update the times of borrowed objects. `shallow` is the path of a git `shallow`
    file, which lists the commits whose parents are absent.
    """
    _sweep()
    root = make_directory()
    try:
        for name in ("objects/info", "objects/pack", "refs/heads"):
            (root / name).mkdir(parents=True)
        (root / "HEAD").write_text("ref: refs/heads/none\n")
        (root / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        if borrow:
            borrow_objects(root / "objects", borrow)
        if shallow is not None and shallow.is_file():
            shutil.copyfile(shallow, root / "shallow")
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise
    return root


@contextlib.contextmanager
def bare_repository(borrow: Sequence[Path] = (), shallow: Path | None = None) -> Iterator[Path]:
    """Create a repository with `make_bare_repository`, and remove it after the block."""
    root = make_bare_repository(borrow, shallow)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def borrow_objects(objects: Path, directories: Sequence[Path]) -> None:
    """Make other object directories the alternates of this object directory.

    Its previous alternates are replaced.
    """
    lines = "".join(f"{_alternate(path)}\n" for path in directories)
    (objects / "info").mkdir(exist_ok=True)
    (objects / "info" / "alternates").write_text(lines)


def write_object(objects: Path, oid: str, kind: str, data: bytes) -> None:
    """Write a loose object atomically, unless it exists."""
    path = objects / oid[:2] / oid[2:]
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        draft = path.with_name(f"tmp_obj_{os.getpid()}_{oid[2:]}")  # git's own prefix, so that git gc removes leftovers
        draft.write_bytes(zlib.compress(b"%s %d\0" % (kind.encode(), len(data)) + data, 1))
        draft.chmod(0o444)
        put_in_place(draft, path)


def _alternate(path: Path) -> str:
    """Return a path as a line of `objects/info/alternates`.

    The path is C-quoted if git would misread it.
    """
    text = str(path)
    if text.startswith(('"', "#")) or "\n" in text:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return text


def _sweep() -> None:
    """Remove the temporary directories of patchstack processes that have certainly ended."""
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            found = _NAME.match(entry.name)
            if found is None or not entry.is_dir(follow_symlinks=False):
                continue
            ours = entry.stat(follow_symlinks=False).st_uid == os.getuid()
            if ours and left_behind(found["tag"], Path(entry.path)):
                shutil.rmtree(entry.path, ignore_errors=True)
