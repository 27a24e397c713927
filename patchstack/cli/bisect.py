"""`patchstack bisect`: find the first patch or upstream commit that makes a command fail."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import AmbiguousName, BadValue, OptionConflict
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
from patchstack.errors import Exit
from patchstack.files.places import cache_places

if TYPE_CHECKING:
    from patchstack.git.objects import Objects
    from patchstack.workflow.bisect.bisect import Bisected, Builder


def bisect_command(
    series: Annotated[
        str | None,
        typer.Argument(metavar="SERIES", autocompletion=complete_series, help="The series [default: the only one]."),
    ] = None,
    run: Annotated[
        str,
        typer.Option(
            "--run", metavar="CMD", help="The command. Exit status 0 is good, 125 skips, 128 and above ends the search."
        ),
    ] = "",
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="REF", help="Search the upstream commits up to REF, with the series on top."),
    ] = None,
    good: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            autocompletion=complete_number,
            help="The last good patch, by number or name [default: 0, the pin].",
        ),
    ] = None,
    bad: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            autocompletion=complete_number,
            help="The first known bad patch, by number or name [default: the last].",
        ),
    ] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Run the command again on both sides of the answer.")
    ] = False,
    build: Annotated[
        str | None,
        typer.Option(
            "--build",
            metavar="VARIANT",
            autocompletion=complete_variant,
            help="Build each tree for a variant. PATCHSTACK_BIN is the directory of the binaries.",
        ),
    ] = None,
    engine: EngineOption = None,
    time: Annotated[str | None, typer.Option(metavar="TIME", help="The time limit of one run: 90s, 30m, 4h.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.bisect/1 document.")] = False,
    patches: PatchesOption = None,
    upstream: UpstreamOption = None,
    pin: PinOption = None,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Find the first patch that makes a command fail.

    With --to, find the first upstream commit that makes the command fail with the series on top. The command runs
    without a shell, in a directory that contains the tree.
    """
    from patchstack.workflow.bisect.bisect import bisect
    from patchstack.workflow.bisect.points import row_of

    command = _words(run)
    if to is not None and (good is not None or bad is not None):
        raise OptionConflict("--good and --bad name patches, so they cannot be combined with --to")
    configs = chosen_series([series] if series else [], workspace, patches=patches, upstream=upstream, pin=pin)
    if len(configs) > 1:
        raise AmbiguousName("bisect handles one series", hint=f"name one of {', '.join(one.name for one in configs)}")
    with naming_clones(configs[0]):
        row = row_of(configs[0], open_cache(offline=offline), to, good=good, bad=bad)
    talk(row.what)
    seconds = _seconds(time)
    with contextlib.ExitStack() as held:
        found = bisect(
            row,
            command,
            _logs(),
            talk,
            seconds=seconds,
            builder=_builder(build, engine, row.objects, workspace, held, offline=offline) if build else None,
            confirm=confirm,
        )
    _show(configs[0].name, found, json=json)


def _words(text: str) -> list[str]:
    import shlex

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadValue(f"--run {text} cannot be parsed: {error}") from error
    if not words:
        raise BadValue(
            "--run CMD is missing", hint="give a command that exits with 0 on success, for example: --run 'make test'"
        )
    return words


def _seconds(text: str | None) -> float:
    from patchstack.workspace import parse_time

    if text is None:
        return 24 * 3600.0
    seconds = parse_time(text)
    if not seconds:
        raise BadValue(f"--time {text} is not a time", hint="give a time such as 90s, 30m or 4h")
    return seconds


def _logs() -> Path:
    """Return a new directory for the output of the command."""
    import tempfile

    root = cache_places().bisections
    root.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="run-", dir=root))


def _builder(
    variant: str,
    engine: str | None,
    objects: Objects,
    workspace: Path | None,
    held: contextlib.ExitStack,
    *,
    offline: bool,
) -> Builder:
    from patchstack.builds.inputs.variant import Setting, load_variants
    from patchstack.builds.record.store import Store
    from patchstack.report.build import BuildScreen
    from patchstack.workflow.bisect.points import KeyedBuilds

    found = nearest_workspace(workspace)
    return KeyedBuilds(
        variant=Setting(value=variant, origin="--build"),
        objects=objects,
        engine=held.enter_context(contextlib.closing(open_chosen_engine(engine, found))),
        variants=load_variants(found.variants if found else ()),
        store=Store(cache_places().builds),
        memory=cache_places().toolchains,
        watch=held.enter_context(BuildScreen()),
        offline=offline,
    )


def _show(series: str, found: Bisected, *, json: bool) -> None:
    from patchstack.report.bisect import answer_lines
    from patchstack.report.documents.bisect import bisect_document
    from patchstack.report.text import printable
    from patchstack.workflow.bisect.bisect import Ending

    if json:
        print(bisect_document(series, found).line)
    else:
        for line in answer_lines(found):
            print(printable(line))
    if found.answer.ending is Ending.FIRST_BAD:
        return
    nothing = found.answer.ending in (Ending.ALL_GOOD, Ending.ALL_BAD)
    raise typer.Exit(int(Exit.DOES_NOT_HOLD if nothing else Exit.INVALID))
