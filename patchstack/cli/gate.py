"""`patchstack gate`: run the checks that a build must pass."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import ReasonMissing, UnknownName
from patchstack.cli.complete import complete_gate, complete_suite, complete_variant
from patchstack.cli.failures import complain, talk, tell_longest
from patchstack.cli.gate_kind import AgainOption, ImageOption, kind_command
from patchstack.cli.lazy import STYLE, Lazy, group_of
from patchstack.cli.ledger import SeriesOption, SignersOption
from patchstack.cli.options import (
    EngineOption,
    OfflineOption,
    PolicyOption,
    WorkspaceOption,
    open_cache,
    the_workspace,
)
from patchstack.cli.proving import connected
from patchstack.gates.registry import KINDS
from patchstack.tasks import timed

if TYPE_CHECKING:
    from patchstack.evidence.origin import Recorded
    from patchstack.gates.suite import Suite
    from patchstack.report.gate import Checked
    from patchstack.workflow.gates import Prepared, ProgramsRequest
    from patchstack.workspace import Workspace


ALONE = {
    name: Lazy(functools.partial(kind_command, entry), entry.summary, "One gate alone") for name, entry in KINDS.items()
}
gate_app = typer.Typer(cls=group_of(ALONE), no_args_is_help=True, help="The checks that a build must pass.", **STYLE)

SuiteOption = Annotated[
    str | None,
    typer.Option("--suite", metavar="NAME", autocompletion=complete_suite, help="The suite [default: the only one]."),
]
BuildOption = Annotated[
    str | None,
    typer.Option("--build", metavar="KEY", help="The key of the build [default: the build of the current series]."),
]
ProgramsOption = Annotated[
    Path | None, typer.Option("--bin", metavar="DIR", help="A directory of programs to use instead of a build.")
]

VariantOption = Annotated[
    str | None,
    typer.Option(
        "--variant",
        metavar="NAME",
        autocompletion=complete_variant,
        help="The variant of the build [default: the variant of the series].",
    ),
]


@gate_app.command("run")
def run_command(
    gates: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="GATE", autocompletion=complete_gate, help="The gates of the suite to run [default: all]."
        ),
    ] = None,
    suite: SuiteOption = None,
    build: BuildOption = None,
    bin: ProgramsOption = None,  # noqa: A002  (the option's name)
    series: SeriesOption = None,
    variant: VariantOption = None,
    engine: EngineOption = None,
    image: ImageOption = None,
    again: AgainOption = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop after the first gate that FAILs.")] = False,
    signers: SignersOption = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write gate_summary.tsv, gates.md, junit.xml and gates.json to DIR."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.gates/1 document.")] = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
    policy: PolicyOption = None,
) -> None:
    """Run a suite on a build.

    Stored observations are not repeated, but their verdicts are computed again.
    """
    from patchstack.verdict import exit_code
    from patchstack.workflow.gates import ProgramsRequest

    found = the_workspace(workspace)
    chosen = _suite(found, suite).only(gates) if gates else _suite(found, suite)
    request = ProgramsRequest(
        build=build, directory=bin, series=series, variant=variant, engine=engine, offline=offline
    )
    started = time.monotonic()
    with _prepared(found, request, image, chosen, again=again, partly=True, signers=signers) as ready:
        talk(f"suite {chosen.name} on {ready.what}")
        checks = _run_gates(chosen, ready, fail_fast=fail_fast)
        checks += _run_brought(found, chosen, ready) if not gates else []
    if report is not None:
        _write(report, checks, ready)
    _print(checks, chosen.name, ready, time.monotonic() - started, json=json)
    if code := exit_code(one.judgement.verdict for one in checks):
        raise typer.Exit(int(code))


def _run_gates(suite: Suite, ready: Prepared, *, fail_fast: bool) -> list[Checked]:
    """Run the gates of a suite, and print each result immediately.

    If `fail_fast` is true, stop after the first FAIL.
    """
    from patchstack.gates.suite import run_suite
    from patchstack.report.gate import Checked, gate_line
    from patchstack.report.text import counted
    from patchstack.verdict import Verdict

    checks: list[Checked] = []
    taken: list[tuple[str, float]] = []
    for (gate, judgement), seconds in timed(run_suite(suite, ready.runner, unfit=ready.unfit)):
        talk(gate_line(gate.name, judgement, seconds))
        checks.append(Checked(phase=suite.name, check=gate.name, kind=gate.kind, judgement=judgement))
        taken.append((gate.name, seconds))
        if fail_fast and judgement.verdict is Verdict.FAIL:
            left = len(suite.gates) - len(checks)
            if left:
                talk(f"stopped after the first FAIL: {counted(left, 'gate')} {'was' if left == 1 else 'were'} not run")
            break
    tell_longest(taken)
    return checks


def _run_brought(workspace: Workspace, suite: Suite, ready: Prepared) -> list[Checked]:
    """Run the gates that the patches declare but the policy does not, and print each result immediately.

    Without `--policy-from`, run nothing.
    """
    if workspace.policy is None:
        return []
    from patchstack.gates.suite import read_suites
    from patchstack.report.gate import Checked, gate_line
    from patchstack.workflow.brought_gates import brought_gates, run_brought

    checks: list[Checked] = []
    brought = brought_gates(workspace, read_suites(workspace))
    for (one, judgement), seconds in timed(run_brought(brought, ready.runner, suite, ready.unfit)):
        talk(gate_line(one.title, judgement, seconds))
        kind = one.gate.kind if one.gate is not None else "unknown"
        checks.append(Checked(phase=suite.name, check=one.title, kind=kind, judgement=judgement))
    return checks


def _print(checks: list[Checked], suite: str, ready: Prepared, seconds: float, *, json: bool) -> None:
    if json:
        from patchstack.report.documents.gates import gates_document

        print(gates_document(checks, suite=suite, programs=ready.what, build=ready.build).line)
        return
    from patchstack.report.gate import print_checks

    print_checks(checks, seconds)


@gate_app.command("list")
def list_command(
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.suites/1 document.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """List the suites of the workspace and their gates. Runs nothing."""
    from patchstack.gates.suite import NO_SUITES, read_suites
    from patchstack.report.table import Give, Table, print_table

    found = the_workspace(workspace)
    suites = read_suites(found)
    if json:
        from patchstack.report.documents.suites import SuiteEntry, SuiteGate, SuitesDocument

        entries = (
            SuiteEntry(
                suite=one.name,
                what=one.what,
                gates=tuple(SuiteGate(name=gate.name, kind=gate.kind) for gate in one.gates),
            )
            for one in suites
        )
        print(SuitesDocument(suites=tuple(entries)).line)
        return
    rows = [[one.name, gate.name, gate.kind, f"{found.path}:{gate.line}"] for one in suites for gate in one.gates]
    if not rows:
        raise UnknownName(f"{found.path} has no suites", hint=NO_SUITES)
    titles = ("suite", "gate", "kind", "where")
    print_table(Table(titles=titles, rows=rows, styles={}, gives={"where": Give.MIDDLE}))


@gate_app.command("record")
def record_command(
    gate: Annotated[
        str, typer.Argument(metavar="GATE", autocompletion=complete_gate, help="The gate whose reference is recorded.")
    ],
    why: Annotated[
        str, typer.Option(metavar="TEXT", help="Why this output is expected. The reason is written as a comment.")
    ],
    because: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GATE",
            autocompletion=complete_gate,
            help="A kl, drift or tokens gate that shows that the model is the same (repeat).",
        ),
    ] = None,
    suite: SuiteOption = None,
    build: BuildOption = None,
    bin: ProgramsOption = None,  # noqa: A002  (the option's name)
    series: SeriesOption = None,
    variant: VariantOption = None,
    engine: EngineOption = None,
    image: ImageOption = None,
    again: AgainOption = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Record a gate's output as its new reference.

    A changed transcript needs evidence that the model is the same.
    """
    from patchstack.report.gate import gate_line
    from patchstack.workflow.gates import ProgramsRequest, record_gate, suite_to_record

    if not why.strip():
        raise ReasonMissing("a reference needs a reason", hint='--why "what changed, and why the change is allowed"')
    found = the_workspace(workspace)
    whole, named = _suite(found, suite), tuple(because or ())
    chosen = suite_to_record(whole, gate, named)
    request = ProgramsRequest(
        build=build, directory=bin, series=series, variant=variant, engine=engine, offline=offline
    )
    with _prepared(found, request, image, chosen, again=again) as ready:
        talk(f"recording {gate} from {ready.what}")
        taken = record_gate(
            found.path,
            chosen,
            gate,
            ready.runner,
            because=named,
            why=why.strip(),
            told=lambda name, judgement, seconds: talk(gate_line(name, judgement, seconds)),
        )
    for one in taken:
        print(f"{whole.name}/{gate} {'.'.join(one.keys)}: {one.old if one.old is not None else 'nothing'} -> {one.new}")


