"""Compare documents that tests have printed with the JSON Schemas of the reference."""

from __future__ import annotations

import functools
import json
from typing import Any

from tests.support.checkout import ROOT

_SCHEMAS = ROOT / "docs" / "reference" / "schemas"


@functools.cache
def _validator(schema: str) -> Any:
    from jsonschema import Draft202012Validator

    path = _SCHEMAS / (schema.removeprefix("patchstack.").replace("/", "-") + ".json")
    found = json.loads(path.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found)


def against_schema(document: Any) -> None:
    """Raise `jsonschema.ValidationError` for a document that does not match its schema, and `FileNotFoundError` if the
    reference lacks its schema. Values without a schema are ignored."""
    if isinstance(document, dict) and isinstance(document.get("schema"), str):
        _validator(document["schema"]).validate(document)
