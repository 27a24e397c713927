"""`patchstack bench resume`, `show`, `pack`, `unpack` and `list`: work with stored comparisons."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Annotated

import typer

from patchstack.causes import NoComparison
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
    write,
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
    """Continue a comparison that was stopped, with the same plan and the same coin flips.

    Finished runs are not repeated.
    """
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
        typer.Option(
            metavar="FRACTION",
            min=0,
            max=0.5,
            help="A different margin for primary rows. The result is marked as not planned.",
        ),
    ] = None,
    json: JsonOption = False,
    markdown: MarkdownOption = None,
    html: HtmlOption = None,
) -> None:
    """Judge a comparison again from its runs. Runs nothing. Exits with the same status as `bench ab`."""
    from patchstack.workflow.bench import read_comparison

    directory, observations = found_comparison(comparison)
    progress = read_comparison(directory, observations, margin=margin)
    raise typer.Exit(int(shown(progress, json=json, markdown=markdown, html=html)))


def pack_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    comparison: ComparisonArgument = None,
) -> None:
    """Write a comparison with all its runs to one file for another machine. Runs nothing."""
    from patchstack.bench.bundle import pack
    from patchstack.builds.record.store import Store
    from patchstack.files.places import cache_places
    from patchstack.workflow.bench import read_comparison

    directory, observations = found_comparison(comparison)
    progress = read_comparison(directory, observations)
    builds = {stored.key: dict(stored.record.inputs) for stored in Store(cache_places().builds).all()}
    write(file, gzip.compress(pack(directory, observations, builds), mtime=0))
    print(f"{progress.plan.comparison}: {len(progress.pairs)} pairs, {progress.judged.outcome}")


def unpack_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `bench pack` wrote.")],
) -> None:
    """Add a comparison from another machine, with all its runs, and judge it again.

    Exits with the same status as `bench ab`.
    """
    from patchstack.bench.bundle import read_packed, unpack
    from patchstack.workflow.bench import read_comparison

    comparisons, observations = kept_places()
    directory = unpack(read_packed(file), comparisons, observations)
    progress = read_comparison(directory, observations)
    raise typer.Exit(int(shown(progress, json=False, markdown=None, html=None)))


def list_command() -> None:
    """List the comparisons on this machine, the newest first."""
    from patchstack.bench.pairs import pair_count
    from patchstack.bench.plan import read_plan
    from patchstack.report.table import Give, Table, print_table
    from patchstack.workflow.bench import comparisons_in

    rows = []
    for directory in comparisons_in(kept_places()[0]):
        plan = read_plan(directory)
        count = f"{pair_count(directory)} of {plan.most}"
        rows.append([plan.comparison, plan.made[:16], plan.workload.name, count, plan.a.label, plan.b.label])
    if not rows:
        raise NoComparison("there is no comparison yet", hint="run patchstack bench ab to make one")
    titles = ("comparison", "made", "workload", "pairs", "A", "B")
    print_table(Table(titles=titles, rows=rows, styles={}, gives={"A": Give.MIDDLE, "B": Give.MIDDLE}))
