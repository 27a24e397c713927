"""Write docs/reference/schemas/: the JSON Schema of every document that patchstack prints; or --check them.

They are made from the types in patchstack/report/documents/.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from pathlib import Path

import msgspec
from document import kept

import patchstack.report.documents as documents

TARGET = Path(__file__).parent.parent / "docs" / "reference" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def every_type() -> list[type[documents.Document]]:
    """Every type of a document, by the name of its schema."""
    for module in pkgutil.iter_modules(documents.__path__, f"{documents.__name__}."):
        importlib.import_module(module.name)
    found = documents.Document.__subclasses__()
    for kind in found:
        found += kind.__subclasses__()
    return sorted({kind for kind in found if kind.__struct_config__.tag is not None}, key=lambda kind: kind.schema())


def file_name(schema: str) -> str:
    """`verify-1.json` for `patchstack.verify/1`."""
    return schema.removeprefix("patchstack.").replace("/", "-") + ".json"


def text_of(kind: type[documents.Document]) -> str:
    """The schema of one type."""
    return json.dumps({"$schema": DIALECT, **msgspec.json.schema(kind)}, indent=2) + "\n"


def main() -> int:
    """Exit status: 0 written or up to date, 1 out of date."""
    made = {file_name(kind.schema()): text_of(kind) for kind in every_type()}
    stale = [path for path in TARGET.glob("*.json") if path.name not in made]
    if "--check" not in sys.argv:
        for path in stale:
            path.unlink()
    for path in stale if "--check" in sys.argv else ():
        print(f"{path} is of no document: make docs", file=sys.stderr)
    wrong = [kept(TARGET / name, text) for name, text in made.items()]
    return int(any(wrong) or ("--check" in sys.argv and bool(stale)))


if __name__ == "__main__":
    sys.exit(main())
