"""Write the result of `patchstack canary` as one HTML page without scripts.

The page contains a picture of every patch over time, a list of what to do, and a table of all patches.
"""

from __future__ import annotations

from pathlib import Path

from patchstack.causes import OutputUnwritable
from patchstack.files.atomic import replace_file
from patchstack.report.canary import canary_explanation, canary_table, canary_truth
from patchstack.report.page import drawing, fill, require_pages
from patchstack.report.plots import require_plots
from patchstack.report.text import counted
from patchstack.upstream.canary.result import Canary, CanaryPatch, Fit, Span

COLOURS = {
    Fit.APPLIES: "#2b8f67",
    Fit.OFFSET: "#3b7fd4",
    Fit.MERGES: "#c99a0a",
    Fit.FAILS: "#cf4f4a",
    Fit.AT_PIN: "#8a6cd0",
}
_ROWS = 150  # if a series has more patches, the picture omits those that apply at every commit
_MOST = 400
_WIDTH, _ROW = 900, 14
_TICKS = 8
_SUBJECT = 48  # maximum length of a subject in its row


def write_page(result: Canary, path: Path) -> None:
    """Write the page.

    Raises `MissingError` if the optional group `[plots]` is not installed, and `UsageError` if the file cannot be
    written.
    """
    try:
        replace_file(path, page_of(result).encode())
    except OSError as error:
        raise OutputUnwritable(f"{path} cannot be written: {error.strerror}") from error


def page_of(result: Canary) -> str:
    """Return the page as HTML. Every value is escaped. The picture is an SVG image without scripts."""
    require_plots()
    require_pages()
    title = f"{result.series} on upstream {result.range.ref}"
    drawn, left_out = _shown(result)
    return fill(
        "canary_page.html",
        title=title,
        truth=canary_truth(result),
        explanation="\n".join(canary_explanation(result)),
        table=canary_table(result),
        svg=drawing(timeline_spec(result, drawn), title=f"{title}: every patch at every commit")
        if result.range.commits and drawn
        else None,
        caption=_caption(result, left_out),
    )


def timeline_spec(result: Canary, patches: list[int]) -> dict[str, object]:
    """Return the Vega-Lite specification of the picture.

    Each patch has a row, and each upstream commit is a step on the horizontal axis. The colour shows how the patch
    applies at the commit.
    """
    rows = {patch: f"{_label(result.patches[patch])}" for patch in patches}
    values = [
        {
            "patch": rows[span.patch],
            "from": span.first,
            "to": span.last + 1,
            "fit": span.fit.value,
            "told": _told(result, span),
        }
        for span in result.timeline
        if span.patch in rows
    ]
    commits = result.range.commits
    step = max(1, len(commits) // _TICKS)
    days = {str(index): commits[index].date for index in range(0, len(commits), step)}
    fits = [fit for fit in Fit if any(value["fit"] == fit.value for value in values)]
    labels = "{" + ", ".join(f"'{index}': '{day}'" for index, day in days.items()) + "}"
    return {
        "width": _WIDTH,
        "height": {"step": _ROW},
        "data": {"values": values},
        "mark": {"type": "rect", "height": {"band": 0.86}},
        "encoding": {
            "x": {
                "field": "from",
                "type": "quantitative",
                "scale": {"domain": [-1, len(commits)], "nice": False, "zero": False},
                "axis": {
                    "title": f"upstream commits after the pin, {counted(len(commits), 'commit')}, oldest first",
                    "values": [int(index) for index in days],
                    "labelExpr": f"{labels}[datum.value]",
                    "grid": False,
                },
            },
            "x2": {"field": "to"},
            "y": {"field": "patch", "type": "nominal", "sort": list(rows.values()), "axis": {"title": None}},
            "color": {
                "field": "fit",
                "type": "nominal",
                "scale": {"domain": [fit.value for fit in fits], "range": [COLOURS[fit] for fit in fits]},
                "legend": {"title": None, "columns": len(fits)},
            },
            "description": {"field": "told"},
        },
    }


def _shown(result: Canary) -> tuple[list[int], int]:
    """Return the indices of the patches in the picture, and the number of omitted patches.

    If the series is long, the patches that apply at every commit are omitted, and the number of rows is limited.
    """
    every = list(range(len(result.patches)))
    if len(every) <= _ROWS:
        return every, 0
    always = {Fit.APPLIES, Fit.OFFSET}
    moving = sorted({span.patch for span in result.timeline if span.fit not in always})[:_MOST]
    return moving, len(every) - len(moving)


def _label(patch: CanaryPatch) -> str:
    number = f"{patch.number:04d}" if patch.number is not None else patch.file
    subject = patch.subject if len(patch.subject) <= _SUBJECT else patch.subject[: _SUBJECT - 1] + "…"
    return f"{number} {subject}"


def _told(result: Canary, span: Span) -> str:
    """Return the tooltip of a span: the patch, how it applies, and the commit at which the span begins."""
    patch, commits = result.patches[span.patch], result.range.commits
    number = f"{patch.number:04d}" if patch.number is not None else patch.file
    if span.first < 0:
        return f"{number} {patch.subject}: {span.fit.value} from the pin on"
    commit = commits[span.first]
    return f"{number} {patch.subject}: {span.fit.value} from {commit.label} on ({commit.date}, {commit.subject})"


def _caption(result: Canary, left_out: int) -> str:
    told = "Each row is a patch, in series order. Each patch is tested without the earlier patches that fail. "
    told += "Point at a row to see the upstream commit at which its state began."
    if left_out:
        told += f" Not shown: {counted(left_out, 'patch', 'patches')}. Patches that apply at every commit are omitted, "
        told += f"and at most {_MOST} patches are shown."
    if result.blamed is None:
        told += " Run 'patchstack canary --blame' to find the commit that breaks each patch."
    return told
