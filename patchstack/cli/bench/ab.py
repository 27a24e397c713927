"""`patchstack bench ab` and `patchstack bench noise`: compare two sides, or a side with itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.bench.judge import ALPHA, MOST_PAIRS, Demand
from patchstack.bench.plan import WITHIN
from patchstack.causes import AmbiguousName, OptionConflict
from patchstack.cli.bench.options import (
    AllowOption,
    EngineOption,
    HtmlOption,
    ImageOption,
    JsonOption,
    LibrariesOption,
    MarkdownOption,
    WholeOption,
    followed,
    kept_places,
    opened_where,
    shown,
    variables,
)
from patchstack.cli.failures import talk
from patchstack.cli.options import WorkspaceOption, nearest_workspace, open_cache
from patchstack.errors import Exit

if TYPE_CHECKING:
    from patchstack.workspace import Workspace

_SIDE = "a build's key, a directory of programs, prefix:N or variant:NAME"
WorkloadOption = Annotated[
    str,
    typer.Option(
        "--workload",
        "-w",
        metavar="NAME",
        help="A workload of patchstack.yaml, or prefill, decode, batched, llama-bench, ops, command, serve:METRIC.",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", metavar="FILE", help="The model: a file, or a name under models: in patchstack.yaml."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="K=V", help="A setting of the workload, such as npl=32,128. Repeatable."),
]
BinOption = Annotated[Path | None, typer.Option("--bin", metavar="DIR", help="The programs of both sides.")]
BuildOption = Annotated[str | None, typer.Option("--build", metavar="KEY", help="The build of both sides.")]
PairsOption = Annotated[int, typer.Option("--pairs", metavar="N", min=1, max=1000, help="The maximum number of pairs.")]
ReferenceOption = Annotated[
    str | None,
    typer.Option(
        "--reference",
        metavar="SIDE",
        help="The programs of the reference runs, such as the pin's build [default: the programs of A].",
    ),
]
NoReferenceOption = Annotated[
    bool, typer.Option("--no-reference", help="Run no reference, so that no pair is discarded.")
]
WithinOption = Annotated[
    float,
    typer.Option(
        "--reference-within",
        metavar="FRACTION",
        min=0.001,
        help="The maximum difference between the reference runs of a pair.",
    ),
]
SeedOption = Annotated[
    int | None, typer.Option("--seed", metavar="N", min=0, help="The seed of the coin flips [default: random].")
]
DryOption = Annotated[bool, typer.Option("--dry-run", help="Print the plan, and run nothing.")]


def ab_command(
    workload: WorkloadOption,
    a: Annotated[str | None, typer.Option("--a", metavar="SIDE", help=f"Side A: {_SIDE}.")] = None,
    b: Annotated[str | None, typer.Option("--b", metavar="SIDE", help=f"Side B: {_SIDE}.")] = None,
    bin: BinOption = None,  # noqa: A002  (the option's name)
    build: BuildOption = None,
    switch: Annotated[
        list[str] | None,
        typer.Option(
            "--switch", metavar="NAME=VALUE", help="An environment variable that B has and A lacks. Repeatable."
        ),
    ] = None,
    a_env: Annotated[
        list[str] | None,
        typer.Option("--a-env", metavar="NAME=VALUE", help="An environment variable for side A. Repeatable."),
    ] = None,
    b_env: Annotated[
        list[str] | None,
        typer.Option("--b-env", metavar="NAME=VALUE", help="An environment variable for side B. Repeatable."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME=VALUE", help="An environment variable for both sides. Repeatable."),
    ] = None,
    model: ModelOption = None,
    setting: SetOption = None,
    demand: Annotated[Demand | None, typer.Option("--demand", help="Exit with 1 if the demand is not met.")] = None,
    pairs: PairsOption = MOST_PAIRS,
    alpha: Annotated[
        float,
        typer.Option("--alpha", metavar="P", min=1e-6, max=0.2, help="The maximum probability of a false statement."),
    ] = ALPHA,
    reference: ReferenceOption = None,
    no_reference: NoReferenceOption = False,
    reference_within: WithinOption = WITHIN,
    seed: SeedOption = None,
    whole: WholeOption = False,
    dry_run: DryOption = False,
    engine: EngineOption = None,
    image: ImageOption = None,
    allow: AllowOption = None,
    library_path: LibrariesOption = None,
    json: JsonOption = False,
    markdown: MarkdownOption = None,
    html: HtmlOption = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Compare two sides by pairs of new processes in random order.

    Stops when the outcome is decided: keep, reject, or no difference seen after the maximum number of pairs. Exits with
    0 if the outcome is decided, and with 4 if it is INVALID or undecided. With --demand, exits with 1 if the demand is
    not met. The plan and the runs are stored, so that `bench resume` can continue.
    """
    _run(
        _WorkloadOptions(workload, model=model, settings=setting, demand=demand, env=env),
        _named_sides(bin, build, a, b),
        (variables("--a-env", a_env), {**variables("--b-env", b_env), **variables("--switch", switch)}),
        variables("--switch", switch),
        _Manner(pairs=pairs, alpha=alpha, seed=seed, whole=whole, dry_run=dry_run),
        _References(programs=reference, none=no_reference, within=reference_within),
        _Place(engine=engine, image=image, allow=allow, library_path=library_path, workspace=workspace),
        _Output(json=json, markdown=markdown, html=html),
    )


