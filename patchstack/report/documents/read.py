"""Read the documents that commands print with `--json`, one document per line."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from patchstack.builds.record.record import BuildDocument
from patchstack.causes import InputUnreadable
from patchstack.document import Part, Printed
from patchstack.errors import PatchstackError
from patchstack.report.documents.canary import CanaryDocument
from patchstack.report.documents.gates import GatesDocument
from patchstack.report.documents.lint import LintDocument
from patchstack.report.documents.verify import VerifyDocument

_HINT = "use the --json output of verify, lint, canary, build or gate run, which is one document per line"


class ErrorEntry(Part, frozen=True, kw_only=True):
    """An error.

    `hint` is null if there is no hint. `exit` is the exit status. `code` is the code of the cause; it is empty in
    documents of older versions.
    """

    message: str
    hint: str | None
    exit: int
    code: str = ""


class FailedDocument(Printed, frozen=True, kw_only=True):
    """The document for a series that `verify` or `canary` could not examine.

    It is printed so that every series has a document, even after an error. It has the schema of the command that
    printed it. `holds` is a field of verify's schema, and `applies` is a field of canary's schema.
    """

    schema: Literal["patchstack.verify/1", "patchstack.canary/1"]
    series: str
    error: ErrorEntry
    holds: msgspec.UnsetType | None = msgspec.UNSET
    applies: msgspec.UnsetType | None = msgspec.UNSET

    @property
    def command(self) -> str:
        """The command that printed the document."""
        return _word(self.schema)


Answer: TypeAlias = VerifyDocument | LintDocument | CanaryDocument | BuildDocument | GatesDocument
Report: TypeAlias = Answer | FailedDocument

_TYPES = {kind.schema(): kind for kind in (VerifyDocument, LintDocument, CanaryDocument, BuildDocument, GatesDocument)}


class _Head(msgspec.Struct):
    """The fields that identify the type of the document on a line."""

    schema: str | None = None
    error: Any = None


def failed_verify(series: str, error: PatchstackError) -> FailedDocument:
    """Return the document for a series that could not be verified."""
    return FailedDocument(schema="patchstack.verify/1", series=series, error=_error(error), holds=None)


def failed_canary(series: str, error: PatchstackError) -> FailedDocument:
    """Return the document for a series that could not be examined on a newer upstream."""
    return FailedDocument(schema="patchstack.canary/1", series=series, error=_error(error), applies=None)


def _error(error: PatchstackError) -> ErrorEntry:
    return ErrorEntry(message=error.message, hint=error.hint, exit=int(error.exit_code), code=error.code)


def read_documents(text: str, where: str) -> list[Report]:
    """Read every document in a text, in order.

    Raises `UsageError` if a line is not a document, or does not match the schema that the document names.
    """
    documents: list[Report] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            documents.append(_read(line, f"{where}:{number}"))
    return documents


def _read(line: str, where: str) -> Report:
    try:
        head = msgspec.json.decode(line, type=_Head)
    except msgspec.ValidationError:
        head = _Head()
    except msgspec.DecodeError as error:
        raise InputUnreadable(f"{where}: not a JSON document: {error}", hint=_HINT) from error
    if head.schema not in _TYPES:
        raise InputUnreadable(f"{where}: the schema is not one of {', '.join(_TYPES)}", hint=_HINT)
    failed = head.error is not None
    kind: type[Report] = FailedDocument if failed else _TYPES[head.schema]
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.ValidationError as error:
        raise InputUnreadable(f"{where}: not a valid {head.schema} document: {error}", hint=_HINT) from error


def command_of(document: Report) -> str:
    """Return the command that printed a document."""
    if isinstance(document, FailedDocument):
        return document.command
    return "gate" if isinstance(document, GatesDocument) else _word(document.schema())


def _word(schema: str) -> str:
    return schema.removeprefix("patchstack.").partition("/")[0]


def subject_of(document: Report) -> str:
    """Return the subject of a document: the series, the suite, or the variant that was built."""
    if isinstance(document, GatesDocument):
        return document.suite
    return document.variant if isinstance(document, BuildDocument) else document.series
