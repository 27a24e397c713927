"""`patchstack sync`: move the fork onto a new pin, patch by patch."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import AmbiguousName, BadValue
from patchstack.cli.checks import engine_of
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
from patchstack.errors import Exit
from patchstack.report.text import patch_count
from patchstack.tasks import task

if TYPE_CHECKING:
    from patchstack.gates.suite import Suite
    from patchstack.workflow.sync.checks import Proving
    from patchstack.workflow.sync.order import SyncOrder
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
            help="Continue after a resolved conflict, an interrupted run, or failed checks of --accept.",
        ),
    ] = False,
    skip: Annotated[bool, typer.Option("--skip", help="Skip the current patch for now.")] = False,
    discard: Annotated[
        bool,
        typer.Option(
            "--discard", help="Let --skip, --drop or --retry discard work made by hand. A ref keeps this work."
        ),
    ] = False,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N", autocompletion=complete_number, help="Drop patch N permanently. Repeatable; needs --why."
        ),
    ] = None,
    why: Annotated[str | None, typer.Option(metavar="TEXT", help="The reason for --drop, which is recorded.")] = None,
    retry: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N", autocompletion=complete_number, help="Try the skipped or dropped patch N again. Repeatable."
        ),
    ] = None,
    edit: Annotated[
        list[str] | None,
        typer.Option(metavar="N", autocompletion=complete_number, help="Stop after patch N, to change it. Repeatable."),
    ] = None,
    exec_: Annotated[
        str | None,
        typer.Option("--exec", metavar="CMD", help="Run CMD after each patch, without a shell. Stop if it fails."),
    ] = None,
    drop_landed: Annotated[
        bool,
        typer.Option(
            "--drop-landed",
            help="Drop patches that upstream already has, according to canary. The reasons are recorded.",
        ),
    ] = False,
    unattended: Annotated[
        bool,
        typer.Option(
            "--unattended",
            help="Run to the end. Conflicting patches are skipped, and both sides are stored. The branch "
            "has the same name as the fork's branch.",
        ),
    ] = False,
    abort: Annotated[bool, typer.Option("--abort", help="Abort the sync and restore the previous state.")] = False,
    accept: Annotated[
        bool, typer.Option("--accept", help="Add the branch to the fork, write the series, and move the pin.")
    ] = False,
    worktree: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The work directory [default: next to the workspace].")
    ] = None,
    branch: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The new branch [default: the name of the fork's branch, with -sync- and the pin]."
        ),
    ] = None,
    engine: EngineOption = None,
    unproven: Annotated[
        list[str] | None,
        typer.Option(metavar="PROOF", help="Accept this proof of the build even if it is INVALID. Repeatable."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.sync/1 document.")] = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Move the fork onto a newer upstream commit, on a new branch in a separate repository.

    The fork's branch never changes, and only --accept moves the pin. Without options, show the state of the sync.
    """
    from patchstack.workflow.sync.order import SyncOrder, check_order

    order = SyncOrder(
        to=to,
        worktree=worktree,
        branch=branch,
        continue_=continue_,
        skip=skip,
        drop=tuple(drop or ()),
        why=why,
        retry=tuple(retry or ()),
        edit=tuple(edit or ()),
        command=_words(exec_),
        drop_landed=drop_landed,
        unattended=unattended,
        discard=discard,
        abort=abort,
        accept=accept,
    )
    check_order(order, gates=engine is not None or bool(unproven))
    _carry_out(open_bench(series, workspace, offline=offline), order, engine, frozenset(unproven or ()), json=json)


def _carry_out(
    work: SyncWorkspace, order: SyncOrder, engine: str | None, unproven: frozenset[str], *, json: bool
) -> None:
    if order.accept or (order.continue_ and _was_accepted(work)):
        _accept(work, engine, unproven, json=json)
    elif order.abort:
        _abort(work, discard=order.discard)
    else:
        _step(work, order, json=json)


def _step(work: SyncWorkspace, order: SyncOrder, *, json: bool) -> None:
    from patchstack.workflow.sync.order import take_step

    if order.to is not None:
        _suite(work)  # report an unusable policy before any work is done
    with task(f"sync {work.config.name}"):
        state = take_step(work, order)
    if state is None:
        talk(f"{work.config.name}: the pin is already {order.to}, so there is nothing to do")
        return
    show(state, json=json)