def _named_sides(bin: Path | None, build: str | None, a: str | None, b: str | None) -> tuple[str, str]:  # noqa: A002
    """Return the two sides. Raises `UsageError` unless each side is named exactly once."""
    both = str(bin) if bin is not None else build
    if bin is not None and build is not None:
        raise OptionConflict("give --bin or --build, not both")
    if both is not None and (a is not None or b is not None):
        raise OptionConflict("--bin and --build name both sides, so they cannot be combined with --a or --b")
    if both is None and (a is None or b is None):
        raise AmbiguousName(
            "the two sides are not named", hint="add --a SIDE --b SIDE, or --bin DIR --switch NAME=VALUE"
        )
    return a or both or "", b or both or ""


def noise_command(
    workload: WorkloadOption,
    bin: BinOption = None,  # noqa: A002  (the option's name)
    build: BuildOption = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME=VALUE", help="An environment variable for the side. Repeatable."),
    ] = None,
    model: ModelOption = None,
    setting: SetOption = None,
    pairs: PairsOption = 16,
    reference: ReferenceOption = None,
    no_reference: NoReferenceOption = False,
    reference_within: WithinOption = WITHIN,
    seed: SeedOption = None,
    dry_run: DryOption = False,
    engine: EngineOption = None,
    image: ImageOption = None,
    allow: AllowOption = None,
    library_path: LibrariesOption = None,
    json: JsonOption = False,
    markdown: MarkdownOption = None,
    html: HtmlOption = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Compare a side with itself to measure the noise of the machine.

    Also shows the effect of running second, and the similarity of successive runs. All pairs are run. Exits with 0 if
    the comparison could be judged, otherwise with 4.
    """
    what = str(bin) if bin is not None else build
    if what is None or (bin is not None and build is not None):
        raise AmbiguousName("exactly one of --bin and --build is needed", hint="add --bin DIR or --build KEY")
    _run(
        _WorkloadOptions(workload, model=model, settings=setting, demand=None, env=env),
        (what, what),
        ({}, {}),
        {},
        _Manner(pairs=pairs, alpha=ALPHA, seed=seed, whole=True, dry_run=dry_run, noise=True),
        _References(programs=reference, none=no_reference, within=reference_within),
        _Place(engine=engine, image=image, allow=allow, library_path=library_path, workspace=workspace),
        _Output(json=json, markdown=markdown, html=html),
    )


@dataclass(frozen=True, slots=True)
class _WorkloadOptions:
    """The workload from the command line: its name, its settings, and the environment variables of both sides."""

    workload: str
    model: str | None
    settings: list[str] | None
    demand: Demand | None
    env: list[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Manner:
    """The number and order of pairs, and whether to run them. `noise` is true if a side is compared with itself."""

    pairs: int
    alpha: float
    seed: int | None
    whole: bool
    dry_run: bool
    noise: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _References:
    """The options for reference runs."""

    programs: str | None
    none: bool
    within: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The machine for the runs, from the command line."""

    engine: str | None
    image: str | None
    allow: list[str] | None
    library_path: str | None
    workspace: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Output:
    """The options for output."""

    json: bool
    markdown: Path | None
    html: Path | None


