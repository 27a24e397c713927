"""Run the pairs of a plan, write a record of each, and read the records.

Every run is a separate observation: its key includes the comparison, the pair and the slot. So a comparison never uses
the runs of a different comparison. An interrupted comparison keeps its finished runs. The record of a pair is written
after the runs of the pair.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

import msgspec

from patchstack.bench.judge import Pair
from patchstack.bench.plan import Plan
from patchstack.bench.profiled import printed_by_profiler
from patchstack.bench.registry import KINDS
from patchstack.bench.watch import Watch, Watched, thrown
from patchstack.bench.workload import Figures, Workload
from patchstack.causes import ComparisonDamaged
from patchstack.document import Document, Part
from patchstack.errors import Exit, PatchstackError
from patchstack.evidence.origin import Origin, Source
from patchstack.evidence.store import Observations
from patchstack.files.atomic import replace_file
from patchstack.observe.exit_status import complaint_of, fault_of
from patchstack.observe.kept import observation_of
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Observation
from patchstack.tasks import task

A, B = "a", "b"
_KEPT = Source(origin=Origin.RECALLED, made="")
REFERENCES = ("reference 1", "reference 2")


class NotJudged(PatchstackError):
    """A run of a comparison cannot be used. Earlier runs stay recorded."""

    code = "PS0805"
    exit_code = Exit.INVALID


class RunRecord(Part, frozen=True, kw_only=True):
    """A run of a pair.

    `slot` is `a`, `b`, `reference 1` or `reference 2`. `key` is the key of the observation, and `output` is the sha256
    of the output. `watched` is the state of the GPU during the run; null if it was not sampled.
    """

    slot: str
    key: str
    output: str
    watched: Watched | None


class PairRecord(Document, frozen=True, kw_only=True, tag="patchstack.bench-pair/1"):
    """A pair that ran, with its runs in order. `began` is its start time. `usual_clock` is the machine's usual clock at
    this time, in MHz; null if unknown."""

    comparison: str
    number: int
    coin: int
    began: str
    usual_clock: float | None
    runs: tuple[RunRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRun:
    """A pair with its figures. `figures` contains the figures of both sides. `references` contains the figures of the
    two reference runs; it is empty if there is no reference. `thrown` is the reason why the pair does not count; it is
    empty if the pair counts."""

    record: PairRecord
    figures: Mapping[str, Figures]
    references: tuple[Figures, ...]
    thrown: str

    def judged(self, plan: Plan) -> Pair:
        """Return the pair as the `Pair` that `judge` uses. Its ratios are ln(B/A), negated if lower figures are
        better."""
        sign = 1 if plan.workload.better == "higher" else -1
        return Pair(
            coin=self.record.coin,
            ratios={
                row.name: sign * math.log(self.figures[B][row.name] / self.figures[A][row.name]) for row in plan.rows
            },
            thrown=self.thrown,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The observers that run the sides and the reference. `reference` is None if the plan has no reference."""

    a: Observer
    b: Observer
    reference: Observer | None


def run_pairs(
    plan: Plan, directory: Path, sides: Sides, watch: Watch, *, usual_clock: float | None
) -> Iterator[PairRun]:
    """Run the pairs of a plan, and yield each pair. The caller stops when the outcome is decided.

    Runs that already exist are not repeated. Raises `NotJudged` if a run cannot be used, and `ConfigError` if a record
    does not match the plan. Also raises the errors of the observers.
    """
    number = 0
    while True:
        number += 1
        known = read_record(plan, directory, number)
        with task(f"pair {number} of at most {plan.most}", key=pair_key(plan)):
            yield _run_pair(plan, directory, sides, watch, number, known, usual_clock)


