"""Documents that tests print are checked with the schemas of the reference, and an invalid one is reported."""

from __future__ import annotations

import pytest
from jsonschema import ValidationError

from tests.support.schemas import against_schema
from tests.unit.report.documents.test_read import BUILD, GATES


def test_documents_that_keep_their_schema_pass() -> None:
    against_schema(BUILD)
    against_schema(GATES)
    against_schema({"no": "schema"})


def test_a_document_whose_schema_is_not_in_the_reference_is_told() -> None:
    with pytest.raises(FileNotFoundError):
        against_schema({"schema": "patchstack.nothing/1"})


@pytest.mark.parametrize("spoiled", [{**BUILD, "key": 7}, {name: BUILD[name] for name in BUILD if name != "proofs"}])
def test_a_document_that_breaks_its_schema_is_told(spoiled: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        against_schema(spoiled)
