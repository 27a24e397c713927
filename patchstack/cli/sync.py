"""`patchstack sync`: the fork on a new pin, patch by patch."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.cli.complete import complete_number, complete_series
from patchstack.cli.failures import talk
from patchstack.cli.options import (
    EngineOption,
    OfflineOption,
    WorkspaceOption,
    one_series,
    open_cache,
    the_workspace,
)
from patchstack.errors import Exit, UsageError
from patchstack.report.text import patch_count
from patchstack.tasks import task

if TYPE_CHECKING:
    from patchstack.gates.suite import Suite
    from patchstack.workflow.sync.checks import Proving
    from patchstack.workflow.sync.state import SyncState
    from patchstack.workflow.sync.workspace import SyncWorkspace


def sync_command(
    series: Annotated[
        str | None, typer.Argument(metavar="SERIES", autocompletion=complete_series, help="A series of the workspace.")
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="REF", help="The upstream commit that is the new pin.")] = None,
    continue_: Annotated[
        bool,
        typer.Option(
            "--continue",
            help="Go on: the conflict is resolved, the run was killed, or what --accept asked for did not hold.",
        ),
    ] = False,
    skip: Annotated[bool, typer.Option("--skip", help="Leave the patch at hand out for now.")] = False,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N", autocompletion=complete_number, help="Leave patch N out for good. Repeatable; needs --why."
        ),
    ] = None,
    why: Annotated[str | None, typer.Option(metavar="TEXT", help="The reason for --drop, which is recorded.")] = None,
    retry: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N", autocompletion=complete_number, help="Try patch N again, which was left out. Repeatable."
        ),
    ] = None,
    abort: Annotated[bool, typer.Option("--abort", help="Give the sync up: all is as before.")] = False,
    accept: Annotated[
        bool, typer.Option("--accept", help="Give the fork the branch, write the series, move the pin.")
    ] = False,
    worktree: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to work [default: beside the workspace].")
    ] = None,
    branch: Annotated[
        str | None, typer.Option(metavar="NAME", help="The new branch [default: the fork's, with -sync- and the pin].")
    ] = None,
    engine: EngineOption = None,
    unproven: Annotated[
        list[str] | None, typer.Option(metavar="PROOF", help="Let this proof of the build stay INVALID. Repeatable.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.sync/1 document.")] = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Bring the fork onto a newer upstream commit, on a new branch in a repository of its own. The fork's branch is
    never touched, and the pin moves with --accept alone. Without an option: where the sync stands."""
    steps = {"--to": to is not None, "--continue": continue_, "--skip": skip, "--drop": drop, "--retry": retry}
    _check_steps([name for name, given in {**steps, "--abort": abort, "--accept": accept}.items() if given])
    if bool(drop) != (why is not None) or (why is not None and not why.strip()):
        raise UsageError("--drop N and --why TEXT go together", hint="the reason is recorded; a year on it is wanted")
    if to is None and (worktree is not None or branch is not None):
        raise UsageError("--worktree and --branch go with --to", hint="a sync under way keeps what it began with")
    if (engine is not None or unproven) and not (accept or continue_):
        raise UsageError(
            "--engine and --unproven go with --accept", hint="they are for the suite that the policy names"
        )
    bench = _bench(series, workspace, offline=offline)
    if accept or (continue_ and _was_accepted(bench)):
        _accept(bench, engine, frozenset(unproven or ()), json=json)
        return
    if abort:
        _abort(bench)
        return
    with task(f"sync {bench.config.name}"):
        state = _step(bench, to, worktree, branch, continue_=continue_, skip=skip, drop=drop, why=why, retry=retry)
    if state is None:
        talk(f"{bench.config.name}: the pin is {to} already: nothing to do")
        return
    _show(state, json=json)


def _check_steps(given: Sequence[str]) -> None:
    """Raise `UsageError` for several steps at once."""
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other", hint="one step at a time")


def _bench(series: str | None, workspace: Path | None, *, offline: bool) -> SyncWorkspace:
    from patchstack.workflow.sync.workspace import SyncWorkspace

    found = the_workspace(workspace)
    return SyncWorkspace(
        config=one_series(found, [series] if series else []),
        workspace=found,
        cache=open_cache(offline=offline),
        talk=talk,
    )


def _step(
    bench: SyncWorkspace,
    to: str | None,
    worktree: Path | None,
    branch: str | None,
    *,
    continue_: bool,
    skip: bool,
    drop: list[str] | None,
    why: str | None,
    retry: list[str] | None,
) -> SyncState | None:
    from patchstack.workflow.sync import sync

    if to is not None:
        _suite(bench)  # a policy that cannot be asked is told before the work
        return sync.begin(bench, to, worktree=worktree, branch=branch)
    if continue_:
        return sync.go_on(bench)
    if skip:
        return sync.skip(bench)
    if drop and why is not None:
        return sync.drop(bench, drop, why.strip())
    if retry:
        return sync.retry(bench, retry)
    return bench.the_state()