def _run_pair(
    plan: Plan,
    directory: Path,
    sides: Sides,
    watch: Watch,
    number: int,
    known: PairRecord | None,
    usual_clock: float | None,
) -> PairRun:
    coin = plan.coin(number)
    began = known.began if known is not None else datetime.now(UTC).isoformat(timespec="seconds")
    runs: list[RunRecord] = []
    found: dict[str, Figures] = {}
    earlier = {one.slot: one for one in known.runs} if known is not None else {}
    for slot in order(plan, coin):
        observer, workload, env = _of_slot(plan, sides, slot)
        with watch.watching() as seen:
            observation = _observed(plan, observer, workload, env, number, slot)
        record = RunRecord(slot=slot, key=observation.key, output=_digest(observation), watched=seen())
        if slot in earlier:
            if (earlier[slot].key, earlier[slot].output) != (record.key, record.output):
                raise ComparisonDamaged(
                    f"run {slot} of pair {number} differs from the record of the pair",
                    hint="run 'patchstack bench ab' to make a new comparison",
                )
            record = earlier[slot]
        runs.append(record)
        found[slot] = _figures(workload, observation, number, slot)
    record_of_pair = known or PairRecord(
        comparison=plan.comparison,
        number=number,
        coin=coin,
        began=began,
        usual_clock=usual_clock,
        runs=tuple(runs),
    )
    if known is None:
        replace_file(directory / pair_file(number), record_of_pair.indented)
    return _pair_run(plan, record_of_pair, found)


def order(plan: Plan, coin: int) -> tuple[str, ...]:
    """Return the slots of a pair in the order in which they run."""
    first, second = (A, B) if coin > 0 else (B, A)
    if plan.reference is None:
        return (first, second)
    return (REFERENCES[0], first, REFERENCES[1], second)


def salt(plan: Plan, number: int, slot: str) -> str:
    """Return a string that makes the key of a run unique. It names the comparison, the pair and the slot."""
    return f"comparison {plan.comparison} pair {number} {slot}"


def recorded_pairs(plan: Plan, directory: Path, observations: Observations) -> tuple[PairRun, ...]:
    """Read the finished pairs in order, from their records and observations. No program is run.

    Raises `NotJudged` if a run is missing, was changed, does not belong to the plan, or cannot be used. Also raises the
    errors of `read_record`.
    """
    found: list[PairRun] = []
    loaded: dict[str, object] = {}
    while (record := read_record(plan, directory, len(found) + 1)) is not None:
        figures: dict[str, Figures] = {}
        for run in record.runs:
            workload = plan.workload if run.slot in (A, B) else plan.reference_workload
            assert workload is not None
            kept = observations.find(run.key)
            observation = observation_of(kept, _KEPT) if kept is not None else None
            if kept is None or observation is None or _digest(observation) != run.output:
                raise NotJudged(
                    f"run {run.slot} of pair {record.number} of {plan.comparison} is missing or was changed",
                    hint="run 'patchstack bench ab' to make a new comparison",
                )
            side = {A: plan.a, B: plan.b}.get(run.slot, plan.reference)
            assert side is not None
            made, env = kept.ingredients, {**workload.env, **side.env}
            wanted = (workload.program, [*workload.args], env, plan.kind, salt(plan, record.number, run.slot))
            found_there = tuple(made.get(name) for name in ("program", "args", "env", "kind", "salt"))
            hardware, programs = str(made.get("hardware")), made.get("programs")
            same = programs == loaded.setdefault(run.slot, programs)
            if found_there != wanted or not hardware.startswith(plan.machine) or not same:
                raise NotJudged(
                    f"run {run.slot} of pair {record.number} does not belong to the plan {plan.comparison}",
                    hint="run 'patchstack bench ab' to make a new comparison",
                )
            figures[run.slot] = _figures(workload, observation, record.number, run.slot)
        found.append(_pair_run(plan, record, figures))
    return tuple(found)


def read_record(plan: Plan, directory: Path, number: int) -> PairRecord | None:
    """Read the record of the pair `number`. Return None if the pair has no record.

    Raises `ConfigError` if the record is damaged or does not match the plan.
    """
    path = directory / pair_file(number)
    try:
        record = msgspec.json.decode(path.read_bytes(), type=PairRecord)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ComparisonDamaged(f"{path} is damaged: {error}") from error
    slots = tuple(run.slot for run in record.runs)
    wanted = (plan.comparison, number, plan.coin(number), order(plan, plan.coin(number)))
    if (record.comparison, record.number, record.coin, slots) != wanted:
        raise ComparisonDamaged(f"{path} was changed: it does not match the plan of its comparison")
    return record


def _pair_run(plan: Plan, record: PairRecord, found: Mapping[str, Figures]) -> PairRun:
    references = tuple(found[slot] for slot in REFERENCES if slot in found)
    reason = ""
    if len(references) == 2 and plan.reference_workload is not None:
        workload = plan.reference_workload
        seen = {run.slot: run.watched for run in record.runs}
        reason = thrown(
            (reference_speed(workload, references[0]), reference_speed(workload, references[1])),
            (seen[REFERENCES[0]], seen[REFERENCES[1]]),
            within=plan.reference_within,
            usual_clock=record.usual_clock,
        )
    return PairRun(record=record, figures={slot: found[slot] for slot in (A, B)}, references=references, thrown=reason)


