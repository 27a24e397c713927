"""Write and read the plan of a comparison: everything that is decided before the first run."""

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
"""The default limit for the relative difference between the two reference runs of a pair."""


class PlanSide(Part, frozen=True, kw_only=True):
    """A side of a comparison.

    `label` describes the side. `key` is the build key; null if the programs are from a directory. `directory` is the
    path of the programs, and `programs` is one sha256 over all programs. `env` contains the environment variables.
    """

    label: str
    key: str | None
    directory: str
    programs: str
    env: dict[str, str]


class PlanRow(Part, frozen=True, kw_only=True):
    """A row to compare. A row that is not `primary` is a guard row. Margins are fractions: 0.01 is 1%."""

    name: str
    primary: bool
    margin: float
    guard_margin: float


class Plan(Document, frozen=True, kw_only=True, tag="patchstack.bench-plan/1"):
    """A planned comparison.

    `comparison` is the name of the plan, the start of the digest of all other fields. `seed` determines the coins. If
    `reference` is not null, its programs run `reference_workload` before each run of a side. `reference_within` is the
    largest allowed relative difference between the two reference runs of a pair. `kind` is the workload's kind with its
    version. `noise` is true if a side is compared with itself. `unplanned` describes decisions that were made after
    runs were seen; it is empty if there are none.
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
        """Return the rows as the `Row` objects that `judge` uses."""
        return tuple(
            Row(name=one.name, primary=one.primary, margin=one.margin, guard_margin=one.guard_margin)
            for one in self.rows
        )

    def rule(self) -> Rule:
        """Return the rule as the `Rule` that `judge` uses."""
        return Rule(alpha=self.alpha, most=self.most, demand=Demand(self.demand) if self.demand else None)

    def coin(self, number: int) -> int:
        """Return the coin of the pair `number` (from 1): +1 if side B runs second, -1 if A does."""
        digest = hashlib.sha256(f"coin {self.seed} {number}".encode()).digest()
        return 1 if digest[0] & 1 else -1


def named(plan: Plan) -> Plan:
    """Return the plan with its name, the first 16 digits of the digest of all other fields."""
    return msgspec.structs.replace(plan, comparison=_name(plan))


def is_named(plan: Plan) -> bool:
    """Return whether the name of a plan matches its content."""
    return plan.comparison == _name(plan)


def write_plan(plan: Plan, comparisons: Path) -> Path:
    """Write a plan. Return the directory of its comparison. Raises `OSError` if the plan cannot be written."""
    directory = comparisons / plan.comparison
    directory.mkdir(parents=True, exist_ok=True)
    replace_file(directory / PLAN, plan.indented)
    return directory


def read_plan(directory: Path) -> Plan:
    """Read the plan of a comparison.

    Raises `MissingError` if the plan does not exist, and `ConfigError` if it is damaged or was edited.
    """
    path = directory / PLAN
    try:
        plan = msgspec.json.decode(path.read_bytes(), type=Plan)
    except OSError as error:
        raise NoComparison(
            f"no comparison in {directory}: {error.strerror}", hint="'patchstack bench list' lists all comparisons"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ComparisonDamaged(f"{path} is damaged: {error}") from error
    if not is_named(plan) or plan.comparison != directory.name:
        raise ComparisonDamaged(
            f"{path} was edited: its content does not match its name {directory.name}",
            hint="a plan must not change after the first run; make a new one with 'patchstack bench ab'",
        )
    return plan


def _name(plan: Plan) -> str:
    content = msgspec.to_builtins(msgspec.structs.replace(plan, comparison=""))
    return hashlib.sha256(canonical(content)).hexdigest()[:16]
