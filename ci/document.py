"""Write a generated document, or compare it with the file with --check."""

from __future__ import annotations

import sys
from pathlib import Path


def kept(target: Path, text: str) -> int:
    """Exit status: 0 written or up to date, 1 out of date."""
    if "--check" not in sys.argv:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return 0
    if not target.is_file() or target.read_text(encoding="utf-8") != text:
        print(f"{target} is out of date: make docs", file=sys.stderr)
        return 1
    return 0
