"""A workload: a program that runs once for each measurement, and the figures that it prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from patchstack.bench.judge import GUARD_MARGIN, MARGIN, Row
from patchstack.document import Part
from patchstack.llama.program import Program
from patchstack.observe.declared import Models, Setting, Texts, Values, positive, read_values
from patchstack.observe.protocol import Beside, Model, Observation
from patchstack.workspace.node import Node

Figures = Mapping[str, float]
"""The figures of a run by row name. All are above zero."""


class WorkloadModel(Part, frozen=True, kw_only=True):
    """A model of a workload: its name in arguments, its path on the engine's machine, and the digest that it must have
    (null: any)."""

    name: str
    path: str
    sha256: str | None


class Workload(Part, frozen=True, kw_only=True):
    """A complete workload, as it is in a plan. It is sufficient to read the figures again.

    `rows` are the names of all figures of a run, `unit` is their unit. `better` is `higher` or `lower`. `reading` is
    the data that the kind needs to read the figures. `seconds` limits the wall time of a run. `tries` is how often a
    run that cannot be judged is tried.
    """

    name: str
    kind: str
    program: str
    args: tuple[str, ...]
    env: dict[str, str]
    models: tuple[WorkloadModel, ...]
    sentinel: str | None
    seconds: int
    tries: int
    rows: tuple[str, ...]
    unit: str
    better: str
    reading: dict[str, Any]

    def runs(self) -> Program:
        """Return the program of a run."""
        return Program(
            name=self.program,
            args=self.args,
            models=tuple(Model(name=one.name, path=one.path, sha256=one.sha256) for one in self.models),
            env=tuple(sorted(self.env.items())),
            sentinel=self.sentinel,
            seconds=self.seconds,
            tries=self.tries,
        )


def workload_models(models: Sequence[Model]) -> tuple[WorkloadModel, ...]:
    """Return models in the form of a workload."""
    return tuple(WorkloadModel(name=one.name, path=one.path, sha256=one.sha256) for one in models)


Read = Callable[[Workload, Observation], Figures | str]
"""Returns the figures of a successful run, or why they cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadKind:
    """A kind of workload. `make` makes a workload from a name and values, and complains to the values. `read` reads its
    figures. `reference` returns the short reference workload of the same model; if None, the workload itself runs on
    the reference build. `primary` are the patterns of the rows that decide by default. `beside` makes the program a
    server, and returns the client that measures it."""

    name: str
    version: int
    settings: tuple[Setting[Any], ...]
    make: Callable[[str, Values], Workload]
    read: Read
    reference: Callable[[Workload], Workload | None] = lambda workload: None
    beside: Callable[[Workload], Beside | None] = lambda workload: None
    primary: Callable[[Workload], tuple[str, ...]] = lambda workload: ("*",)

    @property
    def key(self) -> str:
        """The name of the kind in the key of an observation."""
        return f"bench {self.name}/{self.version}"


PRIMARY = Setting[tuple[str, ...]](
    name="primary",
    form=Texts(written="a list of patterns of rows: `decode *`"),
    default=(),
    metavar="ROWS",
    help="The rows that decide (repeat).",
)
GUARD = Setting[tuple[str, ...]](
    name="guard",
    form=Texts(written="a list of patterns of rows"),
    default=(),
    metavar="ROWS",
    help="Rows that must not get worse (repeat).",
)
MARGIN_OF = Setting[float](
    name="margin", form=positive(0.5), default=MARGIN, metavar="FRACTION", help="A gain must be above this: 0.01 is 1%."
)
GUARD_MARGIN_OF = Setting[float](
    name="guard_margin",
    form=positive(0.5),
    default=GUARD_MARGIN,
    metavar="FRACTION",
    help="No loss may be above this: 0.03 is 3%.",
)
DECIDING = (PRIMARY, GUARD, MARGIN_OF, GUARD_MARGIN_OF)
"""Settings of every workload: the rows that decide, and their margins."""


def chosen_rows(kind: WorkloadKind, workload: Workload, values: Values) -> tuple[Row, ...]:
    """Return the rows that are compared, in the workload's order. Complains about a pattern that matches no row."""
    primary, guard = values[PRIMARY] or kind.primary(workload), values[GUARD]
    for setting, patterns in ((PRIMARY, primary), (GUARD, guard)):
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in workload.rows):
                values.complain(setting.name, f"{pattern!r} is not one of the rows {', '.join(workload.rows)}")
    found = []
    for name in workload.rows:
        decides = any(fnmatchcase(name, pattern) for pattern in primary)
        if decides or any(fnmatchcase(name, pattern) for pattern in guard):
            found.append(
                Row(name=name, primary=decides, margin=values[MARGIN_OF], guard_margin=values[GUARD_MARGIN_OF])
            )
    return tuple(found)


def read_workload(kind: WorkloadKind, name: str, node: Node, models: Models) -> tuple[Workload, tuple[Row, ...]]:
    """Return a workload of `patchstack.yaml` with its rows. Complaints go to the node."""
    values = read_values(node, (*kind.settings, *DECIDING), models)
    before = len(node.problems)
    workload = kind.make(name, values)
    rows = chosen_rows(kind, workload, values) if len(node.problems) == before else ()
    node.finish()
    return workload, rows
