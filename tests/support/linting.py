"""Helpers for the tests of lint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from patchstack.git.objects import Objects
from patchstack.series.files.directory import load_series
from patchstack.series.lint.runner import LintResult, lint
from patchstack.workspace import LintPolicy, Waiver
from tests.support.builders import Fork

Linted = Callable[..., LintResult]
KEY = "AKIA" + "Q7ZK3M2X9P1L5R8T"


def of(fork: Fork, policy: LintPolicy | None = None, waivers: tuple[Waiver, ...] = ()) -> LintResult:
    objects = Objects()
    objects.add_directory(Path(fork.upstream.repo.path) / "objects", "upstream")
    return lint(objects, load_series(fork.series), objects.commit(fork.pin), policy or LintPolicy(), waivers)


def told(result: LintResult) -> list[tuple[str, int | None, str]]:
    return [(finding.rule, finding.number, finding.message) for finding in result.findings]


def line_of(fork_directory: Path, result: LintResult, place: int = 0) -> str:
    """Return the line of the patch file a finding points at."""
    finding = result.findings[place]
    return (fork_directory / "patches" / finding.file).read_bytes().split(b"\n")[finding.line - 1].decode()


def rename(old: int, name: str) -> Callable[[Fork], object]:
    return lambda fork: fork.patch(old).rename(fork.series / name)
