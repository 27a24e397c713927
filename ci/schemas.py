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

from patchstack.document import Document
from patchstack.report import documents
from patchstack.report.documents.lint import LintRules
from patchstack.report.documents.read import FailedDocument

TARGET = Path(__file__).parent.parent / "docs" / "reference" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Other forms that documents of a schema can have.
MORE: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "patchstack.verify/1": (FailedDocument,),
    "patchstack.canary/1": (FailedDocument,),
    "patchstack.lint/1": (LintRules,),
}


def every_type() -> list[type[Document]]:
    """Return every type of a document, by the name of its schema."""
    importlib.import_module("patchstack.workflow.sync.document")  # a sync stores its document as a record
    for module in pkgutil.iter_modules(documents.__path__, f"{documents.__name__}."):
        importlib.import_module(module.name)
    found = Document.__subclasses__()
    for kind in found:
        found += kind.__subclasses__()
    return sorted(set(found), key=lambda kind: kind.schema())


def file_name(schema: str) -> str:
    """Return the file name of a schema: `verify-1.json` for `patchstack.verify/1`."""
    return schema.removeprefix("patchstack.").replace("/", "-") + ".json"


def schema_of(kind: type[Document]) -> dict[str, object]:
    """Return the JSON Schema of one document, with all its forms."""
    more = MORE.get(kind.schema(), ())
    if not more:
        return {"$schema": DIALECT, **msgspec.json.schema(kind)}
    forms, parts = msgspec.json.schema_components([kind, *more], ref_template="#/$defs/{name}")
    return {"$schema": DIALECT, "anyOf": list(forms), "$defs": parts}


def text_of(kind: type[Document]) -> str:
    """Return the text of one schema's file."""
    return json.dumps(schema_of(kind), indent=2) + "\n"


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
