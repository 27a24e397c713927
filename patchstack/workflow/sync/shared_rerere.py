"""Share conflict resolutions between maintainers.

The resolutions are git's rerere records, in a directory that can be committed. A record is a directory whose name is a
hash of the conflict. It contains the conflicting text (`preimage`) and a person's resolution (`postimage`). Only
records with a resolution are shared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from patchstack.causes import NotWritable
from patchstack.files.atomic import replace_file

_RECORD = re.compile(r"[0-9a-f]{40}\Z")
_PREIMAGE = re.compile(r"preimage(\.\d+)?\Z")
_LARGEST = 8 * 1024 * 1024


def bring(shared: Path, own: Path) -> int:
    """Copy the shared records to git's records, and return the number of copied records.

    Raises `MissingError` if a record cannot be read or written.
    """
    return _copy(shared, own)


def share(own: Path, shared: Path) -> int:
    """Copy git's finished records to the shared directory, and return the number of copied records.

    Raises `MissingError` if a record cannot be read or written.
    """
    return _copy(own, shared)


def _copy(source: Path, target: Path) -> int:
    count = 0
    try:
        for name, before, after in _records(source):
            _keep(target / name, before, after)
            count += 1
    except OSError as error:
        raise NotWritable(f"{target} cannot be written: {error.strerror or error}") from error
    return count


def _records(root: Path) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield the name, the conflicting text and the resolution of every finished record. Other files are ignored."""
    for directory in sorted(root.iterdir()) if root.is_dir() else ():
        if not _RECORD.match(directory.name) or directory.is_symlink() or not directory.is_dir():
            continue
        for path in sorted(directory.iterdir()):
            found = _PREIMAGE.match(path.name)
            other = directory / f"postimage{found.group(1) or ''}" if found else None
            if other is not None and _plain(path) and _plain(other):
                yield directory.name, path.read_bytes(), other.read_bytes()


def _plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size <= _LARGEST


def _keep(record: Path, before: bytes, after: bytes) -> None:
    """Write a resolution to a record.

    An older resolution of the same conflict is replaced. If none exists, the record gets a new variant.
    """
    variant = ""
    number = 0
    while (record / f"preimage{variant}").is_file():
        if (record / f"preimage{variant}").read_bytes() == before:
            break
        number += 1
        variant = f".{number}"
    record.mkdir(parents=True, exist_ok=True)
    for name, data in ((f"preimage{variant}", before), (f"postimage{variant}", after)):
        path = record / name
        if not path.is_file() or path.read_bytes() != data:
            replace_file(path, data)
