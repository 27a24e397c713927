"""Draw docs/pipeline.svg and docs/prefix-trees.svg from the text below; or --check them.

The pictures contain colours for light and dark mode, because a page cannot style a picture that it shows as an image.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

from document import kept

DOCS = Path(__file__).parent.parent / "docs"
STYLE = """<style>
  svg { font: 15px system-ui, sans-serif; }
  .box { fill: #f2f5f9; stroke: #5a6b80; stroke-width: 1.5; }
  .good { fill: #e3f3e6; stroke: #2c7a3f; stroke-width: 1.5; }
  .text { fill: #17202b; }
  .note { fill: #47566a; font-size: 13px; }
  .line { stroke: #5a6b80; stroke-width: 1.5; fill: none; }
  .tip { fill: #5a6b80; }
  @media (prefers-color-scheme: dark) {
    .box { fill: #1d2733; stroke: #8fa3bb; }
    .good { fill: #17321f; stroke: #6fc485; }
    .text { fill: #e8eef5; }
    .note { fill: #b3c0d0; }
    .line { stroke: #8fa3bb; }
    .tip { fill: #8fa3bb; }
  }
</style>
"""

# The boxes of the pipeline: its name, the command that makes it, and what the command proves.
PIPELINE = [
    ("fork", "git", "one commit a patch"),
    ("series", "export, verify", "same trees as the fork"),
    ("build", "build", "the right GPU code"),
    ("gates", "gate run", "same model output"),
    ("ledger", "accept, reject", "why, and the evidence"),
]
# A series of three patches: the label of each tree, and the id on both sides.
TREES = [("pin", "5d75007"), ("+ 0001", "5cfe359"), ("+ 0002", "4babf0e"), ("+ 0003", "9ef6ffa")]


def text(x: int, y: int, words: str, kind: str = "text") -> str:
    """Return centred text."""
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="middle">{escape(words)}</text>\n'


def box(x: int, y: int, wide: int, high: int, kind: str = "box") -> str:
    """Return a rounded box."""
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{wide}" height="{high}" rx="8"/>\n'


def arrow(x: int, y: int, length: int) -> str:
    """Return an arrow to the right."""
    end = x + length
    return (
        f'<path class="line" d="M{x} {y}H{end - 8}"/>'
        f'<path class="tip" d="M{end} {y}l-9 -5v10z"/>\n'
    )  # fmt: skip


def picture(wide: int, high: int, title: str, body: str) -> str:
    """Return the SVG of a picture."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" '
        f'role="img" aria-label="{escape(title)}">\n<title>{escape(title)}</title>\n{STYLE}{body}</svg>\n'
    )


def pipeline() -> str:
    """Return the pipeline: fork, series, build, gates, ledger."""
    body = ""
    for place, (name, command, proves) in enumerate(PIPELINE):
        x = 10 + place * 172
        body += box(x, 34, 132, 48) + text(x + 66, 63, name)
        body += text(x + 66, 22, command, "note") + text(x + 66, 104, proves, "note")
        if place:
            body += arrow(x - 38, 58, 36)
    return picture(850, 120, "fork, series, build, gates, ledger: each made from the one before, each proven", body)


def trees() -> str:
    """Return the trees of a series next to those of its fork."""
    body = text(48, 58, "series", "note") + text(48, 158, "fork", "note")
    for place, (name, tree) in enumerate(TREES):
        x = 110 + place * 172
        for y in (30, 130):
            body += box(x, y, 132, 48, "good") + text(x + 66, y + 20, name if y == 30 or not place else "commit")
            body += text(x + 66, y + 38, tree, "note")
            if place:
                body += arrow(x - 38, y + 24, 36)
        body += text(x + 66, 110, "=")
    return picture(770, 200, "the tree of each prefix of the series equals the tree of the fork's commit", body)


if __name__ == "__main__":
    sys.exit(kept(DOCS / "pipeline.svg", pipeline()) | kept(DOCS / "prefix-trees.svg", trees()))
