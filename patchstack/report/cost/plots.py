"""Write a cost document as one HTML page without scripts.

The page contains tables, and plots that are drawn from Vega-Lite specifications.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from patchstack.causes import OutputUnwritable
from patchstack.files.atomic import replace_file
from patchstack.report.cost.tables import about_lines, sections_of
from patchstack.report.documents.cost import CostDocument
from patchstack.report.page import Plot, render_page
from patchstack.report.plots import PALETTE


def plots_of(document: CostDocument) -> Iterator[Plot]:
    """Yield the plots of a document, in the order of its sections."""
    if document.memory is not None:
        yield _memory(document)
    if document.decode:
        yield _decode(document)
    if document.prefix is not None:
        yield _steps(document)
    if document.state is not None:
        yield _heads(document)


def _bars(
    rows: list[dict[str, object]], x: str, y: str, group: str, order: list[str], *, many: int
) -> dict[str, object]:
    return {
        "width": 560,
        "height": {"step": 26} if many <= 24 else max(240, 8 * many),
        "data": {"values": rows},
        "mark": {"type": "bar"},
        "encoding": {
            "x": {"field": "value", "type": "quantitative", "title": x, "stack": "zero"},
            "y": {"field": "name", "type": "nominal", "title": y, "sort": order},
            "color": {"field": group, "type": "nominal", "title": None},
            "order": {"field": "at", "type": "quantitative"},
        },
    }


def _memory(document: CostDocument) -> Plot:
    assert document.memory is not None
    rows: list[dict[str, object]] = [
        {"name": one.place, "value": one.bytes / 2**30, "kind": one.kind, "at": at}
        for at, one in enumerate(document.memory.allocations)
        if one.bytes
    ]
    return Plot(
        title="Memory by kind",
        caption="Compute buffers are included only if llama-fit-params reported them. Host memory is a maximum.",
        spec=_bars(rows, "GiB", "", "kind", ["device", "host"], many=2),
    )


def _decode(document: CostDocument) -> Plot:
    assert document.decode
    bandwidth = next(
        (one.value for one in (document.machine.figures if document.machine else ()) if one.name == "bandwidth"), 0.0
    )
    names = [f"{one.streams} × {one.context_tokens:,}" for one in document.decode]
    largest: dict[str, float] = {}
    for one in document.decode:
        for part in one.parts:
            largest[part.group] = max(largest.get(part.group, 0.0), part.bytes / one.bytes)
    shown = sorted(largest, key=lambda name: -largest[name])[: len(PALETTE) - 1]
    rows: list[dict[str, object]] = []
    for name, one in zip(names, document.decode, strict=True):
        parts = {part.group: part.bytes for part in one.parts}
        drawn = {group: parts.get(group, 0.0) for group in shown}
        drawn["the rest"] = sum(parts.values()) - sum(drawn.values())
        rows += [
            {"name": name, "value": 1e3 * count / bandwidth, "kind": group, "at": at}
            for at, (group, count) in enumerate(drawn.items())
            if bandwidth and count > 0
        ]
    return Plot(
        title="Floor of a decode step by group",
        caption=f"Milliseconds: the bytes of each group divided by the memory bandwidth, {bandwidth / 1e9:,.5g} GB/s.",
        spec=_bars(rows, "ms a step", "streams × tokens each", "kind", names, many=len(names)),
    )


def _steps(document: CostDocument) -> Plot:
    assert document.prefix is not None
    shown = document.prefix.steps[:400]
    rows: list[dict[str, object]] = [
        {"step": one.step, "value": count, "kind": kind, "at": at}
        for one in shown
        for at, (kind, count) in enumerate((("cached", one.cached_tokens), ("processed", one.processed_tokens)))
    ]
    left = len(document.prefix.steps) - len(shown)
    return Plot(
        title="Tokens a step",
        caption=f"{document.prefix.unit.capitalize()}." + (f" The last {left:,} steps are not drawn." if left else ""),
        spec={
            "width": 560,
            "height": 240,
            "data": {"values": rows},
            "mark": {"type": "bar"},
            "encoding": {
                "x": {
                    "field": "step",
                    "type": "ordinal",
                    "title": "step",
                    "axis": {"labelOverlap": True, "labelAngle": 0},
                },
                "y": {"field": "value", "type": "quantitative", "title": "tokens", "stack": "zero"},
                "color": {"field": "kind", "type": "nominal", "title": None},
                "order": {"field": "at", "type": "quantitative"},
            },
        },
    )


def _heads(document: CostDocument) -> Plot:
    assert document.state is not None
    rows: list[dict[str, object]] = [
        {"layer": one.layer, "tau": tau, "kind": "f32" if kept else "bf16"}
        for one in document.state.layers
        for tau, kept in zip(one.tau_tokens, one.f32, strict=True)
        if tau is not None
    ]
    return Plot(
        title="Memory length of each head",
        caption="τ in tokens, at α = 0, on a logarithmic axis. KL divergence, not τ, decides which heads use bf16.",
        spec={
            "width": 560,
            "height": 260,
            "data": {"values": rows},
            "mark": {"type": "tick", "thickness": 2, "opacity": 1},
            "encoding": {
                "x": {
                    "field": "layer",
                    "type": "ordinal",
                    "title": "layer",
                    "axis": {"labelOverlap": True, "labelAngle": 0},
                },
                "y": {"field": "tau", "type": "quantitative", "title": "τ (tokens)", "scale": {"type": "log"}},
                "color": {"field": "kind", "type": "nominal", "title": None},
            },
        },
    )


def write_page(document: CostDocument, path: Path) -> None:
    """Write the page.

    Raises `MissingError` if the optional group `[plots]` is not installed, and `UsageError` if the file cannot be
    written.
    """
    try:
        replace_file(path, page_of(document).encode())
    except OSError as error:
        raise OutputUnwritable(f"{path} cannot be written: {error.strerror}") from error


def page_of(document: CostDocument) -> str:
    """Return the page as HTML. Every value is escaped. The plots are SVG images without scripts."""
    name = document.model.name if document.model is not None else "a model"
    return render_page(
        title=f"Minimum costs of {name}",
        about=list(about_lines(document)),
        sections=list(sections_of(document)),
        plots=list(plots_of(document)),
        notes=document.assumptions,
    )
