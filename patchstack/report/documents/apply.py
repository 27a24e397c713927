"""`patchstack.apply/1`: the result of applying a series to a directory of source files."""

from __future__ import annotations

from pathlib import Path

from patchstack.document import Document
from patchstack.series.mirror.apply_to_directory import Materialized


class ApplyDocument(Document, frozen=True, kw_only=True, tag="patchstack.apply/1"):
    """The files that a series changed in a directory, or would change if `check` is true.

    Paths are relative to the directory.
    """

    series: str
    directory: str
    check: bool
    patch_count: int
    created: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    warnings: tuple[str, ...]


def apply_document(series: str, directory: Path, done: Materialized, *, check: bool) -> ApplyDocument:
    """Convert the result of applying a series to its JSON document."""
    return ApplyDocument(
        series=series,
        directory=str(directory),
        check=check,
        patch_count=done.patch_count,
        created=tuple(done.created),
        changed=tuple(done.changed),
        removed=tuple(done.removed),
        warnings=tuple(done.warnings),
    )
