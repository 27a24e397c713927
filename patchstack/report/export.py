"""Show the result of `patchstack export` as a table and a summary line."""

from __future__ import annotations

from patchstack.report.table import Give, Table
from patchstack.report.text import patch_count
from patchstack.series.mirror.export import Change, ExportPlan

_STYLES = {Change.ADDED.value: "green", Change.REMOVED.value: "red", Change.CHANGED.value: "yellow"}


def export_table(plan: ExportPlan) -> Table:
    """Return a table of the files that change. The row of a renamed file contains its old name."""
    changed = [file for file in plan.files if file.change is not Change.UNCHANGED]
    return Table(
        titles=("change", "file", "was"),
        rows=[
            (file.change.value, file.file, file.was if file.was != file.file and file.was else "") for file in changed
        ],
        styles=_STYLES,
        gives={"file": Give.MIDDLE, "was": Give.MIDDLE},
    )


def export_line(plan: ExportPlan, *, dry_run: bool) -> str:
    """Return the line that describes what the export wrote, or would write."""
    count = {change: sum(file.change is change for file in plan.files) for change in Change}
    total = len(plan.files) - count[Change.REMOVED]
    if plan.up_to_date:
        return f"{plan.series}: up to date: {patch_count(total)}, tree {plan.tree}"
    told = ", ".join(f"{number} {change.value}" for change, number in count.items() if number)
    verb = "would be written" if dry_run else "written"
    retired = f"; retired numbers: {', '.join(f'{number:04d}' for number in plan.retired)}" if plan.retired else ""
    return f"{plan.series}: {verb} to {plan.directory}: {told}; {patch_count(total)}, tree {plan.tree}{retired}"
