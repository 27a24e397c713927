"""`patchstack.refresh/1`: what `patchstack refresh` wrote."""

from __future__ import annotations

from patchstack.document import Document, Part
from patchstack.series.mirror.refresh import Refreshed


class HunkEntry(Part, frozen=True, kw_only=True):
    """A hunk that applied only with fuzz.

    `path` is the changed file. `hunk` is the number of the hunk, counted from 1. `line` is its line in the file.
    """

    path: str
    hunk: int
    line: int
    fuzz: int


class RefreshedEntry(Part, frozen=True, kw_only=True):
    """A patch of the copy. `original` is the name of the original patch.

    If `hunks` is empty, the patch was copied without changes.
    """

    file: str
    original: str
    hunks: tuple[HunkEntry, ...]


class RefreshDocument(Document, frozen=True, kw_only=True, tag="patchstack.refresh/1"):
    """A refreshed copy of a series, and the tree that the copy produces without fuzz."""

    series: str
    directory: str
    tree: str
    patches: tuple[RefreshedEntry, ...]


def refresh_document(series: str, done: Refreshed) -> RefreshDocument:
    """Convert a refreshed copy to its JSON document."""
    return RefreshDocument(
        series=series,
        directory=str(done.directory),
        tree=done.tree,
        patches=tuple(
            RefreshedEntry(
                file=one.file,
                original=one.original,
                hunks=tuple(
                    HunkEntry(path=hunk.path, hunk=hunk.hunk, line=hunk.line, fuzz=hunk.fuzz) for hunk in one.hunks
                ),
            )
            for one in done.files
        ),
    )