def _show(state: SyncState, *, json: bool) -> None:
    """Print where a sync stands, and leave with 1 where a person is needed."""
    from patchstack.report.sync import next_line, report_lines, standing_line, stop_lines, sync_table
    from patchstack.report.table import print_table
    from patchstack.report.text import printable
    from patchstack.verdict import Verdict
    from patchstack.workflow.sync.checks import interrupted
    from patchstack.workflow.sync.document import sync_document
    from patchstack.workflow.sync.state import Phase

    def lines(texts: Iterable[str]) -> None:
        for text in texts:
            print(printable(text))

    if json:
        from json import dumps

        print(dumps(sync_document(state)))
    elif state.phase is Phase.STOPPED:
        lines(stop_lines(state))
    elif state.phase is Phase.READY:
        print_table(sync_table(state))
        lines(report_lines(state))
        talk(next_line(state))
    else:
        lines([standing_line(state)])
        talk(next_line(state))
    if state.phase is not Phase.READY:
        raise typer.Exit(int(Exit.DOES_NOT_HOLD))
    checks = interrupted(state)
    if checks is not None and checks["verdict"] != Verdict.PASS:
        raise typer.Exit(int(Exit.INVALID if checks["verdict"] == Verdict.INVALID else Exit.DOES_NOT_HOLD))


def _abort(bench: SyncWorkspace) -> None:
    from patchstack.workflow.sync import sync

    state = sync.abort(bench)
    talk(f"{state.series}: the sync to {state.to_name} is given up, and {state.worktree} is removed; all is as before")


def _was_accepted(bench: SyncWorkspace) -> bool:
    """Whether the sync was accepted already, and its checks stood in the way."""
    from patchstack.workflow.sync.checks import interrupted

    state = bench.state()
    return state is not None and interrupted(state) is not None


def _suite(bench: SyncWorkspace) -> Suite | None:
    """The suite that the policy names. Raises `UsageError` where there is none of that name, or nothing to build."""
    if bench.config.sync_suite is None:
        return None
    if bench.config.variant is None:
        raise UsageError(
            f"suite {bench.config.sync_suite} is to be run on a build of {bench.config.name}: of which variant?",
            hint=f"variant: NAME in {bench.workspace.path}, below the series",
        )
    from patchstack.gates.suite import find_suite, read_suites

    return find_suite(read_suites(bench.workspace), bench.config.sync_suite, bench.workspace.path)


@contextlib.contextmanager
def _proving(
    bench: SyncWorkspace, suite: Suite, engine: str | None, unproven: frozenset[str], *, offline: bool
) -> Iterator[Proving]:
    """The machine that the suite is run on."""
    from patchstack.builds.inputs.plan import Request
    from patchstack.cli.proving import proving_machine
    from patchstack.workflow.candidate.accept import Terms
    from patchstack.workflow.sync.checks import Proving

    with proving_machine(
        bench.workspace,
        bench.config,
        engine,
        Request(),
        purpose="patchstack sync",
        allow=suite.allow,
        offline=offline,
    ) as machine:
        yield Proving(terms=Terms(suite=suite, unproven=unproven), build=machine.build, bench=machine.runner)


def _accept(bench: SyncWorkspace, engine: str | None, unproven: frozenset[str], *, json: bool) -> None:
    from patchstack.workflow.sync.accept import accept
    from patchstack.workflow.sync.document import sync_document

    suite = _suite(bench)
    proving = None
    if suite is not None:
        proving = functools.partial(_proving, bench, suite, engine, unproven, offline=bench.cache.offline)
    done = accept(bench, proving)
    state = done.state
    if json:
        from json import dumps

        print(dumps({**sync_document(state), "phase": "accepted"}))
    else:
        count = patch_count(state.report["patch_count"]) if state.report else "the series"
        fork = bench.config.fork
        where = f"; branch {state.branch} at {state.head[:12]} in {fork}" if fork else ""
        print(f"{state.series}: the pin is {state.to}; {count} written to {bench.config.patches}{where}")
    talk(f"the record, with every reason, is {done.record}")
    if done.kept is not None:
        talk(f"note: {done.kept} was left as it is, {_kept(bench, state)}")
    written = f"{bench.config.patches}, {bench.workspace.path} and .patchstack"
    talk(f"next: patchstack verify {state.series}, and commit {written}")


def _kept(bench: SyncWorkspace, state: SyncState) -> str:
    if bench.config.fork is None:
        return f"as the only repository with branch {state.branch}: it can be the fork of the workspace"
    return "as it holds files that git does not know"
