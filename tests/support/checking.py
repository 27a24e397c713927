"""Checks on trees of small repositories."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

from patchstack.checks.model import Check, Found
from patchstack.checks.read import read_checks
from patchstack.checks.run import Checker, OpenEngine, no_engine
from patchstack.errors import ConfigError
from patchstack.git.objects import Objects
from patchstack.workspace import SeriesConfig, read_workspace
from tests.support.builders import Changes, RepoBuilder

HEAD = f"""\
series:
  mine:
    patches: patches
    upstream: upstream
    pin: {"a" * 40}
    checks:
"""


def a_workspace(directory: Path, checks: str) -> Path:
    """Return a workspace file with these checks, a YAML list."""
    path = directory / "patchstack.yaml"
    path.write_text(HEAD + indent(dedent(checks), "      "))
    return path


def a_config(directory: Path, checks: str) -> SeriesConfig:
    """Return a series with these checks."""
    return read_workspace(a_workspace(directory, checks)).series[0]


def a_check(directory: Path, text: str) -> Check:
    """Return the one check of a text."""
    (check,) = read_checks(a_config(directory, text))
    return check


def complaints(directory: Path, text: str) -> tuple[str, ...]:
    """Return the complaints about the checks of a text, without the places."""
    try:
        read_checks(a_config(directory, text))
    except ConfigError as error:
        return tuple(problem.partition(": ")[2] for problem in error.problems)
    return ()


class Ground:
    """A repository whose trees are checked. `touched` are the files of patch 1."""

    def __init__(self, directory: Path, files: Changes, *, touched: tuple[str, ...] = ()) -> None:
        self.directory = directory
        self.repo = RepoBuilder(directory / "ground")
        self.repo.commit("Begin", files)
        self.objects = Objects()
        self.objects.add_directory(Path(self.repo.repo.path) / "objects", "ground")
        self.touched = {1: frozenset(touched), None: frozenset(touched)}

    def checker(self, engine: OpenEngine = no_engine) -> Checker:
        return Checker(self.objects, self.touched, engine)

    def judge(self, text: str, engine: OpenEngine = no_engine) -> Found:
        """Return the result of a check on the newest tree."""
        return self.checker(engine).judge(a_check(self.directory, text), self.repo.tree("HEAD"))
