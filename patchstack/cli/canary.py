"""`patchstack canary`: check whether the series applies to a newer upstream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import BadValue, OptionConflict
from patchstack.cli.checks import code_of, engine_of, show_checks, worst
from patchstack.cli.each_series import each_series
from patchstack.cli.failures import talk
from patchstack.cli.options import (
    EngineOption,
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
from patchstack.errors import Exit, PatchstackError

if TYPE_CHECKING:
    from patchstack.upstream.canary.result import Canary
    from patchstack.upstream.forecast.forecast import Forecast
    from patchstack.workspace import SeriesConfig


def canary_command(
    series: SeriesArgument = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="REF", help="The upstream commit to check [default: the newest].")
    ] = None,
    blame: Annotated[
        bool, typer.Option("--blame", help="Find the first upstream commit that breaks each patch.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Find the blamed commits with strict git apply, not with three-way merges.")
    ] = False,
    forecast: Annotated[
        bool,
        typer.Option("--forecast", help="Also show a heat map of the patches that upstream is likely to break next."),
    ] = False,
    days: Annotated[
        int, typer.Option("--days", metavar="N", help="The number of past days of upstream that the forecast uses.")
    ] = 90,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write the forecast's heat map to FILE as SVG.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="Write a page with a plot of every patch at every upstream commit."
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Skip the search for upstream commits that resemble a patch or conflict with it."),
    ] = False,
    patches: PatchesOption = None,
    upstream: UpstreamOption = None,
    pin: PinOption = None,
    engine: EngineOption = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print a patchstack.canary/1 document, one line per series.")
    ] = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Check whether the series applies to a newer upstream, and whether its checks hold there.

    Every patch is tried in memory, strictly and with a three-way merge. The causes of conflicts are shown.
    """
    from patchstack.upstream.canary.canary import Question
    from patchstack.workflow.canary import look_ahead

    _check_options(strict=strict, blame=blame, svg=svg, forecast=forecast, days=days)
    configs = chosen_series(series or (), workspace, patches=patches, upstream=upstream, pin=pin)
    _one_series(configs, {"--svg": svg, "--html": html})
    opened = engine_of(engine, workspace)
    question = Question(strict=strict, blame=blame, search=not quick, timeline=html is not None, engine=opened)
    cache = open_cache(offline=offline)

    def look(config: SeriesConfig) -> Exit:
        with naming_clones(config):
            found, outlook = look_ahead(config, cache, to, question, days=days if forecast else None, what="--to")
        return _reported(found, outlook, svg, html, as_json=json)

    raise typer.Exit(int(each_series(configs, look, _print_error if json else None)))


def _check_options(*, strict: bool, blame: bool, svg: Path | None, forecast: bool, days: int) -> None:
    """Raise `UsageError` if options cannot be combined, or if `days` is not positive."""
    if strict and not blame:
        raise OptionConflict("--strict needs --blame", hint="add --blame, or omit --strict to see both columns")
    if svg is not None and not forecast:
        raise OptionConflict("--svg needs --forecast", hint="add --forecast")
    if days < 1:
        raise BadValue(f"--days {days} is not a positive number of days")


def _one_series(configs: Sequence[SeriesConfig], pictures: Mapping[str, Path | None]) -> None:
    """Raise `UsageError` if a picture was requested for several series.

    Raise `MissingError` if a page was requested, but the package that draws plots is not installed.
    """
    for option, file in pictures.items():
        if file is not None and len(configs) > 1:
            raise OptionConflict(
                f"{option} is for one series", hint=f"name one of {', '.join(one.name for one in configs)}"
            )
    if pictures["--html"] is not None:
        from patchstack.report.plots import require_plots

        require_plots()


def _reported(found: Canary, outlook: Forecast | None, svg: Path | None, html: Path | None, *, as_json: bool) -> Exit:
    """Print the result for one series, write the requested pictures, and return the exit code."""
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
    if html is not None:
        from patchstack.report.canary_page import write_page

        write_page(found, html)
        talk(f"wrote {html}")
    applies = Exit.HOLDS if found.applies else Exit.DOES_NOT_HOLD
    return worst(applies, code_of([one.row for one in found.checks]))


def _show(found: Canary, outlook: Forecast | None) -> None:
    from patchstack.report.canary import canary_explanation, canary_table, canary_truth
    from patchstack.report.checks import ahead_lines, drop_lines, parked_lines
    from patchstack.report.table import print_table
    from patchstack.report.text import printable

    print_table(canary_table(found))
    told = [canary_truth(found), *canary_explanation(found), *drop_lines(found.drops), *parked_lines(found.parked)]
    print(printable("\n".join(told)), flush=True)
    show_checks(found.series, [one.row for one in found.checks], tuple(ahead_lines(found.checks)))
    if outlook is not None:
        from patchstack.report.heatmap import heat_lines

        print(printable("\n".join(heat_lines(outlook))), flush=True)


def _print_error(name: str, error: PatchstackError) -> None:
    """Print an error document for a series that could not be checked.

    The output then has a document for every series.
    """
    from patchstack.report.documents.read import failed_canary

    print(failed_canary(name, error).line, flush=True)
