"""`patchstack gate`: the checks that a build must pass."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.cli.complete import complete_gate, complete_suite
from patchstack.cli.failures import complain, talk, tell_longest
from patchstack.cli.gate_kind import AgainOption, ImageOption, kind_command
from patchstack.cli.lazy import STYLE, Lazy, group_of
from patchstack.cli.ledger import SignersOption
from patchstack.cli.options import (
    EngineOption,
    WorkspaceOption,
    the_workspace,
)
from patchstack.cli.proving import connected
from patchstack.errors import UsageError
from patchstack.files.places import cache_places
from patchstack.gates.registry import KINDS
from patchstack.tasks import timed

if TYPE_CHECKING:
    from patchstack.evidence.origin import Recorded
    from patchstack.gates.suite import Suite
    from patchstack.observe.runner import Runner
    from patchstack.report.gate import Checked
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
    str | None, typer.Option("--build", metavar="KEY", help="The build, by its key [default: the newest].")
]
ProgramsOption = Annotated[
    Path | None, typer.Option("--bin", metavar="DIR", help="Any directory of programs, instead of a build.")
]


@gate_app.command("run")
def run_command(
    gates: Annotated[
        list[str] | None,
        typer.Argument(metavar="GATE", autocompletion=complete_gate, help="Gates of the suite [default: all]."),
    ] = None,
    suite: SuiteOption = None,
    build: BuildOption = None,
    bin: ProgramsOption = None,  # noqa: A002  (the option's name)
    engine: EngineOption = None,
    image: ImageOption = None,
    again: AgainOption = False,
    signers: SignersOption = None,
    report: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write gate_summary.tsv, gates.md, junit.xml, gates.json.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.gates/1 document.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Run a suite on a build. What is known already is not run again; the verdict is drawn anew."""
    from patchstack.gates.suite import run_suite
    from patchstack.report.gate import Checked, gate_line, print_checks
    from patchstack.verdict import exit_code

    found = the_workspace(workspace)
    chosen = _suite(found, suite).only(gates) if gates else _suite(found, suite)
    checks: list[Checked] = []
    recorded = _recorded(found, signers)
    started = time.monotonic()
    with _bench(found, build, bin, engine, image, chosen, again=again, partly=True, recorded=recorded) as (
        bench,
        what,
        unfit,
    ):
        talk(f"suite {chosen.name} on {what}")
        taken: list[tuple[str, float]] = []
        for (gate, judgement), seconds in timed(run_suite(chosen, bench, unfit=unfit)):
            talk(gate_line(gate.name, judgement, seconds))
            checks.append(Checked(phase=chosen.name, check=gate.name, kind=gate.kind, judgement=judgement))
            taken.append((gate.name, seconds))
        tell_longest(taken)
    if report is not None:
        _write(report, checks, what)
    if json:
        from patchstack.report.documents.gates import gates_document

        print(gates_document(checks, suite=chosen.name, programs=what).line)
    else:
        print_checks(checks, time.monotonic() - started)
    if code := exit_code(one.judgement.verdict for one in checks):
        raise typer.Exit(int(code))


@gate_app.command("list")
def list_command(
    json: Annotated[bool, typer.Option("--json", help="Print a document.")] = False, workspace: WorkspaceOption = None
) -> None:
    """The suites of the workspace and their gates. Runs nothing."""
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
        raise UsageError(f"{found.path} has no suites", hint=NO_SUITES)
    titles = ("suite", "gate", "kind", "where")
    print_table(Table(titles=titles, rows=rows, styles={}, gives={"where": Give.MIDDLE}))


