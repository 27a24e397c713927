"""`patchstack lint`: check a series against rules."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import SettingsUnusable
from patchstack.cli.checks import checked, code_of, engine_of, show_checks, worst
from patchstack.cli.failures import complain_of
from patchstack.cli.options import (
    EngineOption,
    OfflineOption,
    PatchesOption,
    PinOption,
    PolicyOption,
    SeriesArgument,
    UpstreamOption,
    WorkspaceOption,
    chosen_series,
    naming_clones,
    open_cache,
)
from patchstack.errors import Exit, PatchstackError
from patchstack.tasks import task

if TYPE_CHECKING:
    from patchstack.checks.model import CheckRow
    from patchstack.git.remote import Cache
    from patchstack.series.lint.runner import LintResult
    from patchstack.workspace import SeriesConfig


def lint_command(
    series: SeriesArgument = None,
    patches: PatchesOption = None,
    upstream: UpstreamOption = None,
    pin: PinOption = None,
    rules: Annotated[
        bool, typer.Option("--rules", help="List the rules with their reasons, and check nothing.")
    ] = False,
    engine: EngineOption = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print a patchstack.lint/1 document, one line per series.")
    ] = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
    policy: PolicyOption = None,
) -> None:
    """Check the patches, names and messages of a series against rules, and run the checks of the series.

    Use --rules to list the rules with their reasons. Writes nothing.
    """
    if rules:
        _list_rules(json)
        return
    configs = chosen_series(series or (), workspace, patches=patches, upstream=upstream, pin=pin)
    code = Exit.HOLDS
    cache, opened = open_cache(offline=offline), engine_of(engine, workspace)
    for config in configs:
        try:
            with naming_clones(config), task(f"lint {config.name}", key=f"lint {config.patches.absolute()}"):
                result, rows = _linted(config, cache), checked(config, cache, opened)
            code = worst(code, worst(_reported(result, json, rows), code_of(rows)))
        except PatchstackError as error:
            if len(configs) == 1:
                raise
            complain_of(error, config.name)
            code = worst(code, error.exit_code)
    raise typer.Exit(int(code))


def _linted(config: SeriesConfig, cache: Cache) -> LintResult:
    from patchstack.git.overlay import TreeOverlay
    from patchstack.series.files.directory import configured_series
    from patchstack.series.lint.runner import lint, waiver_problems
    from patchstack.series.sources import open_sources

    problems = waiver_problems(config.waive)
    if problems:
        raise SettingsUnusable(f"the waivers of {config.name} cannot be used", problems=problems)
    series = configured_series(config)
    sources = open_sources(cache, upstream=config.upstream, pin=config.pin, series=series, beside=config.fork)
    series = series.at_depth(TreeOverlay(sources.objects, sources.base.tree))
    return lint(sources.objects, series, sources.base, config.lint, config.waive)


def _reported(result: LintResult, as_json: bool, rows: Sequence[CheckRow]) -> Exit:
    """Print a result, and return its exit code."""
    if as_json:
        from patchstack.report.documents.lint import lint_document
        from patchstack.series.lint.runner import RULES

        print(lint_document(result, RULES, rows).line, flush=True)
    else:
        from patchstack.report.lint import lint_line, lint_table
        from patchstack.report.streams import paint_words
        from patchstack.report.table import print_table
        from patchstack.report.text import printable

        if not result.clean:
            print_table(lint_table(result))
        print(paint_words(printable(lint_line(result)), sys.stdout), flush=True)
        show_checks(result.series, rows)
    return Exit.HOLDS if result.clean else Exit.DOES_NOT_HOLD


def _list_rules(as_json: bool) -> None:
    from patchstack.series.lint.runner import RULES

    if as_json:
        from patchstack.report.documents.lint import LintRules, rule_entries

        print(LintRules(rules=rule_entries(RULES)).line)
        return
    from patchstack.report.lint import rules_table
    from patchstack.report.table import print_table

    print_table(rules_table(RULES))
