"""`patchstack accept`: verify, build, prove, gate, decide, export."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.canonical import one_line
from patchstack.cli.complete import complete_suite, complete_variant
from patchstack.cli.failures import talk, tell_longest
from patchstack.cli.ledger import RefArgument, SeriesOption
from patchstack.cli.options import (
    EngineOption,
    OfflineOption,
    WorkspaceOption,
    one_series,
    open_cache,
    open_chosen_engine,
    the_workspace,
)
from patchstack.cli.proving import ProvingMachine
from patchstack.errors import UsageError
from patchstack.report.text import patch_count
from patchstack.tasks import task, timed

if TYPE_CHECKING:
    from patchstack.workflow.candidate.accept import AcceptStep
    from patchstack.workflow.candidate.candidate import OnTheWay


def accept_command(
    ref: RefArgument,
    why: Annotated[str, typer.Option(metavar="TEXT", help="Why it is worth having; kept in the ledger.")] = "",
    series: SeriesOption = None,
    variant: Annotated[
        str | None,
        typer.Option(metavar="NAME", autocompletion=complete_variant, help="The variant [default: the series']."),
    ] = None,
    arch: Annotated[str | None, typer.Option(metavar="ARCH", help="The CUDA architecture instead.")] = None,
    suite: Annotated[
        str | None,
        typer.Option(metavar="NAME", autocompletion=complete_suite, help="The suite [default: the only one]."),
    ] = None,
    without_gates: Annotated[bool, typer.Option("--without-gates", help="Ask for no gates.")] = False,
    benchmark: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A result that must say PASS. Repeatable.")
    ] = None,
    unproven: Annotated[
        list[str] | None, typer.Option(metavar="PROOF", help="Let this proof stay INVALID. Repeatable.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done, and what is known.")] = False,
    engine: EngineOption = None,
    image: Annotated[str | None, typer.Option(metavar="NAME", help="The container image.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.accept/1 document.")] = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Accept a commit of the fork: everything must hold, then it is written down and exported. Can be run again."""
    from patchstack.builds.inputs.plan import Request
    from patchstack.builds.inputs.variant import series_variant
    from patchstack.evidence.ledger import Ledger
    from patchstack.gates.suite import find_suite, read_suites
    from patchstack.report.ledger import likeness_line
    from patchstack.series.history import check_pushed
    from patchstack.verdict import exit_code
    from patchstack.workflow.candidate.accept import Terms, alike, decide, examine, step_line
    from patchstack.workflow.candidate.candidate import described, ledger_directory, open_candidates
    from patchstack.workflow.candidate.pending import keep

    found = the_workspace(workspace)
    config = one_series(found, [series] if series else ())
    if without_gates and suite is not None:
        raise UsageError("--without-gates and --suite exclude each other")
    chosen = None if without_gates else find_suite(read_suites(found.path), suite, found.path)
    terms = Terms(suite=chosen, benchmarks=tuple(benchmark or ()), unproven=frozenset(unproven or ()))
    cache = open_cache(offline=offline)
    way = open_candidates(config, cache, ref)
    # Before the builds, which are dear, and before the decision, which cannot be taken back. A candidate may be on a
    # branch of its own, which the fork's branch takes in afterwards.
    branches = dict.fromkeys((way.fork.branch, config.fork_ref or way.fork.branch))
    if warning := check_pushed(way.repository, way.head.oid, *branches, required=config.require_pushed):
        talk(f"warning: {warning}")
    candidates = described(way)
    ledger = Ledger(ledger_directory(found.root))
    for likeness in alike(candidates, ledger):
        talk(likeness_line(likeness))
    request = Request(variant=variant or None, arch=arch, image=image)
    steps: list[AcceptStep] = []
    with contextlib.closing(open_chosen_engine(engine, found)) as ready:
        allow = terms.suite.allow if terms.suite is not None else ()
        machine = ProvingMachine(
            found,
            ready,
            request,
            default=series_variant(config),
            purpose="patchstack accept",
            spec=engine,
            allow=allow,
            offline=offline,
        )
        if dry_run:
            _plan(way, machine, terms.suite.name if terms.suite else None, [str(path) for path in terms.benchmarks])
            return
        taken: list[tuple[str, float]] = []
        for step, seconds in timed(examine(way, cache, terms, machine.build, machine.bench)):
            talk(step_line(step, seconds))
            steps.append(step)
            taken.append((step.name, seconds))
        tell_longest(taken)
    code = exit_code(step.verdict for step in steps)
    decision = None
    if not code:
        decision, path = decide(way, candidates, steps, ledger, why=why)
        talk(f"decision: {path}")
        with task("export"):
            _export(way, cache.root)
    else:
        keep(found.root, way, steps)
    if json:
        document = {
            "schema": "patchstack.accept/1",
            "series": config.name,
            "commits": [one.commit for one in candidates],
            "accepted": decision is not None,
            "decision": decision.id if decision is not None else None,
            "steps": [dataclasses.asdict(step) for step in steps],
        }
        print(one_line(document))
    elif decision is not None:
        print(f"accepted {', '.join(one.commit[:12] for one in candidates)}: the series {config.name} has it now")
    else:
        bad = ", ".join(step.name for step in steps if str(step.verdict) != "PASS")
        print(f"not accepted: {bad}. The series is as it was")
    if code:
        raise typer.Exit(int(code))


def _plan(way: OnTheWay, machine: ProvingMachine, suite: str | None, benchmarks: list[str]) -> None:
    """What would be done, and what of it is known."""
    print(f"accept {', '.join(commit.oid[:12] for commit in way.new)} of {way.config.name}:")
    print(f"  verify     the series against the fork at {way.before.oid[:12]}")
    for which, commit in (("before", way.before), ("candidate", way.head)):
        key = machine.inputs(way.source(commit)).key.hex
        state = "known" if machine.store.find(key) is not None else "to be built"
        print(f"  build      {which} {commit.oid[:12]}: {key[:12]}, {state}")
        if suite is not None:
            print(f"  gates      {which}: suite {suite}")
    for path in benchmarks:
        print(f"  benchmark  {path}")
    print(f"  decision   {machine.workspace.root / 'ledger'}")
    print(f"  export     {way.config.patches}")


def _export(way: OnTheWay, cache: Callable[[], Path]) -> None:
    """Export the fork up to the candidate."""
    from patchstack.series.mirror.export import carry_out, plan_export
    from patchstack.series.mirror.format_cache import FormatMemory

    config = way.config
    fork = dataclasses.replace(way.fork, branch=config.fork_ref or way.fork.branch)
    plan = plan_export(
        way.sources.objects,
        way.repository,
        config.name,
        config.patches,
        way.sources.base,
        fork,
        context=config.context,
        anchored=config.anchored,
        policy=config.lint,
        waivers=config.waive,
        memory=FormatMemory.of(cache, way.repository, context=config.context, anchored=config.anchored),
    )
    carry_out(plan)
    talk(f"exported: {patch_count(len(plan.files))} in {config.patches}")
