"""A build's log, taken apart: what each failing job printed, and what was printed outside of ninja's jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_LINES = 100_000  # of one part; what is beyond them is not looked at
_WIDTH = 4_000  # characters of a line, unless it is a command
_ESCAPES = re.compile(r"\x1b\[[0-9;:]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_STEP = re.compile(r"\[\d+/\d+\] ")
_FAILED = re.compile(r"FAILED: (?:\[code=\d+\] )?(\S*)")
_NINJA = re.compile(r"ninja: ")
_MAKE = re.compile(r"g?make(?:\[\d+\])?: \*\*\* \[(?:.*:\d+: )?(.+)\] Error \d+")


@dataclass(slots=True, kw_only=True)
class JobOutput:
    """What one job printed. `target` is its first output, `command` its command line."""

    lines: list[str] = field(default_factory=list)
    target: str | None = None
    command: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildLog:
    """`failed` are ninja's jobs that failed, in order. `outside` is all else: CMake's lines, make's, ninja's own; not
    the output of jobs that succeeded. `target` is the first that make gave up."""

    failed: tuple[JobOutput, ...]
    outside: list[str]
    target: str | None


def read_log(log: Iterable[str]) -> BuildLog:
    """Take a log apart. ninja prints a job's output in one piece, after `[k/n] what` and, where it failed, `FAILED:`
    and the command; jobs at the console (CMake run anew, downloads) have those after their output."""
    failed: list[JobOutput] = []
    outside: list[str] = []
    target = None
    job: JobOutput | None = None
    command_next = False
    for raw in log:
        line = _ESCAPES.sub("", (raw if command_next else raw[:_WIDTH]).rstrip("\r\n"))
        if command_next and job is not None:
            job.command, command_next = line, False
        elif _STEP.match(line):
            job = JobOutput()
        elif match := _FAILED.match(line):
            if job is None or job.failed:
                job = JobOutput()
            job.target, job.failed, command_next = match[1] or None, True, True
            failed.append(job)
        elif job is None or _NINJA.match(line):
            job = None
            if match := _MAKE.match(line):
                target = target or match[1]
            if len(outside) < _LINES:
                outside.append(line)
        elif len(job.lines) < _LINES:
            job.lines.append(line)
    return BuildLog(failed=tuple(failed), outside=outside, target=target)
