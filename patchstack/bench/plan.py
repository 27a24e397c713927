"""The plan of a comparison: everything that is decided before the first run, and its file."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from patchstack.bench.judge import Demand, Row, Rule
from patchstack.bench.workload import Workload
from patchstack.canonical import canonical
from patchstack.causes import ComparisonDamaged, NoComparison
from patchstack.document import Document, Part
from patchstack.files.atomic import replace_file

PLAN = "plan.json"
WITHIN = 0.10
"""The largest relative difference between the two reference runs of a pair."""


class PlanSide(Part, frozen=True, kw_only=True):
    """A side: its description, the key of its build (null: programs of a directory), the path of its programs, the
    sha256 of all of them, and its variables."""

    label: str
    key: str | None
    directory: str
    programs: str
    env: dict[str, str]


class PlanRow(Part, frozen=True, kw_only=True):
    """A row that is compared, its part, and its margins as fractions."""

    name: str
    primary: bool
    margin: float
    guard_margin: float


class Plan(Document, frozen=True, kw_only=True, tag="patchstack.bench-plan/1"):
    """A planned comparison. Its name `comparison` is the digest of all other fields. `seed` determines the coins.

    `reference` runs `reference_workload` before each run (null: none). The two reference runs of a pair may differ by
    `reference_within`. `kind` is that of the workload, with its version. `unplanned` lists what was decided after runs
    were seen; empty for nothing.
    """

    comparison: str
    made: str
    machine: str
    engine: str
    image: str | None
    kind: str
    workload: Workload
    a: PlanSide
    b: PlanSide
    reference: PlanSide | None
    reference_workload: Workload | None
    reference_within: float
    rows: tuple[PlanRow, ...]
    alpha: float
    most: int
    demand: str | None
    seed: int
    noise: bool
    unplanned: str

    def judged_rows(self) -> tuple[Row, ...]:
        """Return the rows in the form for the judge."""
        return tuple(
            Row(name=one.name, primary=one.primary, margin=one.margin, guard_margin=one.guard_margin)
            for one in self.rows
        )

    def rule(self) -> Rule:
        """Return the rule in the form for the judge."""
        return Rule(alpha=self.alpha, most=self.most, demand=Demand(self.demand) if self.demand else None)

    def coin(self, number: int) -> int:
        """Return the coin of a pair, counted from 1: +1 if side B runs second, -1 if A does."""
        digest = hashlib.sha256(f"coin {self.seed} {number}".encode()).digest()
        return 1 if digest[0] & 1 else -1


def named(plan: Plan) -> Plan:
    """Return a plan with its name: the first digits of the digest of all other fields."""
    return msgspec.structs.replace(plan, comparison=_name(plan))


def is_named(plan: Plan) -> bool:
    """Return whether a plan's name matches its content."""
    return plan.comparison == _name(plan)


def write_plan(plan: Plan, comparisons: Path) -> Path:
    """Write a plan, and return the directory of its comparison. Raises `OSError`."""
    directory = comparisons / plan.comparison
    directory.mkdir(parents=True, exist_ok=True)
    replace_file(directory / PLAN, plan.indented)
    return directory


def read_plan(directory: Path) -> Plan:
    """Read the plan of a comparison.

    Raises `MissingError` if there is none, `ConfigError` for one that is damaged or was changed after it was made.
    """
    path = directory / PLAN
    try:
        plan = msgspec.json.decode(path.read_bytes(), type=Plan)
    except OSError as error:
        raise NoComparison(
            f"there is no comparison in {directory}: {error.strerror}", hint="patchstack bench list names them"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ComparisonDamaged(f"{path} is damaged: {error}") from error
    if not is_named(plan) or plan.comparison != directory.name:
        raise ComparisonDamaged(
            f"{path} was changed after it was made: it is not the plan {directory.name}",
            hint="a plan is made before the first run and never edited; patchstack bench ab makes a new one",
        )
    return plan


def _name(plan: Plan) -> str:
    content = msgspec.to_builtins(msgspec.structs.replace(plan, comparison=""))
    return hashlib.sha256(canonical(content)).hexdigest()[:16]
