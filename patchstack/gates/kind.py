"""Define the type of a gate kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from patchstack.gates.judgement import Judgement
from patchstack.observe.declared import Models, Setting, Values, read_values
from patchstack.observe.observer import Observer
from patchstack.workspace.node import Node

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgementTable:
    """A table of a gate's measurements for a terminal. From column `folding` (counted from 0) on, titles may wrap."""

    titles: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    folding: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[S]):
    """A gate kind. mypy checks that `run` takes the type that `make` returns.

    `version` is part of the key of every observation. Increase the version if the kind observes something different.
    `about` is the first line of the kind's help. `make` creates the settings from values and reports invalid
    combinations. `run` observes and returns a judgement. `needs_gpu` returns whether the gate needs a GPU on a build
    that uses one. A suite may override this value. `programs` returns the programs of the build that the gate always
    runs. `table` returns the table for a terminal.
    """

    name: str
    version: int
    about: str
    settings: tuple[Setting[Any], ...]
    make: Callable[[Values], S]
    run: Callable[[S, Observer], Judgement]
    needs_gpu: Callable[[S], bool] = lambda settings: True
    programs: Callable[[S], tuple[str, ...]] = lambda settings: ()
    table: Callable[[Judgement], JudgementTable] | None = None

    @property
    def key(self) -> str:
        """The name of the kind in the keys of observations."""
        return f"{self.name}/{self.version}"

    def read(self, node: Node, models: Models) -> S:
        """Read the settings of a gate from its entry in a suite. Problems are reported on the node."""
        made = self.make(read_values(node, self.settings, models))
        node.finish()
        return made