def _built(
    named: tuple[str | None, ...], workspace: Workspace | None, engine: str | None, *, dry_run: bool
) -> dict[str, str]:
    """Return a mapping from the text of each side that names a series to the key of the side's build.

    Missing builds are created. A dry run only prints the missing builds and exits, because a plan needs the built
    programs.
    """
    from patchstack.cli.proving import connected
    from patchstack.report.build import BuildScreen
    from patchstack.workflow.bench_sides import build_side, series_side, side_build

    wanted = [side for one in dict.fromkeys(named) if one is not None and (side := series_side(one, workspace))]
    if not wanted or workspace is None:
        return {}
    cache = open_cache(offline=False)
    with connected(engine or "host", workspace) as connection:
        builds = [side_build(one, workspace, cache, connection.engine) for one in wanted]
        missing = [one for one in builds if not one.known]
        if missing and dry_run:
            for one in missing:
                print(f"  build      {one.side.text}: {one.key[:12]}, to be built")
            print("  plan needs these builds; patchstack bench ab builds them first")
            raise typer.Exit(int(Exit.HOLDS))
        with BuildScreen() as screen:
            return {one.side.text: build_side(one, connection.engine, screen) for one in builds}


def _run(
    asked: _WorkloadOptions,
    sides: tuple[str, str],
    envs: tuple[dict[str, str], dict[str, str]],
    switch: dict[str, str],
    manner: _Manner,
    references: _References,
    place: _Place,
    output: _Output,
) -> None:
    from patchstack.bench.declare import chosen_workload
    from patchstack.report.bench import plan_lines
    from patchstack.report.text import printable
    from patchstack.workflow.bench import SideWanted, Wanted, compare, expected_words, make_plan

    if output.html is not None:
        from patchstack.report.bench_page import require_page

        require_page()
    found, env = nearest_workspace(place.workspace), variables("--env", asked.env)
    declared = chosen_workload(asked.workload, found, model=asked.model, settings=asked.settings or [])
    comparisons, observations = kept_places()
    named = (*sides, references.programs)
    built = _built(named, found, place.engine, dry_run=manner.dry_run)
    a, b, reference = (built.get(one, one) if one is not None else None for one in named)
    wanted = Wanted(
        a=SideWanted(what=a or "", env={**env, **envs[0]}),
        b=SideWanted(what=b or "", env={**env, **envs[1]}),
        kind=declared.kind,
        workload=declared.workload,
        rows=declared.rows,
        switch=switch,
        alpha=manner.alpha,
        most=manner.pairs,
        demand=asked.demand or declared.demand,
        reference=reference,
        no_reference=references.none,
        within=references.within,
        noise=manner.noise,
        seed=manner.seed,
    )
    with opened_where(
        place.engine,
        found,
        comparisons,
        observations,
        allow=place.allow,
        image=place.image,
        library_path=place.library_path,
    ) as where:
        plan = make_plan(wanted, where)
        lines = printable("\n".join(plan_lines(plan, expected_words(plan))))
        if manner.dry_run:
            print(lines)
            raise typer.Exit(int(Exit.HOLDS))
        talk(lines)
        progress = followed(compare(plan, where, whole=manner.whole), plan.most)
    raise typer.Exit(int(shown(progress, json=output.json, markdown=output.markdown, html=output.html)))
