"""`patchstack.show/1`: one patch of a series."""

from __future__ import annotations

from patchstack.document import Document, Part
from patchstack.git.patch.trailers import METADATA
from patchstack.report.show import ShownPatch


class TrailerEntry(Part, frozen=True, kw_only=True):
    """A trailer of the patch's message."""

    key: str
    value: str


class FileEntry(Part, frozen=True, kw_only=True):
    """A file that the patch changes.

    `inserted` and `removed` are numbers of lines; both are 0 for a binary file. `was` is the old name of a renamed
    file.
    """

    path: str
    was: str | None
    inserted: int
    removed: int
    binary: bool


class ShowDocument(Document, frozen=True, kw_only=True, tag="patchstack.show/1"):
    """A patch of a series.

    `tree_before` and `tree` are the trees before and after the patch. `state` and `detail` are the result of verify.
    `diff` includes context.
    """

    series: str
    file: str
    number: int | None
    subject: str
    anchored: bool
    author: str | None
    date: str | None
    body: str
    trailers: tuple[TrailerEntry, ...]
    metadata: dict[str, tuple[str, ...]]
    fork_commit: str | None
    fork_commit_from: str | None
    tree: str | None
    tree_before: str | None
    state: str | None
    detail: str
    files: tuple[FileEntry, ...]
    diff: str


def show_document(shown: ShownPatch) -> ShowDocument:
    """Convert a patch to its JSON document."""
    message = shown.message
    metadata = message.metadata()
    return ShowDocument(
        series=shown.series,
        file=shown.patch.file,
        number=shown.patch.number,
        subject=shown.patch.subject,
        anchored=shown.patch.anchored,
        author=message.author,
        date=message.date,
        body=message.body,
        trailers=tuple(TrailerEntry(key=trailer.key, value=trailer.value) for trailer in message.trailers),
        metadata={name: tuple(metadata.get(name, ())) for name in METADATA},
        fork_commit=shown.fork_commit,
        fork_commit_from=shown.commit_from,
        tree=shown.tree,
        tree_before=shown.tree_before,
        state=shown.state,
        detail=shown.detail,
        files=tuple(
            FileEntry(path=file.path, was=file.was, inserted=file.inserted, removed=file.removed, binary=file.binary)
            for file in shown.text.files
        ),
        diff=shown.text.diff,
    )
