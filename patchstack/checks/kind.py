"""What a kind of check is, and what it gets to look at."""

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
    """What a check looks at: the files that its globs select on one tree, by path, and those that it needs also.

    `engine` opens the engine that commands run on; it raises what opening one raises.
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
    """A kind of check. mypy holds that what `read` makes of an entry is what `judge` takes.

    `read` complains to the node. `needs` are globs of files that a check needs besides those it looks at. `seconds` is
    what a check may take on one tree unless it says so itself.
    """

    name: str
    about: str
    read: Callable[[Node], S | None]
    judge: Callable[[S, View], Found]
    needs: Callable[[S], tuple[str, ...]] = lambda settings: ()
    seconds: float = 10.0