@gate_app.command("record")
def record_command(
    gate: Annotated[
        str, typer.Argument(metavar="GATE", autocompletion=complete_gate, help="The gate whose reference is taken.")
    ],
    why: Annotated[str, typer.Option(metavar="TEXT", help="Why this is what it must give; stands beside it.")],
    because: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GATE",
            autocompletion=complete_gate,
            help="A kl, drift or tokens gate that allows a changed one (repeat).",
        ),
    ] = None,
    suite: SuiteOption = None,
    build: BuildOption = None,
    bin: ProgramsOption = None,  # noqa: A002  (the option's name)
    engine: EngineOption = None,
    image: ImageOption = None,
    again: AgainOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Take what a gate gives as its new reference. A changed transcript needs evidence that the model is the same."""
    from datetime import UTC, datetime

    from patchstack.gates.reference.admissible import EVIDENCE, allowed
    from patchstack.gates.reference.record import base_of, changed, references, write_references
    from patchstack.gates.suite import run_suite
    from patchstack.report.gate import gate_line

    if not why.strip():
        raise UsageError("a reference without a reason is worth nothing", hint='--why "what changed, and why it may"')
    found = the_workspace(workspace)
    whole = _suite(found, suite)
    named = tuple(because or ())
    chosen = whole.only([gate, *named])
    if strangers := [one.name for one in chosen.gates if one.name in named and one.kind not in EVIDENCE]:
        raise UsageError(f"gate {', '.join(strangers)} is no evidence", hint=f"one of kind {', '.join(EVIDENCE)} is")
    with _bench(found, build, bin, engine, image, chosen, again=again) as (bench, what, _):
        talk(f"recording {gate} from {what}")
        judged = {}
        for (ran, judgement), seconds in timed(run_suite(chosen, bench)):
            talk(gate_line(ran.name, judgement, seconds))
            judged[ran.name] = (ran, judgement)
        entry, judgement = judged[gate]
        taken = references(entry.kind, judgement)
        replaced = changed(taken)
        told = allowed(judged[gate], replaced, [judged[name] for name in named], bench) if replaced else ""
        base = base_of(entry.settings, bench.files.key)
    stamp = f"{datetime.now(UTC):%Y-%m-%d}: {why.strip()}" + (f" ({told})" if told else "")
    if base is not None:
        taken = (*taken, base)
    write_references(found.path, whole.name, gate, taken, stamp)
    for one in taken:
        print(f"{whole.name}/{gate} {'.'.join(one.keys)}: {one.old if one.old is not None else 'nothing'} -> {one.new}")


@gate_app.command("summary")
def summary_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where `gate run --report` wrote.")],
    json: Annotated[bool, typer.Option("--json", help="Print the document.")] = False,
) -> None:
    """What a run said, from the files it left. Runs nothing."""
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
def _bench(
    workspace: Workspace,
    build: str | None,
    directory: Path | None,
    engine: str | None,
    image: str | None,
    suite: Suite,
    *,
    again: bool,
    partly: bool = False,
    recorded: Recorded | None = None,
) -> Iterator[tuple[Runner, str, str | None]]:
    """A bench for a build or a directory on a machine that is fit for the suite, with the workspace's observations; and
    what it is of, in words. With `partly` it may be one without GPUs: then the third says why."""
    from patchstack.builds.record.store import Store
    from patchstack.machine.gpu.lock import GpuTaken
    from patchstack.observe.exclusive import NotFit
    from patchstack.observe.from_build import chosen_build, engine_of, programs_of
    from patchstack.observe.layout import Programs, uses_gpu
    from patchstack.workflow.machine import open_runner

    if build is not None and directory is not None:
        raise UsageError("give --build or --bin, not both")
    stored = None if directory is not None else chosen_build(Store(cache_places().builds), build, None)
    spec = engine or (engine_of(stored) if stored is not None else "host")
    with connected(spec, workspace) as connection:
        about = connection.engine.about()
        if stored is not None:
            programs = programs_of(stored, isolated=about.isolated, image=image)
            what = f"build {stored.key[:12]} ({stored.record['source']['label']}) on {about.spec}"
        else:
            assert directory is not None
            gpus = uses_gpu(directory)
            programs = Programs(directory=directory, platform=about.platform, image=image, gpus=gpus)
            what = f"{directory} on {about.spec}"
        if about.isolated and programs.image is None:
            raise UsageError(f"{about.spec} runs containers: of which image?", hint="--image NAME")
        standing = functools.partial(
            open_runner,
            connection,
            programs,
            observations=cache_places().observations,
            recorded=recorded,
            purpose=f"patchstack gate run {suite.name}",
            allow=suite.allow,
            again=again,
        )
        with contextlib.ExitStack() as stack:
            unfit = None
            try:
                bench = stack.enter_context(standing(gpus=any(gate.gpu for gate in suite.gates)))
            except (NotFit, GpuTaken) as error:
                if not partly:
                    raise
                complain(f"{error.render()}\n")
                unfit = error.message
                bench = stack.enter_context(standing(gpus=False))
            yield bench, what, unfit


def _write(directory: Path, checks: list[Checked], what: str) -> None:
    from patchstack.report.documents.gates import gates_document
    from patchstack.report.gate import junit, markdown, tsv

    directory.mkdir(parents=True, exist_ok=True)
    (directory / "gate_summary.tsv").write_text(tsv(checks), encoding="utf-8")
    (directory / "gates.md").write_text(markdown(checks), encoding="utf-8")
    (directory / "junit.xml").write_text(junit(checks), encoding="utf-8")
    document = gates_document(checks, suite=checks[0].phase if checks else "", programs=what)
    (directory / "gates.json").write_bytes(document.indented)
    talk(f"wrote gate_summary.tsv, gates.md, junit.xml and gates.json to {directory}")
