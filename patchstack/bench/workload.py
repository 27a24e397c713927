"""Describe a workload: a program that runs once for each measurement, and the figures that it prints."""

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
"""The figures of a run by row name. All figures are above 0."""


class WorkloadModel(Part, frozen=True, kw_only=True):
    """A model of a workload. `name` is its name in the arguments. `path` is its path on the engine's machine. `sha256`
    is the digest that the file must have; null allows any file."""

    name: str
    path: str
    sha256: str | None


class Workload(Part, frozen=True, kw_only=True):
    """A complete workload, as a plan stores it. It contains everything that is needed to read the figures again.

    `rows` contains the names of all figures of a run, and `unit` is their unit. `better` is `higher` or `lower`.
    `reading` contains the data that the kind needs to read the figures. `seconds` is the limit for the wall time of a
    run. `tries` is the maximum number of attempts if a run cannot be judged.
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
        """Return the program that a run of this workload starts."""
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
    """Return the models as `WorkloadModel` objects, which a plan can store."""
    return tuple(WorkloadModel(name=one.name, path=one.path, sha256=one.sha256) for one in models)


Read = Callable[[Workload, Observation], Figures | str]
"""The type of functions that return the figures of a successful run, or the reason why they cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadKind:
    """A kind of workload.

    `make` returns a workload from a name and values; it reports problems through the values. `read` returns the figures
    of a run. `reference` returns a short reference workload with the same model; if it returns None, the reference
    build runs the workload itself. `primary` returns the patterns of the default primary rows. `beside` returns the
    client that measures the program as a server; None if the program is not a server.
    """

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
    form=Texts(written="a list of row patterns, such as `decode *`"),
    default=(),
    metavar="ROWS",
    help="Primary rows, which decide the comparison (repeat).",
)
GUARD = Setting[tuple[str, ...]](
    name="guard",
    form=Texts(written="a list of row patterns"),
    default=(),
    metavar="ROWS",
    help="Guard rows, which must not get worse (repeat).",
)
MARGIN_OF = Setting[float](
    name="margin",
    form=positive(0.5),
    default=MARGIN,
    metavar="FRACTION",
    help="A gain must exceed this share: 0.01 is 1%.",
)
GUARD_MARGIN_OF = Setting[float](
    name="guard_margin",
    form=positive(0.5),
    default=GUARD_MARGIN,
    metavar="FRACTION",
    help="The loss of a guard row must not exceed this share: 0.03 is 3%.",
)
DECIDING = (PRIMARY, GUARD, MARGIN_OF, GUARD_MARGIN_OF)
"""The settings that every workload has: the primary and guard rows, and their margins."""


def chosen_rows(kind: WorkloadKind, workload: Workload, values: Values) -> tuple[Row, ...]:
    """Return the rows to compare, in the order of the workload. A pattern that matches no row is reported through
    `values`."""
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
    """Read a workload of `patchstack.yaml`. Return it with its rows to compare. Problems are added to the node."""
    values = read_values(node, (*kind.settings, *DECIDING), models)
    before = len(node.problems)
    workload = kind.make(name, values)
    rows = chosen_rows(kind, workload, values) if len(node.problems) == before else ()
    node.finish()
    return workload, rows
