"""`patchstack build`: pin + series into binaries, and what they were proven to be."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.cli.complete import complete_number, complete_series, complete_variant
from patchstack.cli.failures import talk
from patchstack.cli.options import (
    EngineOption,
    OfflineOption,
    PatchesOption,
    PinOption,
    UpstreamOption,
    WorkspaceOption,
    chosen_series,
    naming_clones,
    nearest_workspace,
    open_cache,
    open_chosen_engine,
)
from patchstack.errors import Exit, UsageError
from patchstack.files.places import cache_places
from patchstack.report.text import counted

if TYPE_CHECKING:
    from patchstack.builds.inputs.plan import Request
    from patchstack.builds.inputs.source import Source
    from patchstack.builds.record.store import Store, Stored
    from patchstack.builds.run.build import Inputs
    from patchstack.engine.protocol import Engine
    from patchstack.report.build import BuildScreen
    from patchstack.workspace import SeriesConfig, Workspace


def build_command(
    series: Annotated[
        str | None,
        typer.Argument(metavar="SERIES", autocompletion=complete_series, help="The series [default: the only one]."),
    ] = None,
    arch: Annotated[str | None, typer.Option(metavar="ARCH", help="The CUDA architecture: 121, say.")] = None,
    variant: Annotated[
        str | None,
        typer.Option(metavar="NAME", autocompletion=complete_variant, help="The variant, instead of --arch."),
    ] = None,
    platform: Annotated[str | None, typer.Option(metavar="OS/ARCH", help="linux/amd64 or linux/arm64.")] = None,
    define: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V", help="A definition for CMake. Repeatable."),
    ] = None,
    compile_define: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V", help="A definition for the compilers. Repeatable."),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="What to build, instead of the variant's. Repeatable."),
    ] = None,
    at: Annotated[
        int | None,
        typer.Option(
            metavar="N", autocompletion=complete_number, help="Only the patches up to number N (0: the pin alone)."
        ),
    ] = None,
    source: Annotated[Path | None, typer.Option(metavar="DIR", help="Any source tree, instead of a series.")] = None,
    image: Annotated[str | None, typer.Option(metavar="NAME", help="The container image.")] = None,
    toolkit: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="A CUDA toolkit on the engine's machine."),
    ] = None,
    engine: EngineOption = None,
    jobs: Annotated[int | None, typer.Option(metavar="N", min=1, help="Compile so many files at once.")] = None,
    memory: Annotated[str | None, typer.Option(metavar="SIZE", help="What the build may use: 16GiB, say.")] = None,
    cpus: Annotated[float | None, typer.Option(metavar="N", min=0.1, help="How many processors it may use.")] = None,
    time: Annotated[str | None, typer.Option(metavar="TIME", help="How long it may take: 90s, 30m, 4h.")] = None,
    ccache: Annotated[
        bool | None,
        typer.Option("--ccache/--no-ccache", help="Use ccache [default: if it is installed].", show_default=False),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Build even where the build is here.")] = False,
    keep_container: Annotated[
        bool, typer.Option("--keep-container", help="Keep the build's volume, to look into.")
    ] = False,
    shell: Annotated[bool, typer.Option("--shell", help="Open a shell where it would be built.")] = False,
    unproven: Annotated[
        list[str] | None,
        typer.Option(metavar="PROOF", help="Let this proof stay INVALID. Repeatable."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Copy the binaries there as well."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the builds that are here.")] = False,
    gc: Annotated[bool, typer.Option("--gc", help="Remove builds that were not used for 30 days.")] = False,
    older_than: Annotated[
        float | None, typer.Option(metavar="DAYS", min=0, help="With --gc: not for so many days.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.build/1 document.")] = False,
    patches: PatchesOption = None,
    upstream: UpstreamOption = None,
    pin: PinOption = None,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Build pin + series for a GPU, in a container, and prove what came out. The same inputs are built once."""
    from patchstack.builds.inputs.plan import Request, parse_definitions
    from patchstack.builds.proofs.claim import IDS
    from patchstack.builds.record.store import Store

    store = Store(cache_places().builds)
    if strangers := set(unproven or ()) - set(IDS):
        raise UsageError(
            f"--unproven {', '.join(sorted(strangers))}: no such proof", hint=f"there are {', '.join(IDS)}"
        )
    if list_ or gc:
        _store(store, list_=list_, gc=gc, days=30.0 if older_than is None else older_than, json=json)
        return
    if older_than is not None:
        raise UsageError("--older-than without --gc")
    request = Request(
        variant=variant,
        arch=arch,
        platform=platform,
        image=image,
        toolkit=toolkit,
        cmake=parse_definitions(tuple(define or ()), "--define"),
        compile=parse_definitions(tuple(compile_define or ()), "--compile-define"),
        targets=tuple(target or ()),
        jobs=jobs,
        memory=_size(memory),
        cpus=cpus,
        seconds=_time(time),
        ccache=ccache,
    )
    found = nearest_workspace(workspace)
    made = _source(
        series, source, at, offline=offline, workspace=workspace, patches=patches, upstream=upstream, pin=pin
    )
    code = _build(
        request,
        made,
        open_chosen_engine(engine, found),
        store,
        found,
        again=again,
        keep=keep_container,
        shell=shell,
        unproven=frozenset(unproven or ()),
        output=output,
        json=json,
        offline=offline,
    )
    if code:
        raise typer.Exit(int(code))


