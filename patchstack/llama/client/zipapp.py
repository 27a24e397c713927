"""Build the client as one file for Python 3.11 or newer. Equal sources produce identical files."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

_START = b"""import sys

if sys.version_info < (3, 11):
    sys.exit("failed the client needs Python 3.11 or newer, and this is " + sys.version.split()[0])
from patchstack.llama.client.main import main

sys.exit(main(sys.argv[1:]))
"""
_DATE = (1980, 1, 1, 0, 0, 0)


def client_file() -> bytes:
    """Return the zipapp of the client as bytes."""
    here = Path(__file__).parent
    files = {"__main__.py": _START}
    for package in ("patchstack", "patchstack/llama"):
        files[f"{package}/__init__.py"] = b""
    for path in sorted(here.glob("*.py")):
        if path.name != Path(__file__).name:
            files[f"patchstack/llama/client/{path.name}"] = path.read_bytes()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()
