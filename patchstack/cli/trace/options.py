"""Define options that the commands of `patchstack trace` share."""

from __future__ import annotations

import io
import sys
from typing import IO, Annotated

import typer

LogsArgument = Annotated[
    list[str], typer.Argument(metavar="LOG", help="Logs: files, directories of logs, or - for standard input.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Print every row.")]
DecodeOption = Annotated[
    int,
    typer.Option("--decode-tokens", metavar="N", min=1, help="The maximum number of tokens in a decode-like call."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print a patchstack.trace/1 document.")]


def standard_input() -> IO[bytes]:
    """Return standard input as a binary stream, or an empty stream if standard input is closed."""
    return sys.stdin.buffer if sys.stdin is not None else io.BytesIO()
