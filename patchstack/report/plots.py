"""Draw Vega-Lite specifications as static SVG.

This needs the optional group `[plots]`. A picture contains no script and loads no other files. On a page, its text and
axes have the text colour of the page (`currentColor`). In a separate file, they follow the light or dark scheme of the
reader's system. The colours of `PALETTE` are readable in both schemes.

Sources: https://vega.github.io/vega-lite/docs/ and the package vl-convert-python, which runs Vega without a browser.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape

from patchstack.canonical import canonical
from patchstack.causes import PackageMissing
from patchstack.installed import install_hint
from patchstack.report.text import printable

VEGA_LITE = "5.21"
"""The version of Vega-Lite for which the specifications are written.

It is fixed, so that pictures change only if this version or the package changes.
"""

PALETTE = ("#3b7fd4", "#c96a0a", "#2b8f67", "#b5519a", "#8a6cd0", "#a3800f", "#cf4f4a", "#4b8a9b")
"""The colours for the data series of a plot.

Each has a contrast ratio of at least 3 with white and with the background of a dark page.
"""

_FONTS = {
    "sans-serif": "system-ui, -apple-system, 'Segoe UI', sans-serif",
    "monospace": "ui-monospace, Menlo, 'DejaVu Sans Mono', monospace",
}
# The reader's fonts may differ from the fonts used for the layout. A monospace font keeps the widths of texts, because
# in nearly all monospace fonts the width of a character is 0.6 times the font size.
_MONO = "monospace"
_STYLE = (
    "svg:root{color-scheme:light dark;color:#1f2328}"
    "@media (prefers-color-scheme:dark){svg:root{color:#e6edf3}}"
    ".patchstack-plot{max-width:100%;height:auto}"
)
_AXIS = {
    "labelColor": "currentColor",
    "titleColor": "currentColor",
    "domainColor": "currentColor",
    "tickColor": "currentColor",
    "gridColor": "currentColor",
    "gridOpacity": 0.15,
    "labelFont": _MONO,
    "titleFont": _MONO,
    "labelFontSize": 11,
    "titleFontSize": 11,
    "titleFontWeight": "normal",
    "labelLimit": 320,
}
_CONFIG: dict[str, object] = {
    "axis": _AXIS,
    "legend": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "labelFont": _MONO,
        "titleFont": _MONO,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "labelLimit": 320,
        "orient": "top",
        "columns": 2,
    },
    "header": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "labelFont": _MONO,
        "titleFont": _MONO,
        "labelFontSize": 11,
        "titleFontSize": 11,
    },
    "title": {
        "color": "currentColor",
        "subtitleColor": "currentColor",
        "fontSize": 13,
        "font": _MONO,
        "subtitleFont": _MONO,
        "subtitleFontSize": 11,
        "anchor": "start",
    },
    "text": {"color": "currentColor", "font": _MONO, "fontSize": 11},
    "rule": {"color": "currentColor"},
    "view": {"stroke": None},
    "range": {"category": list(PALETTE)},
    "mark": {"color": PALETTE[0]},
}
_MARK = re.compile(r"""(<path aria-label="([^"]*)" role="graphics-symbol"[^>]*?)(?:/>|></path>)""")
_ID = re.compile(r"""(\bid="|url\(#|xlink:href="#)([A-Za-z_][\w-]*)""")


def require_plots() -> None:
    """Raise `MissingError` if the package that draws plots is not installed. Call this before a long computation."""
    if importlib.util.find_spec("vl_convert") is None:
        raise PackageMissing(
            "plots need the package vl-convert-python, which is not installed", hint=install_hint("plots")
        )


def svg_of(spec: Mapping[str, object], *, title: str) -> str:
    """Draw a Vega-Lite specification, and return the SVG.

    The same specification always produces the same bytes. `title` is the text for screen readers. The specification
    must contain its data, because URLs are not loaded. The channel `description` of a mark becomes its tooltip.

    Raises `MissingError` if the package that draws plots is not installed, and `ValueError` if the specification is
    invalid.
    """
    require_plots()
    import vl_convert

    whole = _clean({"background": None, "padding": 10, **spec, "config": {**_CONFIG, **_mapping(spec.get("config"))}})
    drawn: str = vl_convert.vegalite_to_svg(whole, vl_version=VEGA_LITE, allowed_base_urls=[])
    name = hashlib.sha256(canonical(whole)).hexdigest()[:8]
    # Vega numbers ids in each process. Renumber them in each picture, because two pictures on a page must not share
    # ids.
    numbers: dict[str, int] = {}
    drawn = _ID.sub(lambda found: f"{found[1]}p{name}-{numbers.setdefault(found[2], len(numbers))}", drawn)
    head, _, body = drawn.partition(">")
    head = head.replace('class="marks"', 'class="patchstack-plot" role="img"')
    words = escape(_text(title))
    body = _MARK.sub(r"\1><title>\2</title></path>", body)
    return f"{head}><title>{words}</title><style>{_STYLE}</style>{_with_font(body)}\n"


def _with_font(body: str) -> str:
    for plain, several in _FONTS.items():
        body = body.replace(f'font-family="{plain}"', f'font-family="{several}"')
    return body


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _clean(value: object) -> Any:
    """Escape control characters in the strings of a specification, because Vega would crash on these characters."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return {_text(str(name)): _clean(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(one) for one in value]
    return value


def _text(text: str) -> str:
    return printable(" ".join(text.splitlines()).replace("\t", " "))
