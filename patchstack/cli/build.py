"""`patchstack build`: build pin + series, and prove the binaries."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patchstack.causes import BadValue, OptionConflict
from patchstack.cli.complete import complete_number, complete_series, complete_variant
from patchstack.cli.failures import talk
from patchstack.cli.options import (
    EngineOption,
    OfflineOption,
    PatchesOption,
    PinOption,
    PolicyOption,
    UpstreamOption,
    WorkspaceOption,
    chosen_series,
    naming_clones,
    nearest_workspace,
    open_cache,
    open_chosen_engine,
)
from patchstack.errors import Exit
from patchstack.files.places import cache_places
from patchstack.report.text import counted

if TYPE_CHECKING:
    from patchstack.builds.inputs.source import Source
    from patchstack.builds.record.store import Stored
    from patchstack.builds.run.session import Session
    from patchstack.workflow.build import BuildOrder
    from patchstack.workspace import SeriesConfig


def build_command(
    series: Annotated[
        str | None,
        typer.Argument(metavar="SERIES", autocompletion=complete_series, help="The series [default: the only one]."),
    ] = None,
    arch: Annotated[str | None, typer.Option(metavar="ARCH", help="The CUDA architecture, for example 121.")] = None,
    variant: Annotated[
        str | None,
        typer.Option(metavar="NAME", autocompletion=complete_variant, help="The variant to build, instead of --arch."),
    ] = None,
    platform: Annotated[
        str | None, typer.Option(metavar="OS/ARCH", help="The platform: linux/amd64 or linux/arm64.")
    ] = None,
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
        typer.Option(metavar="NAME", help="A target to build, instead of the variant's targets. Repeatable."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            autocompletion=complete_number,
            help="Stop after the patch with this number or name (0: at the pin).",
        ),
    ] = None,
    source: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A source tree to build, instead of a series.")
    ] = None,
    image: Annotated[str | None, typer.Option(metavar="NAME", help="The container image.")] = None,
    toolkit: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="A CUDA toolkit on the engine's machine."),
    ] = None,
    engine: EngineOption = None,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The number of files to compile at once.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="The memory limit of the build, for example 16GiB.")
    ] = None,
    cpus: Annotated[
        float | None, typer.Option(metavar="N", min=0.1, help="The number of processors for the build.")
    ] = None,
    time: Annotated[str | None, typer.Option(metavar="TIME", help="The time limit of the build: 90s, 30m, 4h.")] = None,
    ccache: Annotated[
        bool | None,
        typer.Option("--ccache/--no-ccache", help="Use ccache [default: if it is installed].", show_default=False),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Build even if the build exists.")] = False,
    keep_container: Annotated[
        bool, typer.Option("--keep-container", help="Keep the build's volume for inspection.")
    ] = False,
    shell: Annotated[bool, typer.Option("--shell", help="Open a shell in the build environment.")] = False,
    unproven: Annotated[
        list[str] | None,
        typer.Option(metavar="PROOF", help="Accept this proof even if it is INVALID. Repeatable."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Copy the binaries to DIR."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the stored builds.")] = False,
    gc: Annotated[bool, typer.Option("--gc", help="Remove builds that were not used for 30 days.")] = False,
    older_than: Annotated[
        float | None, typer.Option(metavar="DAYS", min=0, help="With --gc: the number of days, instead of 30.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.build/1 document.")] = False,
    patches: PatchesOption = None,
    upstream: UpstreamOption = None,
    pin: PinOption = None,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
    policy: PolicyOption = None,
) -> None:
    """Build pin + series for a GPU, in a container, and prove the binaries.

    The same inputs are built only once.
    """
    from patchstack.builds.inputs.plan import Request, parse_definitions
    from patchstack.workflow.build import BuildOrder, check_proofs

    allowed = frozenset(unproven or ())
    check_proofs(allowed)
    if list_ or gc:
        _store(list_=list_, gc=gc, days=30.0 if older_than is None else older_than, json=json)
        return
    if older_than is not None:
        raise OptionConflict("--older-than needs --gc")
    request = Request(
        cmake=parse_definitions(tuple(define or ()), "--define"),
        compile=parse_definitions(tuple(compile_define or ()), "--compile-define"),
        targets=tuple(target or ()),
    )
    request = replace(request, variant=variant, arch=arch, platform=platform, image=image, toolkit=toolkit)
    request = replace(request, jobs=jobs, memory=_size(memory), cpus=cpus, seconds=_time(time), ccache=ccache)
    found = nearest_workspace(workspace)
    given = {"SERIES": series, "--at": at, "--patches": patches, "--upstream": upstream, "--pin": pin}
    made, config = _source(source, given, workspace, offline=offline)
    with contextlib.closing(open_chosen_engine(engine, found)) as opened:
        order = BuildOrder(source=made, config=config, request=request, engine=opened, workspace=found, offline=offline)
        code = _build(order, allowed, output, again=again, keep=keep_container, shell=shell, json=json)
    if code:
        raise typer.Exit(int(code))


def _source(
    directory: Path | None, given: Mapping[str, Any], workspace: Path | None, *, offline: bool
) -> tuple[Source, SeriesConfig | None]:
    """Return the requested tree: a directory, or a series.

    `given` maps the names of the options for a series to their values.
    """
    from patchstack.workflow.build import source_of

    clash = [name for name, value in given.items() if value is not None]
    if directory is not None and clash:
        raise OptionConflict(f"--source cannot be combined with {', '.join(clash)}")
    cache = open_cache(offline=offline)
    if directory is not None:
        return source_of(directory, (), cache, None)
    names = [given["SERIES"]] if given["SERIES"] else ()
    configs = chosen_series(
        names,
        workspace,
        patches=given.get("--patches"),
        upstream=given.get("--upstream"),
        pin=given.get("--pin"),
    )
    with naming_clones(configs[0]):
        return source_of(None, configs, cache, given.get("--at"))


def _build(
    order: BuildOrder,
    unproven: frozenset[str],
    output: Path | None,
    *,
    again: bool,
    keep: bool,
    shell: bool,
    json: bool,
) -> Exit:
    """Build and report the result, or open a shell in the prepared tree (`--shell`). Show progress on the terminal."""
    from patchstack.report.build import BuildScreen, options_lines
    from patchstack.workflow.build import build_order, open_build_shell

    inputs = order.inputs(talk)
    for line in options_lines(inputs):
        talk(line)
    with BuildScreen() as screen:
        if shell:

            def ready(session: Session) -> None:
                screen.close()
                talk(f"the tree is in {session.layout.source}; leave the shell to clear up")

            open_build_shell(order, inputs, screen, ready=ready)
            return Exit.HOLDS
        stored, hit = build_order(order, inputs, screen, again=again, keep=keep)
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


def _copy(binaries: Path, into: Path) -> None:
    """Copy the binaries of a build, including symbolic links. Existing files with the same names are replaced."""
    into.mkdir(parents=True, exist_ok=True)
    for path in sorted(binaries.iterdir()):
        (into / path.name).unlink(missing_ok=True)
        shutil.copy2(path, into / path.name, follow_symlinks=False)


def _store(*, list_: bool, gc: bool, days: float, json: bool) -> None:
    """List or remove builds (`--list` and `--gc`)."""
    from patchstack.builds.record.store import Store
    from patchstack.report.build import print_builds

    store = Store(cache_places().builds)
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
        raise BadValue(f"--memory {text} is not a size", hint="give a size such as 16GiB")
    return size


def _time(text: str | None) -> float | None:
    from patchstack.workspace import parse_time

    if text is None:
        return None
    seconds = parse_time(text)
    if not seconds:
        raise BadValue(f"--time {text} is not a time", hint="give a time such as 90s, 30m or 4h")
    return seconds
