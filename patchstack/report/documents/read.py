"""The documents that commands print with `--json`, read back: one a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from patchstack.errors import UsageError

Document = dict[str, Any]
T = TypeVar("T")

VERIFY, LINT, CANARY = "patchstack.verify/1", "patchstack.lint/1", "patchstack.canary/1"
BUILD, GATES = "patchstack.build/1", "patchstack.gates/1"
KNOWN = (VERIFY, LINT, CANARY, BUILD, GATES)


def read_documents(text: str, where: str) -> list[Document]:
    """Every document of a text, in order. Raises `UsageError` for a line that is none, or is of an unknown schema."""
    documents: list[Document] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{where}:{number}: not a JSON document: {error}", hint=_HINT) from error
        schema = document.get("schema") if isinstance(document, dict) else None
        if schema not in KNOWN:
            raise UsageError(f"{where}:{number}: not a document of {', '.join(KNOWN)}", hint=_HINT)
        documents.append(document)
    return documents


_HINT = "it reads what verify, lint, canary, build and gate run print with --json: one document a line"


@contextmanager
def understood(document: Document) -> Iterator[None]:
    """What is missing in a document, or is of another kind than its schema says, is the document's fault."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        told = f"has no {error}" if isinstance(error, KeyError) else f"cannot be understood: {error}"
        raise UsageError(f"a document {document.get('schema')} {told}", hint=_HINT) from error


def each(documents: list[Document], make: Callable[[Document], T]) -> list[T]:
    """What is made of every document."""
    made = []
    for document in documents:
        with understood(document):
            made.append(make(document))
    return made


def title(document: Document) -> str:
    """The command that printed it."""
    return {VERIFY: "verify", LINT: "lint", CANARY: "canary", BUILD: "build", GATES: "gate"}[document["schema"]]
