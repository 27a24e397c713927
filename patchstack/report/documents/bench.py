"""Define the documents of comparisons (`patchstack.bench/1`) and machine histories (`patchstack.bench-machine/1`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from patchstack.bench.history import Drop, ReferenceRun
from patchstack.bench.judge import RowShown, Statement
from patchstack.bench.pairs import A, B, PairRun, reference_speed
from patchstack.bench.plan import Plan, PlanSide
from patchstack.document import Document, Part
from patchstack.workflow.bench import Progress


class BenchSide(Part, frozen=True, kw_only=True):
    """One side of a comparison.

    `label` describes the side. `key` is the key of its build, or null if the programs come from a directory. `programs`
    is the sha256 of the programs. `env` contains environment variables.
    """

    label: str
    key: str | None
    programs: str
    env: dict[str, str]


class BenchRow(Part, frozen=True, kw_only=True):
    """A row of a comparison.

    `margin`, `guard_margin`, `estimate`, `low` and `high` are values of B / A - 1, as fractions. If lower figures are
    better, they are values of A / B - 1. In both cases, a positive value means that B is better. `low` and `high` are
    null if no bound has been shown yet. `estimate` and both bounds are null if no pair counts.

    `a` and `b` are medians in `unit` over the pairs that count. They are null if no pair counts. `shown` lists the
    statements that hold. `e_values` contains the largest e-value of each statement so far. `needed` is the estimated
    number of pairs that the next statement needs, or null if unknown.
    """

    name: str
    primary: bool
    margin: float
    guard_margin: float
    unit: str
    better: str
    a: float | None
    b: float | None
    estimate: float | None
    low: float | None
    high: float | None
    shown: tuple[str, ...]
    e_values: dict[str, float]
    needed: int | None


class BenchReference(Part, frozen=True, kw_only=True):
    """A reference run, with its speed and the measurements under load.

    `clock` is in MHz, `power` in watts, and `temperature` in degrees Celsius. Each is null if unknown.
    """

    speed: float
    clock: float | None
    power: float | None
    temperature: float | None


class BenchPair(Part, frozen=True, kw_only=True):
    """A pair of runs.

    `second` is the side that ran second, which the coin decided. `thrown` is the reason why the pair does not count; it
    is empty if the pair counts. `ratios` contains B / A for each row, or A / B if lower figures are better; a value
    above 1 means that B is better. `keys` contains the keys of the observations, by slot.
    """

    number: int
    began: str
    second: str
    thrown: str
    ratios: dict[str, float]
    references: tuple[BenchReference, ...]
    keys: dict[str, str]


class BenchDocument(Document, frozen=True, kw_only=True, tag="patchstack.bench/1"):
    """A comparison of two sides.

    `outcome` is `keep`, `reject`, `no difference seen`, `INVALID`, or `undecided` while more pairs may run. `decided`
    is the number of pairs after which the outcome was decided, or null if it is not decided. `unplanned` describes
    choices that were made after results had been seen.
    """

    comparison: str
    outcome: str
    reason: str
    decided: int | None
    demand: str | None
    demand_met: bool | None
    unplanned: str
    noise: bool
    machine: str
    engine: str
    made: str
    workload: str
    program: str
    args: tuple[str, ...]
    models: dict[str, str | None]
    a: BenchSide
    b: BenchSide
    reference: BenchSide | None
    alpha: float
    most: int
    seed: int
    counted: int
    thrown: int
    rows: tuple[BenchRow, ...]
    pairs: tuple[BenchPair, ...]


class MachineRun(Part, frozen=True, kw_only=True):
    """A reference run in the history of a machine.

    `clock` is in MHz, `power` in watts, and `temperature` in degrees Celsius. Each is null if unknown.
    """

    at: str
    speed: float
    clock: float | None
    power: float | None
    temperature: float | None
    comparison: str
    pair: int
    slot: int


class MachineDrop(Part, frozen=True, kw_only=True):
    """The reference run at which a machine became slower.

    `since` is the time of the run. `before` and `after` are the median speeds before and after this time.
    """

    since: str
    comparison: str
    pair: int
    before: float
    after: float


class MachineEntry(Part, frozen=True, kw_only=True):
    """The runs of one reference workload on one machine, oldest first.

    `drop` is null if the machine did not become slower.
    """

    machine: str
    what: str
    runs: tuple[MachineRun, ...]
    drop: MachineDrop | None


class BenchMachineDocument(Document, frozen=True, kw_only=True, tag="patchstack.bench-machine/1"):
    """The history of machines: the reference runs on each machine."""

    entries: tuple[MachineEntry, ...]


def bench_document(progress: Progress) -> BenchDocument:
    """Convert a comparison to its JSON document."""
    plan, judged = progress.plan, progress.judged
    return BenchDocument(
        comparison=plan.comparison,
        outcome=str(judged.outcome),
        reason=judged.reason,
        decided=judged.decided,
        demand=plan.demand,
        demand_met=judged.demand_met,
        unplanned=plan.unplanned,
        noise=plan.noise,
        machine=plan.machine,
        engine=plan.engine,
        made=plan.made,
        workload=plan.workload.name,
        program=plan.workload.program,
        args=plan.workload.args,
        models={one.name: one.sha256 for one in plan.workload.models},
        a=_side(plan.a),
        b=_side(plan.b),
        reference=_side(plan.reference) if plan.reference is not None else None,
        alpha=plan.alpha,
        most=plan.most,
        seed=plan.seed,
        counted=judged.counted,
        thrown=judged.thrown,
        rows=tuple(_row(shown, plan, progress.pairs) for shown in judged.rows),
        pairs=tuple(_pair(run, plan) for run in progress.pairs),
    )


def machine_document(
    runs: Mapping[tuple[str, str], Sequence[ReferenceRun]], drops: Mapping[tuple[str, str], Drop]
) -> BenchMachineDocument:
    """Convert the histories of machines to their JSON document. The keys are (machine, reference workload)."""
    return BenchMachineDocument(
        entries=tuple(
            MachineEntry(
                machine=machine,
                what=what,
                runs=tuple(
                    MachineRun(
                        at=one.at,
                        speed=one.speed,
                        clock=one.clock,
                        power=one.power,
                        temperature=one.temperature,
                        comparison=one.comparison,
                        pair=one.pair,
                        slot=one.slot,
                    )
                    for one in several
                ),
                drop=_drop(drops.get((machine, what))),
            )
            for (machine, what), several in runs.items()
        )
    )


def _drop(drop: Drop | None) -> MachineDrop | None:
    if drop is None:
        return None
    return MachineDrop(
        since=drop.since.at,
        comparison=drop.since.comparison,
        pair=drop.since.pair,
        before=drop.before,
        after=drop.after,
    )


def _side(side: PlanSide) -> BenchSide:
    return BenchSide(label=side.label, key=side.key, programs=side.programs, env=side.env)


def _row(shown: RowShown, plan: Plan, pairs: Sequence[PairRun]) -> BenchRow:
    row = shown.row
    counted = [run for run in pairs if not run.thrown]
    return BenchRow(
        name=row.name,
        primary=row.primary,
        margin=row.margin,
        guard_margin=row.guard_margin,
        unit=plan.workload.unit,
        better=plan.workload.better,
        a=median([run.figures[A][row.name] for run in counted]) if counted else None,
        b=median([run.figures[B][row.name] for run in counted]) if counted else None,
        estimate=_fraction(shown.estimate),
        low=_fraction(shown.interval.low),
        high=_fraction(shown.interval.high),
        shown=tuple(str(one) for one in Statement if one in shown.shown),
        e_values={str(one): shown.e_values[one] for one in Statement},
        needed=shown.needed,
    )


def _pair(run: PairRun, plan: Plan) -> BenchPair:
    seen = {one.slot: one.watched for one in run.record.runs}
    references = []
    for figures, slot in zip(run.references, (one for one in seen if one not in (A, B)), strict=True):
        watched = seen[slot]
        assert plan.reference_workload is not None
        references.append(
            BenchReference(
                speed=reference_speed(plan.reference_workload, figures),
                clock=watched.clock if watched is not None else None,
                power=watched.power if watched is not None else None,
                temperature=watched.temperature if watched is not None else None,
            )
        )
    return BenchPair(
        number=run.record.number,
        began=run.record.began,
        second="B" if run.record.coin > 0 else "A",
        thrown=run.thrown,
        ratios={name: math.exp(x) for name, x in run.judged(plan).ratios.items()},
        references=tuple(references),
        keys={one.slot: one.key for one in run.record.runs},
    )


def _fraction(logarithm: float | None) -> float | None:
    return math.expm1(logarithm) if logarithm is not None and math.isfinite(logarithm) else None
