"""Write annotations, outputs and untrusted text for a GitHub runner.

A runner interprets a line of a step's output as a command if the line starts with `::` or contains `##[`, followed by
the name of a known command. Subjects, file names and reasons are untrusted. In commands they are escaped. All other
output is printed between `stop-commands` and its token, so that the runner does not interpret it.

Source: actions/runner, `ActionCommand.cs`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from patchstack.report.text import printable

# GitHub shows only the first 10 annotations of a level in a step, and 50 in a job.
SHOWN = 50


class Level(StrEnum):
    """The severity of an annotation, most severe first."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A remark on a line of a file.

    `file` is relative to the repository's root. It is None if the remark is not about a file. `line` is counted from 1.
    """

    level: Level
    title: str
    message: str
    file: str | None = None
    line: int | None = None

    @property
    def command(self) -> str:
        """The workflow command, which is always one line."""
        properties = {"file": self.file, "line": None if self.line is None else str(self.line), "title": self.title}
        told = ",".join(f"{name}={_property(_line(value))}" for name, value in properties.items() if value is not None)
        return f"::{self.level} {told}::{_data(printable(self.message))}"


def commands(annotations: Sequence[Annotation], shown: int = SHOWN) -> Iterator[str]:
    """Yield the commands of annotations, most severe first.

    Each level has at most `shown` annotations. If some are omitted, a notice says how many.
    """
    for level in Level:
        chosen = [one for one in annotations if one.level is level]
        yield from (one.command for one in chosen[:shown])
        if len(chosen) > shown:
            told = f"{len(chosen) - shown} more annotations of level {level} are omitted: see the summary"
            yield Annotation(level=Level.NOTICE, title="patchstack", message=told).command


@contextmanager
def stopped(say: Callable[[str], None]) -> Iterator[None]:
    """Stop the runner from interpreting output as commands while the block runs.

    The token that resumes commands is random, so untrusted output cannot contain it.
    """
    token = secrets.token_hex(24)
    say(f"::stop-commands::{token}")
    try:
        yield
    finally:
        say(f"::{token}::")


def write_values(path: Path, values: Mapping[str, str]) -> None:
    """Append values to a file of outputs or variables, such as `GITHUB_OUTPUT`.

    Each value has an unpredictable delimiter, so that untrusted values cannot contain it.
    """
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
