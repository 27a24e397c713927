"""Plots are static, deterministic, readable on light and dark pages, and safe for all data."""

from __future__ import annotations

import importlib.util
import itertools
import re
import xml.etree.ElementTree as ElementTree

import pytest

from patchstack.errors import MissingError
from patchstack.installed import install_hint
from patchstack.report.plots import PALETTE, require_plots, svg_of


def spec(*labels: str) -> dict[str, object]:
    return {
        "width": 200,
        "height": {"step": 20},
        "data": {"values": [{"label": label, "calls": 3 + at} for at, label in enumerate(labels)]},
        "mark": {"type": "bar", "clip": True},
        "encoding": {
            "x": {"field": "calls", "type": "quantitative"},
            "y": {"field": "label", "type": "nominal"},
            "color": {"field": "label", "type": "nominal"},
        },
    }


def test_the_same_specification_gives_the_same_bytes() -> None:
    first = svg_of(spec("mmq", "vec_q"), title="calls")
    svg_of(spec("between"), title="another")
    assert svg_of(spec("mmq", "vec_q"), title="calls") == first


def test_two_pictures_in_one_page_share_no_name() -> None:
    one, other = (set(re.findall(r'id="([^"]+)"', svg_of(spec(word), title=word))) for word in ("mmq", "vec_q"))
    assert one and other and not one & other


def test_names_that_are_used_are_defined() -> None:
    drawn = svg_of(spec("mmq"), title="calls")
    used = set(re.findall(r"url\(#([^)]+)\)", drawn))
    assert used and used <= set(re.findall(r'id="([^"]+)"', drawn))


@pytest.mark.parametrize(
    "label", ["<script>alert(1)</script>", 'a"b&c', "nul\x00", "esc\x1b[31m", "\ud800", "\ufffe", "a\nb"]
)
def test_a_hostile_label_is_text(label: str) -> None:
    drawn = svg_of(spec(label, "mmq"), title=label)
    root = ElementTree.fromstring(drawn)  # noqa: S314  (our own output)
    assert "script" not in {element.tag.rpartition("}")[2] for element in root.iter()}
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", drawn)


def test_nothing_is_loaded() -> None:
    drawn = svg_of(spec("mmq"), title="calls")
    assert not re.search(r'(?:href|src)="(?!#)', drawn)
    with pytest.raises(ValueError, match="not allowed"):
        svg_of({**spec("mmq"), "data": {"url": "http://127.0.0.1:9/data.json"}}, title="calls")


def test_text_takes_the_colour_of_the_page() -> None:
    drawn = svg_of(spec("mmq"), title="calls by route")
    assert set(re.findall(r'<text [^>]*fill="([^"]+)"', drawn)) == {"currentColor"}
    assert "<title>calls by route</title>" in drawn
    assert "prefers-color-scheme:dark" in drawn


def contrast(colour: str, other: str) -> float:
    """Return WCAG 2's contrast ratio of two colours."""

    def luminance(text: str) -> float:
        parts = [int(text[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(colour), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_every_colour_is_readable_on_light_and_dark() -> None:
    assert len(set(PALETTE)) == len(PALETTE)
    for colour, page in itertools.product(PALETTE, ("#ffffff", "#0d1117", "#121212")):
        assert contrast(colour, page) >= 3, (colour, page)


def test_a_missing_package_is_said_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "vl_convert" else found(name))
    with pytest.raises(MissingError, match="vl-convert-python") as caught:
        require_plots()
    assert caught.value.hint == install_hint("plots")