def open_bench(series: str | None, workspace: Path | None, *, offline: bool) -> SyncWorkspace:
    """Return the workspace of a series for a sync."""
    from patchstack.workflow.sync.workspace import SyncWorkspace

    found = the_workspace(workspace)
    return SyncWorkspace(
        config=one_series(found, [series] if series else []),
        workspace=found,
        cache=open_cache(offline=offline),
        talk=talk,
        engine=engine_of(None, workspace),
    )


def show(state: SyncState, *, json: bool) -> None:
    """Print the state of a sync.

    Exit with 1 if the sync is not ready. If checks stopped an earlier --accept, exit with the exit code of their
    verdict.
    """
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
        print(sync_document(state).line)
    elif state.phase in (Phase.STOPPED, Phase.EDITING):
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


def _words(command: str | None) -> tuple[str, ...]:
    """Split a command into words, as a shell does.

    Return no words for None. Raises `UsageError` if the command is empty or cannot be parsed.
    """
    if command is None:
        return ()
    import shlex

    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise BadValue(f"--exec {command!r} cannot be parsed: {error}") from error
    if not words:
        raise BadValue("--exec is empty", hint="for example: --exec 'make test'")
    return words


def _abort(work: SyncWorkspace, *, discard: bool) -> None:
    from patchstack.workflow.sync import sync

    state = sync.abort(work, discard=discard)
    talk(
        f"{state.series}: the sync to {state.to_name} is aborted, and {state.worktree} is removed; nothing else changed"
    )


def _was_accepted(work: SyncWorkspace) -> bool:
    """Return whether the checks stopped an earlier --accept."""
    from patchstack.workflow.sync.checks import interrupted

    state = work.state()
    return state is not None and interrupted(state) is not None


def _suite(work: SyncWorkspace) -> Suite | None:
    """Return the suite that the policy names, if any.

    Raises `UsageError` if the suite does not exist, or if the series names no variant to build.
    """
    if work.config.sync_suite is None:
        return None
    if work.config.variant is None:
        raise AmbiguousName(
            f"suite {work.config.sync_suite} needs a build of {work.config.name}, but no variant is named",
            hint=f"set variant: NAME for the series in {work.workspace.path}",
        )
    from patchstack.gates.suite import find_suite, read_suites

    return find_suite(read_suites(work.workspace), work.config.sync_suite, work.workspace.path)


@contextlib.contextmanager
def _proving(
    work: SyncWorkspace, suite: Suite, engine: str | None, unproven: frozenset[str], *, offline: bool
) -> Iterator[Proving]:
    """Yield the machine for the gates of the suite."""
    from patchstack.builds.inputs.plan import Request
    from patchstack.cli.proving import proving_machine
    from patchstack.workflow.candidate.accept import Terms
    from patchstack.workflow.sync.checks import Proving

    with proving_machine(
        work.workspace,
        work.config,
        engine,
        Request(),
        purpose="patchstack sync",
        allow=suite.allow,
        offline=offline,
    ) as machine:
        yield Proving(terms=Terms(suite=suite, unproven=unproven), build=machine.build, runner=machine.runner)


def _accept(work: SyncWorkspace, engine: str | None, unproven: frozenset[str], *, json: bool) -> None:
    from patchstack.workflow.sync.accept import accept
    from patchstack.workflow.sync.document import sync_document

    suite = _suite(work)
    proving = None
    if suite is not None:
        proving = functools.partial(_proving, work, suite, engine, unproven, offline=work.cache.offline)
    done = accept(work, proving)
    state = done.state
    if json:
        import msgspec

        print(msgspec.structs.replace(sync_document(state), phase="accepted").line)
    else:
        count = patch_count(state.report["patch_count"]) if state.report else "the series"
        fork = work.config.fork
        where = f"; branch {state.branch} at {state.head[:12]} in {fork}" if fork else ""
        print(f"{state.series}: the pin is {state.to}; {count} written to {work.config.patches}{where}")
    talk(f"recorded the sync, with every reason, in {done.record}")
    if done.kept is not None:
        talk(f"note: {done.kept} was not removed, because {_kept(work, state)}")
    written = f"{work.config.patches}, {work.workspace.path} and .patchstack"
    talk(f"next: patchstack verify {state.series}, and commit {written}")


def _kept(work: SyncWorkspace, state: SyncState) -> str:
    if work.config.fork is None:
        return f"it is the only repository with branch {state.branch}; it can be the fork of the workspace"
    return "it contains untracked files or discarded work"