def make(series: str, *, workspace: Path, engine: str, offline: bool) -> Exit:
    """Build a series as its workspace says, and report it on stdout: `patchstack build SERIES`."""
    from patchstack.builds.inputs.plan import Request
    from patchstack.builds.record.store import Store

    found = nearest_workspace(workspace)
    return _build(
        Request(),
        _source(series, None, None, offline=offline, workspace=workspace, patches=None, upstream=None, pin=None),
        open_chosen_engine(engine, found),
        Store(cache_places().builds),
        found,
        again=False,
        keep=False,
        shell=False,
        unproven=frozenset(),
        output=None,
        json=False,
        offline=offline,
    )


def _source(
    series: str | None,
    directory: Path | None,
    at: int | None,
    *,
    offline: bool,
    workspace: Path | None,
    patches: Path | None,
    upstream: str | None,
    pin: str | None,
) -> tuple[Source, SeriesConfig | None]:
    """The tree that was asked for."""
    from patchstack.builds.inputs.source import directory_source, series_source

    if directory is not None:
        given = {"SERIES": series, "--at": at, "--patches": patches, "--upstream": upstream, "--pin": pin}
        if clash := [name for name, value in given.items() if value is not None]:
            raise UsageError(f"--source is a whole tree: leave out {', '.join(clash)}")
        return directory_source(directory), None
    names = [series] if series else ()
    configs = chosen_series(names, workspace, patches=patches, upstream=upstream, pin=pin)
    if len(configs) > 1:
        raise UsageError("which series?", hint=f"name one of {', '.join(one.name for one in configs)}")
    with naming_clones(configs[0]):
        return series_source(configs[0], open_cache(offline=offline), at=at), configs[0]


def _build(
    request: Request,
    made: tuple[Source, SeriesConfig | None],
    engine: Engine,
    store: Store,
    workspace: Workspace | None,
    *,
    again: bool,
    keep: bool,
    shell: bool,
    unproven: frozenset[str],
    output: Path | None,
    json: bool,
    offline: bool,
) -> Exit:
    from patchstack.builds.inputs.prepare import prepare
    from patchstack.builds.inputs.variant import load_variants, series_variant
    from patchstack.builds.run.build import build
    from patchstack.report.build import BuildScreen, options_lines

    source, config = made
    with contextlib.closing(engine):
        inputs = prepare(
            request,
            source,
            engine,
            load_variants(workspace.variants if workspace else ()),
            cache_places().toolchains,
            talk,
            default=series_variant(config) if config is not None else None,
            offline=offline,
        )
        for line in options_lines(inputs):
            talk(line)
        with BuildScreen() as screen:
            if shell:
                return _shell(inputs, engine, store, screen)
            stored, hit = build(inputs, engine, store, screen, again=again, keep=keep)
    return _report(stored, hit=hit, unproven=unproven, output=output, json=json)


def _report(stored: Stored, *, hit: bool, unproven: frozenset[str], output: Path | None, json: bool) -> Exit:
    from patchstack.report.build import print_build
    from patchstack.verdict import Verdict, exit_code

    found = stored.document(hit=hit)
    if json:
        print(found.line)
    else:
        print_build(found, unproven)
    if not found.built:
        return Exit.DOES_NOT_HOLD
    if output is not None:
        _copy(stored.programs, output)
        talk(f"copied to {output}")
    return exit_code(
        Verdict.PASS if proof.verdict is Verdict.INVALID and proof.id in unproven else proof.verdict
        for proof in found.proofs
    )


def _shell(inputs: Inputs, engine: Engine, store: Store, screen: BuildScreen) -> Exit:
    from patchstack.builds.run.session import open_session
    from patchstack.process import attached

    with open_session(engine, inputs.plan, inputs.toolchain, inputs.key, store, screen) as session:
        session.send(inputs.source)
        screen.close()
        talk(f"the tree is in {session.layout.source}; leave the shell to clear up")
        attached(engine.shell(session.job("shell", ("sh",))))
    return Exit.HOLDS


def _copy(binaries: Path, into: Path) -> None:
    """Copy a build's binaries and their links; what has their names there is replaced."""
    into.mkdir(parents=True, exist_ok=True)
    for path in sorted(binaries.iterdir()):
        (into / path.name).unlink(missing_ok=True)
        shutil.copy2(path, into / path.name, follow_symlinks=False)


def _store(store: Store, *, list_: bool, gc: bool, days: float, json: bool) -> None:
    """`--list` and `--gc`."""
    from patchstack.report.build import print_builds

    if gc:
        gone = store.older_than(days)
        freed = sum(stored.bytes for stored in gone)
        for stored in gone:
            store.remove(stored)
        store.clear_logs(days)
        talk(f"removed {len(gone)} of {counted(len(gone) + len(store.all()), 'build')}, {freed / 1e6:.0f} MB")
    if list_ or json:
        print_builds(store.all(), json=json)


def _size(text: str | None) -> int | None:
    from patchstack.workspace import parse_size

    if text is None:
        return None
    size = parse_size(text)
    if not size:
        raise UsageError(f"--memory {text} is no size", hint="--memory 16GiB, say")
    return size


def _time(text: str | None) -> float | None:
    from patchstack.workspace import parse_time

    if text is None:
        return None
    seconds = parse_time(text)
    if not seconds:
        raise UsageError(f"--time {text} is no time", hint="--time 90s, 30m or 4h")
    return seconds
