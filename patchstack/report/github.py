"""Write for a GitHub runner: annotations as workflow commands, outputs, and text that the runner must not interpret.

A runner treats every line of a step's output that starts with `::`, or contains `##[`, as a command if it knows the
command's name (actions/runner, `ActionCommand.cs`). Subjects, file names and reasons are untrusted: in commands they
are escaped, and all other output is printed between `stop-commands` and its token.
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
    """The severity of an annotation. The worst is the first."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A remark on a line of a file.

    `file` is relative to the repository's root; None if the remark is not about a file. `line` counts from 1.
    """

    level: Level
    title: str
    message: str
    file: str | None = None
    line: int | None = None

    @property
    def command(self) -> str:
        """Return the workflow command. It is always one line."""
        properties = {"file": self.file, "line": None if self.line is None else str(self.line), "title": self.title}
        told = ",".join(f"{name}={_property(_line(value))}" for name, value in properties.items() if value is not None)
        return f"::{self.level} {told}::{_data(printable(self.message))}"


def commands(annotations: Sequence[Annotation], shown: int = SHOWN) -> Iterator[str]:
    """Yield the commands of annotations, the worst first.

    At most `shown` annotations of each level are printed. The last line states how many were omitted.
    """
    for level in Level:
        chosen = [one for one in annotations if one.level is level]
        yield from (one.command for one in chosen[:shown])
        if len(chosen) > shown:
            told = f"and {len(chosen) - shown} more of level {level}: see the summary"
            yield Annotation(level=Level.NOTICE, title="patchstack", message=told).command


@contextmanager
def stopped(say: Callable[[str], None]) -> Iterator[None]:
    """Stop the runner from reading commands inside the block.

    The token is random, so the printed text cannot end the block.
    """
    token = secrets.token_hex(24)
    say(f"::stop-commands::{token}")
    try:
        yield
    finally:
        say(f"::{token}::")


def write_values(path: Path, values: Mapping[str, str]) -> None:
    """Append to a file of outputs or variables (`GITHUB_OUTPUT`), each with an unpredictable delimiter."""
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