@gate_app.command("summary")
def summary_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory of `gate run --report`.")],
    json: Annotated[bool, typer.Option("--json", help="Print the patchstack.gates/1 document.")] = False,
) -> None:
    """Show the result of a gate run from its files. Runs nothing."""
    from patchstack.report.documents.gates import checks_of, read_gates_document
    from patchstack.report.gate import print_checks
    from patchstack.verdict import exit_code

    document = read_gates_document(directory / "gates.json")
    checks = checks_of(document)
    if json:
        print(document.line)
    else:
        print_checks(checks)
    if code := exit_code(one.judgement.verdict for one in checks):
        raise typer.Exit(int(code))


def _recorded(workspace: Workspace, signers: str | None) -> Recorded | None:
    from patchstack.workflow.ledger.recorded import recorded_evidence
    from patchstack.workflow.ledger.signers import find_signers

    listed = find_signers(signers, workspace.root) if signers is not None else None
    return recorded_evidence(workspace.root, listed)


def _suite(workspace: Workspace, name: str | None) -> Suite:
    from patchstack.gates.suite import find_suite, read_suites

    return find_suite(read_suites(workspace), name, workspace.path)


@contextlib.contextmanager
def _prepared(
    workspace: Workspace,
    request: ProgramsRequest,
    image: str | None,
    suite: Suite,
    *,
    again: bool,
    partly: bool = False,
    signers: str | None = None,
) -> Iterator[Prepared]:
    """Yield the chosen programs with a runner for the gates of a suite."""
    from patchstack.workflow.gates import choose_programs, prepare_suite

    recorded = _recorded(workspace, signers)
    with connected(request.engine_spec(), workspace) as connection:
        chosen = choose_programs(request, connection, workspace, open_cache(offline=request.offline))
        with prepare_suite(
            connection,
            workspace,
            chosen,
            suite,
            image=image,
            again=again,
            partly=partly,
            recorded=recorded,
            offline=request.offline,
        ) as ready:
            if ready.refusal is not None:
                complain(f"{ready.refusal}\n")
            yield ready


def _write(directory: Path, checks: list[Checked], ready: Prepared) -> None:
    from patchstack.report.documents.gates import gates_document
    from patchstack.report.gate import junit, markdown, tsv

    directory.mkdir(parents=True, exist_ok=True)
    (directory / "gate_summary.tsv").write_text(tsv(checks), encoding="utf-8")
    (directory / "gates.md").write_text(markdown(checks), encoding="utf-8")
    (directory / "junit.xml").write_text(junit(checks), encoding="utf-8")
    document = gates_document(checks, suite=checks[0].phase if checks else "", programs=ready.what, build=ready.build)
    (directory / "gates.json").write_bytes(document.indented)
    talk(f"wrote gate_summary.tsv, gates.md, junit.xml and gates.json to {directory}")
