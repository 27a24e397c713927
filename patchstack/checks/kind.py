"""Define the interface of a kind of check, and the input of a check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from patchstack.checks.model import Found, TreeFile
from patchstack.checks.scan import Scanner
from patchstack.engine.protocol import Engine
from patchstack.git.objects import Objects
from patchstack.workspace.node import Node

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The input of a check on one tree.

    `files` are the files that the check judges, sorted by path. `others` are additional files that the check needs.
    `seconds` is the time limit. `engine` is a function that returns the engine for commands. The function raises an
    error if the engine cannot be opened.
    """

    name: str
    files: tuple[TreeFile, ...]
    others: tuple[TreeFile, ...]
    objects: Objects
    scanner: Scanner
    seconds: float
    engine: Callable[[], Engine]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[S]):
    """A kind of check.

    The type parameter makes mypy verify that `judge` accepts the settings that `read` returns. `read` reports problems
    on the node. `needs` returns globs of the files that a check needs but does not judge. `seconds` is the default time
    limit of a check on one tree.
    """

    name: str
    about: str
    read: Callable[[Node], S | None]
    judge: Callable[[S, View], Found]
    needs: Callable[[S], tuple[str, ...]] = lambda settings: ()
    seconds: float = 10.0
