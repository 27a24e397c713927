"""A cost document as one HTML page without scripts: tables, static plots, and what the figures take for granted."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from patchstack.errors import MissingError, UsageError
from patchstack.files.atomic import replace_file
from patchstack.report.cost.plots import plots_of
from patchstack.report.cost.screen import about_lines, sections_of
from patchstack.report.documents.cost import CostDocument
from patchstack.report.text import printable


def write_page(document: CostDocument, path: Path) -> None:
    """Write the page. Raises `MissingError` without the group `[plots]`, `UsageError` if the file cannot be written."""
    try:
        replace_file(path, page_of(document).encode())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def page_of(document: CostDocument) -> str:
    """Return the page. Every value is escaped; pictures are drawn here and hold no script."""
    from patchstack.report.plots import require_plots, svg_of

    require_plots()
    if importlib.util.find_spec("jinja2") is None:
        raise MissingError(
            "pages need the package jinja2, and it is not installed", hint="pip install 'patchstack[plots]'"
        )
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, finalize=_plain, loader=None
    )
    template = environment.from_string((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))
    drawn = [
        {"title": one.title, "caption": one.caption, "svg": Markup(svg_of(one.spec, title=one.title))}  # noqa: S704  (ours)
        for one in plots_of(document)
    ]
    name = document.model.name if document.model is not None else "a model"
    return template.render(
        title=f"What {name} must cost",
        about=list(about_lines(document)),
        sections=list(sections_of(document)),
        plots=drawn,
        assumptions=document.assumptions,
    )


def _plain(value: object) -> object:
    """Control characters in names that others chose are spelled out."""
    return printable(value) if type(value) is str else value
