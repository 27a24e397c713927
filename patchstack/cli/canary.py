"""`patchstack canary`: does the series apply to a newer upstream?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.cli.failures import complain, talk
from patchstack.cli.options import (
    OfflineOption,
    PatchesOption,
    PinOption,
    SeriesArgument,
    UpstreamOption,
    WorkspaceOption,
    chosen_series,
    naming_clones,
    open_cache,
)
from patchstack.errors import Exit, PatchstackError, UsageError
from patchstack.tasks import task

if TYPE_CHECKING:
    from patchstack.upstream.canary.canary import Question
    from patchstack.upstream.canary.result import Canary
    from patchstack.upstream.forecast.forecast import Forecast
    from patchstack.upstream.history import Ahead


def canary_command(
    series: SeriesArgument = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="REF", help="The upstream commit to look at [default: its newest].")
    ] = None,
    blame: Annotated[
        bool, typer.Option("--blame", help="Find the first upstream commit that breaks each patch.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Blame by a chain of strict git apply, not by three-way merges.")
    ] = False,
    forecast: Annotated[
        bool, typer.Option("--forecast", help="Also say which patches upstream is likely to break next: a heat map.")
    ] = False,
    days: Annotated[int, typer.Option("--days", metavar="N", help="Days of upstream's past a forecast looks at.")] = 90,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write the forecast's heat map there as SVG.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Leave out the search for upstream commits that are like a patch, or stand in its way."
        ),
    ] = False,
    patches: PatchesOption = None,
    upstream: UpstreamOption = None,
    pin: PinOption = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print a patchstack.canary/1 document, one line a series.")
    ] = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Does the series apply to a newer upstream? Every patch: strict and three-way, in memory; and what is to blame."""
    from patchstack.upstream.canary.canary import Question

    if strict and not blame:
        raise UsageError("--strict is for --blame", hint="both columns are shown without it; add --blame, or leave it")
    if svg is not None and not forecast:
        raise UsageError("--svg is for --forecast", hint="add --forecast")
    if days < 1:
        raise UsageError(f"--days {days} is no number of days")
    configs = chosen_series(series or (), workspace, patches=patches, upstream=upstream, pin=pin)
    if svg is not None and len(configs) > 1:
        raise UsageError("--svg is for one series", hint=f"name one of {', '.join(one.name for one in configs)}")
    question = Question(strict=strict, blame=blame, search=not quick)
    cache = open_cache(offline=offline)
    code = Exit.HOLDS
    from patchstack.upstream.history import open_ahead

    for config in configs:
        try:
            with naming_clones(config):
                with task(f"canary {config.name}"):
                    ahead = open_ahead(config, cache, to, what="--to")
                code = max(code, _looked(ahead, question, days if forecast else None, svg, as_json=json))
        except PatchstackError as error:
            if len(configs) == 1:
                raise
            complain(error.render(config.name))
            if json:
                _print_error(config.name, error)
            code = max(code, error.exit_code)
    raise typer.Exit(int(code))


def _looked(ahead: Ahead, question: Question, days: int | None, svg: Path | None, *, as_json: bool) -> Exit:
    """Look at one series, print what was found, and give its exit code."""
    from patchstack.upstream.canary.canary import ask

    ahead.objects.remember()
    with task(f"canary {ahead.series.name}"):
        found = ask(ahead.objects, ahead.series, ahead.range, ahead.upstream, question)
    outlook: Forecast | None = None
    if days is not None:
        from patchstack.upstream.forecast.forecast import foresee

        outlook = foresee(ahead.objects, ahead.repository, ahead.series, ahead.range, days=days)
    if as_json:
        from patchstack.report.documents.canary import canary_document

        print(canary_document(found, outlook).line, flush=True)
    else:
        _show(found, outlook)
    if svg is not None and outlook is not None:
        from patchstack.files.atomic import replace_file
        from patchstack.report.heatmap import heat_svg

        replace_file(svg, heat_svg(outlook).encode())
        talk(f"wrote {svg}")
    return Exit.HOLDS if found.applies else Exit.DOES_NOT_HOLD


def _show(found: Canary, outlook: Forecast | None) -> None:
    from patchstack.report.canary import canary_explanation, canary_table, canary_truth
    from patchstack.report.table import print_table
    from patchstack.report.text import printable

    print_table(canary_table(found))
    print(printable("\n".join([canary_truth(found), *canary_explanation(found)])), flush=True)
    if outlook is not None:
        from patchstack.report.heatmap import heat_lines

        print(printable("\n".join(heat_lines(outlook))), flush=True)


def _print_error(name: str, error: PatchstackError) -> None:
    """A document for a series that could not be looked at, so that every series has one."""
    from patchstack.report.documents.read import failed_canary

    print(failed_canary(name, error).line, flush=True)
