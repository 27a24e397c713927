"""`patchstack.export/1`: what `patchstack export` wrote, or would write."""

from __future__ import annotations

from patchstack.document import Document, Part
from patchstack.series.mirror.export import ExportPlan


class FileEntry(Part, frozen=True, kw_only=True):
    """A patch file, and what the export did to it. `was` is the old name of a renamed file."""

    file: str
    change: str
    subject: str
    was: str | None


class ExportDocument(Document, frozen=True, kw_only=True, tag="patchstack.export/1"):
    """The mirror after an export.

    `retired` contains the retired patch numbers. `tree` is the tree that the series produces.
    """

    series: str
    directory: str
    dry_run: bool
    up_to_date: bool
    files: tuple[FileEntry, ...]
    retired: tuple[int, ...]
    tree: str


def export_document(plan: ExportPlan, *, dry_run: bool) -> ExportDocument:
    """Convert an export to its JSON document."""
    return ExportDocument(
        series=plan.series,
        directory=str(plan.directory),
        dry_run=dry_run,
        up_to_date=plan.up_to_date,
        files=tuple(
            FileEntry(file=file.file, change=file.change.value, subject=file.subject, was=file.was)
            for file in plan.files
        ),
        retired=tuple(plan.retired),
        tree=plan.tree,
    )
