"""What a GitHub runner reads: annotations as workflow commands, outputs, and text that must not be taken for either.

A runner takes every line of a step's output that starts with `::`, or holds `##[`, for a command where it knows the
command's name (actions/runner, `ActionCommand.cs`). Subjects, file names and reasons are written by others: they go
into commands escaped, and everything else that is printed is between `stop-commands` and its token.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from patchstack.report.text import printable

# What a log should hold: the interface shows the first ten of a level and step, and fifty of a job.
SHOWN = 50


class Level(StrEnum):
    """How bad it is, worst first."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A remark on a line of a file. `file` is taken from the repository's root, None for a remark on no file; `line` is
    1-based."""

    level: Level
    title: str
    message: str
    file: str | None = None
    line: int | None = None

    @property
    def command(self) -> str:
        """The workflow command: one line, whatever is in it."""
        properties = {"file": self.file, "line": None if self.line is None else str(self.line), "title": self.title}
        told = ",".join(f"{name}={_property(_line(value))}" for name, value in properties.items() if value is not None)
        return f"::{self.level} {told}::{_data(printable(self.message))}"


def commands(annotations: Sequence[Annotation], shown: int = SHOWN) -> Iterator[str]:
    """The commands of annotations, the worst first, so many of each level, and how many were left out."""
    for level in Level:
        chosen = [one for one in annotations if one.level is level]
        yield from (one.command for one in chosen[:shown])
        if len(chosen) > shown:
            told = f"and {len(chosen) - shown} more of level {level}: see the summary"
            yield Annotation(level=Level.NOTICE, title="patchstack", message=told).command


@contextmanager
def stopped(say: Callable[[str], None]) -> Iterator[None]:
    """No line said inside is taken for a command. The token is random: what is said cannot end it."""
    token = secrets.token_hex(24)
    say(f"::stop-commands::{token}")
    try:
        yield
    finally:
        say(f"::{token}::")


def write_values(path: Path, values: Mapping[str, str]) -> None:
    """Append to a file of outputs or variables (`GITHUB_OUTPUT`), each with a delimiter that nobody can foresee."""
    with path.open("a", encoding="utf-8") as out:
        for name, value in values.items():
            delimiter = f"patchstack-{secrets.token_hex(16)}"
            out.write(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")


def _line(text: str) -> str:
    return printable(text.replace("\r", "\\r").replace("\n", "\\n"))


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
