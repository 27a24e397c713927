"""What a gate kind is."""

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
    """A table of what a gate measured, for a terminal. Titles from `folding` on may fold between their words."""

    titles: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    folding: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[S]):
    """A gate kind. mypy holds that what `make` makes of the settings is what `run` takes.

    `version` is part of the key of every observation: raise it if the kind observes something else than before.
    `about` is the first line of its command's help. `make` makes settings of values and complains about those that do
    not go together; `run` observes, and gives a verdict. `needs_gpu` says whether the gate needs a GPU on a build that
    uses one, unless the suite says so itself. `programs` are those of the build that the gate runs in any case. `table`
    is what a terminal shows of a judgement beside its verdict.
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
        """The kind as it goes into the key of an observation."""
        return f"{self.name}/{self.version}"

    def read(self, node: Node, models: Models) -> S:
        """Return the settings of a suite's entry. Complaints go to the node."""
        made = self.make(read_values(node, self.settings, models))
        node.finish()
        return made
