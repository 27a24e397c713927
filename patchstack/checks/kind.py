"""The definition of a kind of check, and the files that it gets."""

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
    """The input of a check: the files of one tree that its globs select, by path, and the additional files that it
    needs.

    `engine` opens the engine that commands run on, and raises the errors of opening it.
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
    """A kind of check. mypy checks that `judge` takes the type that `read` returns.

    `read` reports complaints to the node. `needs` are globs of files that a check needs in addition to those it judges.
    `seconds` is the default time limit of a check on one tree.
    """

    name: str
    about: str
    read: Callable[[Node], S | None]
    judge: Callable[[S, View], Found]
    needs: Callable[[S], tuple[str, ...]] = lambda settings: ()
    seconds: float = 10.0
