"""Every JSON document has a type; its schema is in the reference."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator

import msgspec
import pytest

from patchstack.document import Document, Part
from patchstack.report import documents
from patchstack.report.documents.suites import SuiteEntry, SuiteGate, SuitesDocument
from tests.support.checkout import ROOT


def _types(base: type[Document] | type[Part]) -> Iterator[type[Document] | type[Part]]:
    for module in pkgutil.iter_modules(documents.__path__, f"{documents.__name__}."):
        importlib.import_module(module.name)
    for kind in base.__subclasses__():
        yield kind
        yield from _types(kind)


def test_a_document_names_its_schema_first_of_all_and_is_one_line_of_sorted_keys() -> None:
    gates = (SuiteGate(name="greedy", kind="completion"),)
    document = SuitesDocument(suites=(SuiteEntry(suite="quick", what="", gates=gates),))
    assert SuitesDocument.schema() == "patchstack.suites/1"
    assert document.line == (
        '{"schema": "patchstack.suites/1", "suites": '
        '[{"gates": [{"kind": "completion", "name": "greedy"}], "suite": "quick", "what": ""}]}'
    )
    assert msgspec.json.decode(document.line, type=SuitesDocument) == document


def test_a_document_of_another_schema_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"Invalid value 'patchstack\.gates/1'"):
        msgspec.json.decode('{"schema": "patchstack.gates/1", "suites": []}', type=SuitesDocument)


@pytest.mark.parametrize("kind", [*_types(Document), *_types(Part)], ids=lambda kind: kind.__name__)
def test_every_type_is_frozen_takes_names_alone_and_says_what_it_is(kind: type[Document] | type[Part]) -> None:
    assert kind.__struct_config__.frozen
    assert kind.__doc__
    with pytest.raises(TypeError, match="positional"):
        kind(1)


def test_every_schema_belongs_to_one_type_and_is_in_the_reference() -> None:
    names = [kind.__struct_config__.tag for kind in _types(Document)]
    assert len(set(names)) == len(names)
    for name in names:
        path = ROOT / "docs/reference/schemas" / (str(name).removeprefix("patchstack.").replace("/", "-") + ".json")
        schema = json.loads(path.read_text(encoding="utf-8"))
        form = schema.get("anyOf", [schema])[0]["$ref"].rsplit("/", 1)[1]
        assert schema["$defs"][form]["properties"]["schema"] == {"enum": [name]}