def reference_speed(workload: Workload, figures: Figures) -> float:
    """Return the speed of a reference run. A larger value is faster.

    The speed is the geometric mean of the primary rows, or its reciprocal if lower figures are better. All rows are
    used if the run has no primary row.
    """
    from fnmatch import fnmatchcase

    patterns = KINDS[workload.kind]().primary(workload)
    chosen = [value for name, value in figures.items() if any(fnmatchcase(name, one) for one in patterns)]
    mean = math.exp(fmean(map(math.log, chosen or figures.values())))
    return mean if workload.better == "higher" else 1 / mean


def _of_slot(plan: Plan, sides: Sides, slot: str) -> tuple[Observer, Workload, Mapping[str, str]]:
    if slot == A:
        return sides.a, plan.workload, plan.a.env
    if slot == B:
        return sides.b, plan.workload, plan.b.env
    assert sides.reference is not None and plan.reference_workload is not None and plan.reference is not None
    return sides.reference, plan.reference_workload, plan.reference.env


def _observed(
    plan: Plan, observer: Observer, workload: Workload, env: Mapping[str, str], number: int, slot: str
) -> Observation:
    program = workload.runs()
    read, judge_run = KINDS[workload.kind]().read, program.complete()

    def complete(seen: Observation) -> str | None:
        """Return the reason why a run must be repeated. Return None if it need not be repeated.

        Unusable figures are a reason only if the exit status is 0.
        """
        if (complaint := judge_run(seen)) is not None or seen.code != 0:
            return complaint
        figures = read(workload, seen)
        return figures if isinstance(figures, str) else None

    invocation = program.invocation(f"{slot}, pair {number}", tuple(sorted(env.items())))
    observed = observer.observe(
        replace(invocation, beside=KINDS[workload.kind]().beside(workload)),
        complete=complete,
        tries=workload.tries,
        salt=salt(plan, number, slot),
    )
    if observed.observation is None:
        raise NotJudged(
            f"{_who(slot)} cannot be measured in pair {number}: {complaint_of(observed)}",
            hint=f"run 'patchstack bench resume {plan.comparison}' to continue; finished runs are kept",
        )
    return observed.observation


def _figures(workload: Workload, seen: Observation, number: int, slot: str) -> Figures:
    """Return the figures of a run. Raises `NotJudged` if the run failed, ran under a profiler, or has no figures."""
    if fault := fault_of(seen, pinned=workload.runs().pinned):
        raise NotJudged(f"{_who(slot)} failed in pair {number}: {fault.reason}")
    if line := printed_by_profiler(seen.stdout + b"\n" + seen.stderr):
        raise NotJudged(f"{_who(slot)} ran under a profiler in pair {number}: {line}")
    figures = KINDS[workload.kind]().read(workload, seen)
    if isinstance(figures, str):
        raise NotJudged(f"{_who(slot)} printed no usable figures in pair {number}: {figures}")
    return figures


def _who(slot: str) -> str:
    return f"side {slot.upper()}" if slot in (A, B) else "the reference"


def _digest(seen: Observation) -> str:
    files = b"".join(b"\0" + name.encode() + b"\0" + data for name, data in sorted(seen.files.items()))
    return hashlib.sha256(seen.stdout + b"\0" + seen.stderr + files).hexdigest()


def pair_file(number: int) -> str:
    """Return the file name of the record of a pair."""
    return f"pair-{number:04}.json"


def pair_count(directory: Path) -> int:
    """Return the number of consecutive pairs that have a record, starting with pair 1."""
    number = 0
    while (directory / pair_file(number + 1)).is_file():
        number += 1
    return number


def pair_key(plan: Plan) -> str:
    """Return the key under which the durations of the plan's pairs are stored.

    Plans with the same machine, program and arguments share the key, if both or neither have a reference.
    """
    return f"pair {plan.machine} {plan.workload.program} {plan.workload.args} {plan.reference is not None}"


def judged_pairs(plan: Plan, runs: Sequence[PairRun]) -> list[Pair]:
    """Return the pairs as the `Pair` objects that `judge` uses."""
    return [run.judged(plan) for run in runs]
