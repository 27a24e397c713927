"""Run a complete comparison of two sides.

Find the programs of both sides, write a plan, and run pairs until the outcome is decided.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from patchstack.bench.history import ReferenceRun, history, remember, usual_clock
from patchstack.bench.judge import Demand, Judged, Outcome, Row, judge
from patchstack.bench.pairs import (
    REFERENCES,
    NotJudged,
    PairRun,
    Sides,
    judged_pairs,
    pair_key,
    recorded_pairs,
    reference_speed,
    run_pairs,
)
from patchstack.bench.plan import PLAN, Plan, PlanRow, PlanSide, named, read_plan, write_plan
from patchstack.bench.profiled import profiler_of
from patchstack.bench.registry import KINDS
from patchstack.bench.watch import Watch
from patchstack.bench.workload import Workload
from patchstack.builds.record.store import Store
from patchstack.causes import AmbiguousName, ModelMissing, NoSuchBuild, NotInBuild, SettingsRefused, SidesNotComparable
from patchstack.errors import MissingError
from patchstack.evidence.store import Observations
from patchstack.files.durations import recalled_duration
from patchstack.files.lock import locked_directory
from patchstack.files.places import cache_places
from patchstack.machine.ask import reach
from patchstack.observe.from_build import chosen_build, programs_of
from patchstack.observe.layout import Programs, uses_gpu
from patchstack.observe.observer import RunContext
from patchstack.observe.protocol import Model
from patchstack.observe.runner import Runner
from patchstack.stats.coin import least_tosses
from patchstack.tasks import clock
from patchstack.workflow.machine import Connection, open_runner

_CONTEXT = RunContext(kind="bench")


@dataclass(frozen=True, slots=True, kw_only=True)
class SideWanted:
    """A side as the user describes it.

    `what` is the key of a build, or a directory of programs. `env` contains environment variables.
    """

    what: str
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A comparison as the user requests it.

    `switch` contains the variables that only B has. `reference` names the programs of the reference runs. If it is
    None, these are the programs of side A. If `no_reference` is true, there are no reference runs. `most` is the
    maximum number of pairs. If `noise` is true, both sides may be equal. `seed` determines the coin tosses. If it is
    None, the seed is random.
    """

    a: SideWanted
    b: SideWanted
    kind: str
    workload: Workload
    rows: Sequence[Row]
    switch: Mapping[str, str]
    alpha: float
    most: int
    demand: Demand | None
    reference: str | None
    no_reference: bool
    within: float
    noise: bool
    seed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The machine on which a comparison runs, and the places where its plan and its observations are stored.

    `allow` lists the preflight checks that may fail. `image` is the container image of the programs. `library_path` is
    the library path of the programs. If `image` or `library_path` is None, a stored build uses its own.
    """

    connection: Connection
    comparisons: Path
    observations: Observations
    allow: tuple[str, ...]
    image: str | None
    library_path: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A comparison after a pair, with its plan, the pairs that ran, and their result.

    `failure` is the reason why the comparison cannot continue. It is empty if the comparison can continue.
    """

    plan: Plan
    directory: Path
    pairs: tuple[PairRun, ...]
    judged: Judged
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """The programs of a comparison, on a machine that is locked for the comparison."""

    sides: Sides
    watch: Watch


def programs_named(what: str, where: Where) -> Programs:
    """Return the programs of a side.

    `what` is the key of a build, or a directory. A directory whose name could be a key must be written as `./NAME`.

    Raises `MissingError` if the programs do not exist, `NotHeldError` for a build that did not compile, and
    `UsageError` for a container engine without an image.
    """
    about = where.connection.engine.about()
    directory = Path(what).expanduser()
    if directory.is_dir() or "/" in what:
        if not directory.is_dir():
            raise NoSuchBuild(f"{what} is not a directory", hint="name a directory of programs, or the key of a build")
        if about.isolated and where.image is None:
            raise AmbiguousName(f"{about.spec} runs containers, but no image is named", hint="add --image NAME")
        return Programs(
            directory=directory,
            platform=about.platform,
            image=where.image,
            gpus=uses_gpu(directory),
            library_path=where.library_path,
            name=str(directory),
        )
    stored = chosen_build(Store(cache_places().builds), what)
    programs = programs_of(stored, isolated=about.isolated, image=where.image)
    return programs if where.library_path is None else replace(programs, library_path=where.library_path)


