"""`patchstack export`: write fork commits as patch files, one to one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import BadValue, OptionConflict
from patchstack.cli.complete import complete_series
from patchstack.cli.failures import talk
from patchstack.cli.options import WorkspaceOption, one_series, open_cache, the_workspace, work_alone
from patchstack.report.text import counted

if TYPE_CHECKING:
    from patchstack.series.mirror.export import ExportPlan
    from patchstack.workspace import SeriesConfig


def export_command(
    series: Annotated[
        list[str] | None,
        typer.Argument(metavar="SERIES", autocompletion=complete_series, help="A series of the workspace."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be written, and write nothing.")] = False,
    renumber: Annotated[bool, typer.Option("--renumber", help="Give every patch a new number, from 1.")] = False,
    discard_edits: Annotated[
        bool, typer.Option("--discard-edits", help="Overwrite patches that were edited by hand.")
    ] = False,
    same: Annotated[
        list[str] | None,
        typer.Option(metavar="N=COMMIT", help="State which commit is patch N if patchstack cannot determine this."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Write a copy of the series to DIR, in the form --form, instead of exporting.",
        ),
    ] = None,
    form: Annotated[
        str | None, typer.Option(metavar="FORM", help="With -o: plain (with context) or anchored [default: plain].")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.export/1 document.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Write the series and its lock from the fork.

    Each commit becomes one patch, with the same bytes on every machine.
    """
    if output is not None:
        if dry_run or renumber or discard_edits or same or json:
            raise OptionConflict("-o writes a copy and can only be combined with --form")
        _copy(one_series(the_workspace(workspace), series or ()), output, form)
        return
    if form is not None:
        raise OptionConflict("--form needs -o", hint="set the form of the series itself with form: in patchstack.yaml")
    from patchstack.workflow.export import plan_from_fork

    if not dry_run:
        work_alone(workspace, "patchstack export")
    config = one_series(the_workspace(workspace), series or ())
    pairs = _pairs(same or [])
    cache = open_cache(offline=False)
    plan, warning = plan_from_fork(config, cache, renumber=renumber, discard_edits=discard_edits, same=pairs)
    if warning:
        talk(f"warning: {warning}")
    if not dry_run:
        from patchstack.series.mirror.export import carry_out

        carry_out(plan)
    _print(plan, dry_run=dry_run, json=json)


def _print(plan: ExportPlan, *, dry_run: bool, json: bool) -> None:
    from patchstack.report.documents.export import export_document
    from patchstack.report.export import export_line, export_table
    from patchstack.report.table import print_table

    if json:
        print(export_document(plan, dry_run=dry_run).line)
        return
    if not plan.up_to_date:
        print_table(export_table(plan))
    print(export_line(plan, dry_run=dry_run))
    if not dry_run and not plan.up_to_date:
        talk(f"next: patchstack verify {plan.series}, and commit {plan.directory}")


def _copy(config: SeriesConfig, directory: Path, form: str | None) -> None:
    """Write a copy of the series in a different form. The fork is not needed."""
    from patchstack.series.files.directory import configured_series
    from patchstack.series.lock import read_lock
    from patchstack.series.mirror.convert import copy_series
    from patchstack.series.sources import open_sources
    from patchstack.workspace.model import ANCHORED, FORMS, PLAIN

    form = form or PLAIN
    if form not in FORMS:
        raise BadValue(f"--form {form} is not a form", hint="use plain or anchored")
    loaded = configured_series(config)
    sources = open_sources(open_cache(offline=False), upstream=config.upstream, pin=config.pin, series=loaded)
    copied = copy_series(
        sources.objects,
        loaded,
        read_lock(config.patches),
        sources.base,
        directory,
        upstream=config.upstream,
        anchored=form == ANCHORED,
        context=config.context,
    )
    what = counted(len(copied.files), f"{form} patch", f"{form} patches")
    print(f"{config.name}: {what} in {directory}, tree {copied.tree}")


def _pairs(texts: list[str]) -> dict[int, str]:
    pairs = {}
    for text in texts:
        number, equals, commit = text.partition("=")
        if not (equals and number.isdigit() and len(commit) >= 4):
            raise BadValue(f"--same {text} is not N=COMMIT", hint="for example --same 41=3f9c2ab1")
        pairs[int(number)] = commit
    return pairs
