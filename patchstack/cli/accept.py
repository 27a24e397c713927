"""`patchstack accept`: verify, build and gate candidates, write the decision, and export the series."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import BadValue, OptionConflict, ProgramMissing, SigningRefused
from patchstack.cli.checks import engine_of
from patchstack.cli.complete import complete_suite, complete_variant
from patchstack.cli.failures import talk, tell_longest
from patchstack.cli.ledger import RefArgument, SeriesOption, SignersOption
from patchstack.cli.options import (
    EngineOption,
    OfflineOption,
    PolicyOption,
    WorkspaceOption,
    one_series,
    open_cache,
    the_workspace,
    work_alone,
)
from patchstack.cli.proving import proving_machine

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from patchstack.builds.inputs.plan import Request
    from patchstack.evidence.ledger import Candidate, Decision, Ledger
    from patchstack.evidence.origin import Recorded
    from patchstack.workflow.candidate.accept import AcceptStep, Terms
    from patchstack.workflow.candidate.acceptance import Accepted
    from patchstack.workflow.candidate.candidate import CandidateRange
    from patchstack.workflow.machine import ProvingMachine
    from patchstack.workspace import Workspace


def _refuse(benchmark: list[Path] | None) -> list[Path] | None:
    """Raise `UsageError` if the removed option `--benchmark` is given."""
    if benchmark:
        raise BadValue(
            "--benchmark was removed: a file that says PASS proves nothing",
            hint="set accept: {bench: [{workload: NAME, demand: keep}]} in patchstack.yaml; run patchstack bench ab",
        )
    return benchmark


def accept_command(
    ref: RefArgument,
    why: Annotated[
        str, typer.Option(metavar="TEXT", help="Why the change is worth having; stored in the ledger.")
    ] = "",
    series: SeriesOption = None,
    variant: Annotated[
        str | None,
        typer.Option(metavar="NAME", autocompletion=complete_variant, help="The variant [default: the series']."),
    ] = None,
    arch: Annotated[
        str | None, typer.Option(metavar="ARCH", help="The CUDA architecture, instead of a variant.")
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(metavar="NAME", autocompletion=complete_suite, help="The suite [default: the only one]."),
    ] = None,
    without_gates: Annotated[bool, typer.Option("--without-gates", help="Run no gates.")] = False,
    benchmark: Annotated[list[Path] | None, typer.Option(metavar="FILE", hidden=True, callback=_refuse)] = None,
    unproven: Annotated[
        list[str] | None, typer.Option(metavar="PROOF", help="Accept this proof even if it is INVALID. Repeatable.")
    ] = None,
    switch_unproven: Annotated[
        str | None,
        typer.Option(metavar="REASON", help="Why a switch is accepted without a gate that proves its effect."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Repeat all observations, even if they are stored.")] = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop after the first gate that FAILs.")] = False,
    sign: Annotated[
        Path | None, typer.Option(metavar="KEY", help="Sign the decision with this private key (see ssh-keygen).")
    ] = None,
    signers: SignersOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be done, and what is already recorded.")
    ] = False,
    engine: EngineOption = None,
    image: Annotated[str | None, typer.Option(metavar="NAME", help="The container image.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.accept/1 document.")] = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
    policy: PolicyOption = None,
) -> None:
    """Accept a commit of the fork: check everything, write the decision, and export the series.

    If the command was interrupted, it can be run again.
    """
    from patchstack.builds.inputs.plan import Request
    from patchstack.evidence.ledger import Ledger
    from patchstack.verdict import exit_code
    from patchstack.workflow.candidate.acceptance import accept
    from patchstack.workflow.candidate.candidate import described, ledger_directory, open_candidates

    _begin(sign, workspace, ref, dry_run=dry_run)
    found = the_workspace(workspace)
    cache, ledger = open_cache(offline=offline), Ledger(ledger_directory(found.root))
    way = open_candidates(one_series(found, [series] if series else ()), cache, ref)
    wanted = _terms(found, suite, without_gates, unproven or (), way, switch_unproven)
    terms = replace(wanted, engine=engine_of(engine, workspace), fail_fast=fail_fast)
    _warn(way, candidates := described(way), ledger)
    asked = Request(variant=variant or None, arch=arch, image=image)
    with _machine(found, way, engine, asked, terms, signers, offline=offline, again=again) as machine:
        if dry_run:
            _plan(way, terms, machine)
            return
        with _steps() as told:
            done = accept(way, candidates, cache, terms, machine, ledger, why=why, told=told, decided=_decided)
    _sign(done.decision, ledger, sign)
    _print(done, json=json)
    if code := exit_code(done.verdicts):
        raise typer.Exit(int(code))


def _begin(key: Path | None, workspace: Path | None, ref: str, *, dry_run: bool) -> None:
    """If a key is given, check that signing is possible. Unless `dry_run` is true, lock the workspace.

    Raises `UsageError` if the key does not exist, and `MissingError` if ssh-keygen is not installed.
    """
    if key is not None and not key.is_file():
        raise SigningRefused(f"key {key} does not exist", hint="create it: ssh-keygen -t ed25519 -f KEY")
    if key is not None and shutil.which("ssh-keygen") is None:
        raise ProgramMissing("--sign needs ssh-keygen, which is not installed here", hint="install openssh-client")
    if not dry_run:
        work_alone(workspace, f"patchstack accept {ref}")


def _machine(
    workspace: Workspace,
    way: CandidateRange,
    engine: str | None,
    request: Request,
    terms: Terms,
    signers: str | None,
    *,
    offline: bool,
    again: bool,
) -> AbstractContextManager[ProvingMachine]:
    return proving_machine(
        workspace,
        way.config,
        engine,
        request,
        purpose="patchstack accept",
        allow=terms.allow,
        offline=offline,
        again=again,
        recorded=_signed_evidence(workspace, signers),
    )


def _terms(
    workspace: Workspace,
    suite: str | None,
    without_gates: bool,
    unproven: Iterable[str],
    way: CandidateRange,
    switch_unproven: str | None,
) -> Terms:
    import functools

    from patchstack.bench.terms import read_terms
    from patchstack.gates.suite import find_suite, read_suites
    from patchstack.workflow.brought_gates import read_brought
    from patchstack.workflow.candidate.accept import Terms
    from patchstack.workflow.candidate.new_gates import brought, read_brings

    if without_gates and suite is not None:
        raise OptionConflict("--without-gates and --suite exclude each other")
    suites = read_suites(workspace)
    chosen = None if without_gates else find_suite(suites, suite, workspace.path)
    asked = chosen.name if chosen is not None else None
    bring = functools.partial(read_brought, workspace) if workspace.policy is not None else None
    brings = read_brings(brought(way), suites, switch_unproven, asked=asked, bring=bring)
    return Terms(suite=chosen, bench=read_terms(workspace), brings=brings, unproven=frozenset(unproven))


def _signed_evidence(workspace: Workspace, signers: str | None) -> Recorded | None:
    """Return the records of the decisions that an allowed signer signed. Return None if `signers` is None."""
    from patchstack.workflow.ledger.recorded import signed_evidence
    from patchstack.workflow.ledger.signers import find_signers

    if signers is None:
        return None
    return signed_evidence(workspace.root, find_signers(signers, workspace.root))


def _sign(decision: Decision | None, ledger: Ledger, key: Path | None) -> None:
    """Sign the decision. Do nothing if there is no decision, or if no key was given."""
    from patchstack.evidence.signing import sign

    if decision is None or key is None:
        return
    talk(f"signature: {sign(decision, ledger.directory, key)}")


def _warn(way: CandidateRange, candidates: Sequence[Candidate], ledger: Ledger) -> None:
    """Print warnings before the builds, which are expensive, and before the decision, which is permanent."""
    from patchstack.report.ledger import likeness_line
    from patchstack.workflow.candidate.acceptance import warnings

    unpushed, likenesses = warnings(way, candidates, ledger)
    if unpushed:
        talk(f"warning: {unpushed}")
    for likeness in likenesses:
        talk(likeness_line(likeness))


def _plan(way: CandidateRange, terms: Terms, machine: ProvingMachine) -> None:
    from patchstack.report.accept import plan_lines
    from patchstack.workflow.candidate.acceptance import planned_builds

    for line in plan_lines(way, terms, planned_builds(way, machine), machine.workspace.root / "ledger"):
        print(line)


@contextlib.contextmanager
def _steps() -> Iterator[Callable[[AcceptStep, float], None]]:
    """Yield a function that prints a finished step. At the end, print the step that took the most time."""
    from patchstack.workflow.candidate.accept import step_line

    taken: list[tuple[str, float]] = []

    def told(step: AcceptStep, seconds: float) -> None:
        talk(step_line(step, seconds))
        taken.append((step.name, seconds))

    yield told
    tell_longest(taken)


def _decided(file: Path) -> None:
    talk(f"decision: {file}")


def _print(done: Accepted, *, json: bool) -> None:
    from patchstack.report.accept import accepted_line, exported_line

    if done.export is not None:
        talk(exported_line(done.export))
    if json:
        from patchstack.report.documents.accept import accept_document

        print(accept_document(done).line)
    else:
        print(accepted_line(done))