def make_plan(wanted: Wanted, where: Where) -> Plan:
    """Make a plan. Only queries of the machine are run, and nothing is written.

    Raises `UsageError` for sides that cannot be compared, for a variable that loads a profiler, for a switch that no
    program of side B contains, and for a workload without primary rows. The sides may be equal only if `wanted.noise`
    is true. Raises `MissingError` if a side lacks the program of the workload. Also raises the errors of
    `programs_named`.
    """
    a, b = programs_named(wanted.a.what, where), programs_named(wanted.b.what, where)
    if a.gpus != b.gpus:
        raise SidesNotComparable("the sides cannot be compared: only one of them uses a GPU")
    side_a, side_b = _side(a, wanted.a.env), _side(b, wanted.b.env)
    same = (side_a.programs, side_a.env) == (side_b.programs, side_b.env)
    if same and not wanted.noise:
        raise SidesNotComparable(
            "both sides are the same: equal programs and equal variables",
            hint="run 'patchstack bench noise' to measure a side against itself",
        )
    for env in (side_a.env, side_b.env, wanted.workload.env):
        if (variable := profiler_of(env)) is not None:
            raise SettingsRefused(
                f"{variable} loads a profiler, so the throughput would not be valid",
                hint="compare without it; 'patchstack trace' analyses recorded runs",
            )
    for name in wanted.switch:
        if not _knows(b, name):
            raise SettingsRefused(
                f"no program of {b.name} contains the name {name}: the switch would have no effect",
                hint=f"check that the build contains the patch that reads {name}",
            )
    if not any(row.primary for row in wanted.rows):
        raise SettingsRefused(f"workload {wanted.workload.name} has no primary row")
    for programs in (a, b):
        if wanted.workload.program not in programs.names():
            raise NotInBuild(
                f"{wanted.workload.program} is not in {programs.directory}",
                hint=f"build it: patchstack build --target {wanted.workload.program}",
            )
    workload = _with_digests(wanted.workload, where, a)
    reference, beside = None, None
    if not wanted.no_reference:
        beside = programs_named(wanted.reference, where) if wanted.reference is not None else a
        reference = _side(beside, {})
    kind = KINDS[wanted.kind]()
    reference_workload = (kind.reference(workload) or workload) if reference is not None else None
    about = where.connection.engine.about()
    return named(
        Plan(
            comparison="",
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            machine=_machine(where, a),
            engine=about.spec,
            image=a.image,
            kind=kind.key,
            workload=workload,
            a=side_a,
            b=side_b,
            reference=reference,
            reference_workload=reference_workload,
            reference_within=wanted.within,
            rows=tuple(
                PlanRow(name=row.name, primary=row.primary, margin=row.margin, guard_margin=row.guard_margin)
                for row in wanted.rows
            ),
            alpha=wanted.alpha,
            most=wanted.most,
            demand=str(wanted.demand) if wanted.demand is not None else None,
            seed=secrets.randbits(48) if wanted.seed is None else wanted.seed,
            noise=wanted.noise,
            unplanned="",
        )
    )


def compare(plan: Plan, where: Where, *, whole: bool = False) -> Iterator[Progress]:
    """Run pairs until the outcome is decided, and yield the state after each pair.

    The plan is written first. Runs that already exist are not repeated. At most `plan.most` pairs are run. With
    `whole`, this number of pairs is run even if the outcome is decided earlier. The last state contains the outcome.

    Raises the errors of `open_runner` and `run_pairs`. `NotJudged` is not raised: it becomes the `failure` of the last
    state.
    """
    directory = write_plan(plan, where.comparisons)
    runs: list[PairRun] = []
    with locked_directory(directory, "comparison"), _opened(plan, where) as opened:
        known = usual_clock(_history(plan.machine))
        try:
            for run in run_pairs(plan, directory, opened.sides, opened.watch, usual_clock=known):
                runs.append(run)
                _remember(plan, run)
                progress = progress_of(plan, directory, runs)
                yield progress
                decided = progress.judged.outcome is not Outcome.UNDECIDED
                if len(runs) >= plan.most or (decided and not whole):
                    return
        except NotJudged as error:
            yield progress_of(plan, directory, runs, failure=error.message)


def progress_of(plan: Plan, directory: Path, runs: Sequence[PairRun], failure: str = "") -> Progress:
    """Return the state of a comparison after these pairs."""
    judged = judge(plan.judged_rows(), plan.rule(), judged_pairs(plan, runs))
    if failure:
        judged = replace(judged, outcome=Outcome.INVALID, reason=failure, demand_met=False if plan.demand else None)
    return Progress(plan=plan, directory=directory, pairs=tuple(runs), judged=judged, failure=failure)


def read_comparison(directory: Path, observations: Observations, *, margin: float | None = None) -> Progress:
    """Judge a comparison again from its runs. Nothing is run.

    `margin` replaces the margin of the primary rows. The result then shows that the margin was not planned.

    Raises `MissingError` if the comparison does not exist, `ConfigError` for a changed plan or record, and `NotJudged`
    for a missing or changed run.
    """
    plan = read_plan(directory)
    runs = recorded_pairs(plan, directory, observations)
    if margin is not None:
        rows = tuple(msgspec.structs.replace(row, margin=margin) if row.primary else row for row in plan.rows)
        plan = msgspec.structs.replace(plan, rows=rows, unplanned=f"a margin of {100 * margin:g}%, chosen afterwards")
    return progress_of(plan, directory, runs)


def comparisons_in(root: Path) -> tuple[Path, ...]:
    """Return the directories of comparisons, newest first."""
    found = [path.parent for path in root.glob(f"*/{PLAN}")] if root.is_dir() else []
    return tuple(sorted(found, key=lambda path: (path / PLAN).stat().st_mtime, reverse=True))


