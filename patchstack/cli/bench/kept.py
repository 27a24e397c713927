"""`patchstack bench resume`, `show` and `list`: comparisons that are here."""

from __future__ import annotations

from typing import Annotated

import typer

from patchstack.cli.bench.options import (
    AllowOption,
    ComparisonArgument,
    HtmlOption,
    JsonOption,
    LibrariesOption,
    MarkdownOption,
    WholeOption,
    followed,
    found_comparison,
    kept_places,
    opened_where,
    shown,
)
from patchstack.cli.options import WorkspaceOption, nearest_workspace


def resume_command(
    comparison: ComparisonArgument = None,
    whole: WholeOption = False,
    allow: AllowOption = None,
    library_path: LibrariesOption = None,
    json: JsonOption = False,
    markdown: MarkdownOption = None,
    html: HtmlOption = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Continue a comparison that was stopped: with the same plan and coins. Finished runs are not run again."""
    from patchstack.bench.plan import read_plan
    from patchstack.workflow.bench import compare

    found = nearest_workspace(workspace)
    directory, observations = found_comparison(comparison)
    plan = read_plan(directory)
    with opened_where(
        plan.engine,
        found,
        directory.parent,
        observations,
        allow=allow,
        image=plan.image,
        library_path=library_path,
    ) as where:
        progress = followed(compare(plan, where, whole=whole or plan.noise), plan.most)
    raise typer.Exit(int(shown(progress, json=json, markdown=markdown, html=html)))


def show_command(
    comparison: ComparisonArgument = None,
    margin: Annotated[
        float | None,
        typer.Option(metavar="FRACTION", min=0, max=0.5, help="Another margin for primary rows: marked not planned."),
    ] = None,
    json: JsonOption = False,
    markdown: MarkdownOption = None,
    html: HtmlOption = None,
) -> None:
    """Draw a comparison anew from its runs. Runs nothing. Exits as `bench ab` does."""
    from patchstack.workflow.bench import read_comparison

    directory, observations = found_comparison(comparison)
    progress = read_comparison(directory, observations, margin=margin)
    raise typer.Exit(int(shown(progress, json=json, markdown=markdown, html=html)))


def list_command() -> None:
    """List the comparisons that are here, the newest first."""
    from patchstack.bench.pairs import pair_count
    from patchstack.bench.plan import read_plan
    from patchstack.errors import MissingError
    from patchstack.report.table import Give, Table, print_table
    from patchstack.workflow.bench import comparisons_in

    rows = []
    for directory in comparisons_in(kept_places()[0]):
        plan = read_plan(directory)
        count = f"{pair_count(directory)} of {plan.most}"
        rows.append([plan.comparison, plan.made[:16], plan.workload.name, count, plan.a.label, plan.b.label])
    if not rows:
        raise MissingError("there is no comparison yet", hint="patchstack bench ab makes one")
    titles = ("comparison", "made", "workload", "pairs", "A", "B")
    print_table(Table(titles=titles, rows=rows, styles={}, gives={"A": Give.MIDDLE, "B": Give.MIDDLE}))
