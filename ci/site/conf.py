"""Configure Sphinx for the site of the documentation: `make site` writes it to build/site."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
# Pages that show a file from outside of docs/: the page, and the file.
SHOWN = {
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "reference/builders": "builders/README.md",
    "reference/patches": "patches/README.md",
}
LINK = re.compile(r"(?<!`)\[([^\]\n]*)\]\(([^)\s:#]+)(#[^)\s]*)?\)")

project = "patchstack"
author = "the authors of patchstack"
project_copyright = "the authors of patchstack, MIT licence"
release = re.findall(r'(?m)^__version__ = "([^"]+)"', (ROOT / "patchstack" / "__init__.py").read_text("utf-8"))[0]

extensions = ["myst_parser"]
nitpicky = True
# Gates read this text, and the ledger has its bytes. The page for readers is explanation/concepts.md.
exclude_patterns = ["concepts.md", "recorded"]

# Markdown as GitHub reads it: the same files are read there.
myst_enable_extensions = ["alert", "tasklist"]
myst_heading_anchors = 6
myst_number_code_blocks: list[str] = []
# No lexer knows what programs print: console blocks are shown as they are.
highlight_language = "none"

html_theme = "furo"
html_title = f"patchstack {release}"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}


def at(page: str, text: str, source: Path) -> str:
    """Return the text of a file as a page of the site. Links start from the page, and lead to pages of the site if
    possible.

    A link to a directory becomes plain text: the site has no listings.
    """
    pages = {(ROOT / file).resolve(): DOCS / f"{name}.md" for name, file in SHOWN.items()}

    def link(match: re.Match[str]) -> str:
        label, target, anchor = match.group(1), match.group(2), match.group(3) or ""
        file = Path(os.path.normpath(source.parent / target))
        if file.is_dir():
            return label
        file = pages.get(file, file)
        return f"[{label}]({os.path.relpath(file, (DOCS / page).parent)}{anchor})"

    return LINK.sub(link, text)


def read_source(app: Any, page: str, content: list[str]) -> None:
    """Insert the file that a page shows, and adjust its links."""
    source = ROOT / SHOWN[page] if page in SHOWN else DOCS / f"{page}.md"
    text = source.read_text("utf-8") if page in SHOWN else content[0]
    if page == "examples/ci/step-summary":  # a part of a page: its headings are of the third level
        text = f"# The summary of a step\n\n## Written by the action\n\n{text}"
    content[0] = at(page, text, source)


def setup(app: Any) -> dict[str, bool]:
    """Register the event handlers. Sphinx calls this."""
    app.connect("source-read", read_source)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