def expected_words(plan: Plan) -> str:
    """Return the expected duration of a comparison, as text.

    The duration is estimated from the last pair of the same workload on this machine.
    """
    each = recalled_duration(cache_places().durations, pair_key(plan))
    if each is None:
        return "not known: no pair of this workload has run here"
    least = least_tosses(plan.alpha / sum(row.primary for row in plan.rows))
    return f"{clock(each)} a pair the last time: {clock(each * least)} at least, {clock(each * plan.most)} at most"


@contextlib.contextmanager
def _opened(plan: Plan, where: Where) -> Iterator[_Opened]:
    """Open the programs of a plan, and lock the machine for the comparison.

    Raises `UsageError` if the programs or the machine differ from those in the plan. Also raises the errors of
    `open_runner`.
    """
    chosen = [_again(side, where) for side in (plan.a, plan.b, plan.reference)]
    a, b, reference = chosen
    assert a is not None and b is not None
    with contextlib.ExitStack() as stack:
        runner = stack.enter_context(
            open_runner(
                where.connection,
                a,
                observations=where.observations.directory,
                purpose=f"patchstack bench, comparison {plan.comparison}",
                kind=plan.kind,
                allow=where.allow,
            )
        )
        if runner.hardware != plan.machine:
            raise SidesNotComparable(
                f"comparison {plan.comparison} was planned for a different machine or driver: {plan.machine}",
                hint="make a new comparison: runs of different machines cannot be compared",
            )
        other = stack.enter_context(runner.beside(b))
        beside = stack.enter_context(runner.beside(reference)) if reference is not None else None
        ask = None
        if a.gpus:
            connection = where.connection
            ask = reach(connection.engine, connection.open_another, image=a.image, gpus=True).ask
        yield _Opened(
            sides=Sides(a=runner, b=other, reference=beside),
            watch=Watch(ask),
        )


def _again(side: PlanSide | None, where: Where) -> Programs | None:
    if side is None:
        return None
    programs = programs_named(side.key or f"{side.directory}/", where)
    if programs.digest() != side.programs:
        raise SidesNotComparable(
            f"the programs of {side.label} changed after the plan was made", hint="make a new comparison"
        )
    return programs


def _side(programs: Programs, env: Mapping[str, str]) -> PlanSide:
    return PlanSide(
        label=programs.name,
        key=programs.key,
        directory=str(programs.directory.absolute()),
        programs=programs.digest(),
        env=dict(sorted(env.items())),
    )


def _knows(programs: Programs, name: str) -> bool:
    """Return whether any of the program files contains the name of a variable."""
    wanted = name.encode()
    return any(wanted in (programs.directory / one).read_bytes() for one in programs.names())


def _machine(where: Where, programs: Programs) -> str:
    from patchstack.machine.hardware import hardware

    connection = where.connection
    reached = reach(connection.engine, connection.open_another, image=programs.image, gpus=programs.gpus)
    return hardware(reached.ask).identity()


def _with_digests(workload: Workload, where: Where, programs: Programs) -> Workload:
    """Return the workload with the digests of its models, so that a changed model is detected."""
    runner = Runner(
        where.connection.engine,
        programs,
        observations=where.observations,
        memory=cache_places().digests,
        context=_CONTEXT,
    )
    found = []
    for one in workload.models:
        digest = runner.digest_of(Model(name=one.name, path=one.path))
        if one.sha256 is not None and one.sha256 != digest:
            raise ModelMissing(f"model {one.name} does not match its digest: {one.path} has sha256 {digest}")
        found.append(msgspec.structs.replace(one, sha256=digest))
    return msgspec.structs.replace(workload, models=tuple(found))


def _history(machine: str) -> tuple[ReferenceRun, ...]:
    try:
        return history(cache_places().machine_history, machine)
    except MissingError:
        return ()


def _remember(plan: Plan, run: PairRun) -> None:
    """Add the reference runs of a pair to the history.

    Nothing is added if the cache cannot be written.
    """
    if plan.reference is None or plan.reference_workload is None:
        return
    seen = {one.slot: one.watched for one in run.record.runs}
    runs = []
    for slot, (name, figures) in enumerate(zip(REFERENCES, run.references, strict=True), 1):
        watched = seen[name]
        runs.append(
            ReferenceRun(
                at=run.record.began,
                machine=plan.machine,
                what=reference_name(plan),
                speed=reference_speed(plan.reference_workload, figures),
                clock=watched.clock if watched is not None else None,
                power=watched.power if watched is not None else None,
                temperature=watched.temperature if watched is not None else None,
                comparison=plan.comparison,
                pair=run.record.number,
                slot=slot,
            )
        )
    with contextlib.suppress(MissingError):
        remember(cache_places().machine_history, runs)


def reference_name(plan: Plan) -> str:
    """Return the name of the reference runs: a short digest of their programs, models and arguments."""
    import hashlib

    from patchstack.canonical import canonical

    assert plan.reference is not None and plan.reference_workload is not None
    models = [one.sha256 for one in plan.reference_workload.models]
    whole = canonical([plan.reference.programs, models, list(plan.reference_workload.args)])
    return hashlib.sha256(whole).hexdigest()[:12]
