"""Define options that several commands share, and convert them to series and sources."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import AmbiguousName, NoWorkspace, OptionConflict
from patchstack.cli.complete import complete_series
from patchstack.cli.failures import talk
from patchstack.files.places import cache_directory, cache_places

# Imports at run time would slow down `--help` of every command.
if TYPE_CHECKING:
    from patchstack.engine.protocol import Engine
    from patchstack.git.remote import Cache
    from patchstack.workspace import SeriesConfig, Workspace

SeriesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="SERIES", autocompletion=complete_series, help="Series of the workspace [default: all]."),
]
UpstreamOption = Annotated[
    str | None,
    typer.Option(
        "--upstream",
        metavar="REPO",
        help="The upstream repository (a path or URL), instead of the workspace's upstream.",
    ),
]
PinOption = Annotated[
    str | None, typer.Option("--pin", metavar="SHA", help="The upstream commit to which the patches apply.")
]
PatchesOption = Annotated[
    Path | None,
    typer.Option(
        "--patches",
        metavar="DIR",
        help="A directory of patch files, without a workspace.",
        readable=False,  # opening the file later gives a better message than Typer's check
    ),
]
StripOption = Annotated[
    int | None,
    typer.Option(
        "-p",
        metavar="N",
        min=0,
        max=20,
        help="Remove N leading directories from the names in the patches, as git apply -pN "
        "[default: 1, or the only depth at which every file exists].",
    ),
]
WorkspaceOption = Annotated[
    Path | None,
    typer.Option("--workspace", metavar="FILE", help="The workspace file [default: the nearest patchstack.yaml]."),
]
OfflineOption = Annotated[
    bool, typer.Option("--offline", help="Fetch nothing. Use only local repositories and the cache.")
]

_POLICY = "patchstack.policy"


def _policy_chosen(context: typer.Context, source: str | None) -> str | None:
    """Set the policy for every workspace that the command opens."""
    context.meta[_POLICY] = source
    return source


PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy-from",
        metavar="REF|FILE",
        callback=_policy_chosen,
        help="Read the workspace file, except for its pins, from a commit or *.yaml file, to check untrusted changes.",
    ),
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="Where commands run: docker, docker:CONTEXT, ssh://USER@HOST, or host [default: docker].",
    ),
]


def workspace_file(path: Path | None) -> Path:
    """Return the named or the nearest workspace file. Raises `UsageError` if no workspace file exists."""
    from patchstack.workspace import FILE_NAME, find_workspace

    found = path or find_workspace(Path.cwd())
    if found is None:
        raise NoWorkspace(
            f"there is no {FILE_NAME} here or above",
            hint="create it: patchstack init --fork REPO --fork-ref BRANCH; "
            "or describe a series: --patches DIR --upstream REPO --pin SHA; or try patchstack demo",
        )
    return path or Path(os.path.relpath(found))


def the_workspace(path: Path | None) -> Workspace:
    """Return the named or the nearest workspace, with the policy of --policy-from.

    Raises `UsageError` if no workspace exists.
    """
    return _opened(workspace_file(path))


def _opened(path: Path) -> Workspace:
    """Read a workspace file.

    With --policy-from, cache the result for the command, and print the local policy changes that are ignored.
    """
    from typer._click.globals import get_current_context

    from patchstack.workspace import read_workspace

    context = get_current_context(silent=True)
    source = context.meta.get(_POLICY) if context is not None else None
    if context is None or source is None:
        return read_workspace(path)
    known: Workspace | None = context.meta.get(f"{_POLICY}:{path}")
    if known is None:
        from patchstack.series.policy import policy_from

        known = context.with_resource(policy_from(path, source))
        context.meta[f"{_POLICY}:{path}"] = known
        for line in known.not_used:
            talk(f"changed here, not used: {line}")
    return known


def work_alone(path: Path | None, doing: str) -> None:
    """Lock the workspace until the end of this command. Commands that wait for the lock show `doing`."""
    from typer._click.globals import get_current_context

    from patchstack.workspace.alone import alone_in

    root = workspace_file(path).parent
    get_current_context().with_resource(alone_in(root, doing, talk))


def nearest_workspace(path: Path | None) -> Workspace | None:
    """Return the named or the nearest workspace. Return None if no workspace exists."""
    from patchstack.workspace import find_workspace

    found = path or find_workspace(Path.cwd())
    return None if found is None else _opened(path or Path(os.path.relpath(found)))


def open_chosen_engine(spec: str | None, workspace: Workspace | None) -> Engine:
    """Return the engine that the user chose, or Docker if none is chosen.

    The engine from the command line (`spec`) has priority, then PATCHSTACK_ENGINE, then the engine of the workspace.
    Raises `UsageError` if `--policy-from` is given and the engine is `host`, unless the command line chose it.
    """
    from patchstack.engine.choose import open_engine

    configured = workspace.engine if workspace is not None else None
    named = spec or os.environ.get("PATCHSTACK_ENGINE") or configured or "docker"
    if named == "host" and spec is None and workspace is not None and workspace.policy is not None:
        from patchstack.causes import JobRefused

        raise JobRefused(
            "the engine 'host' has no sandbox, so it does not run code from a proposed change",
            hint="use --engine docker, or use --engine host if this machine may run untrusted code",
        )
    if named == "host" and (os.environ.get("CI") or (workspace is not None and workspace.policy is not None)):
        from patchstack.engine.host.apart import NOT_APART, apart

        if apart() is None:
            for line in NOT_APART:
                talk(line)
    return open_engine(named, root=cache_places().engine)


def one_series(workspace: Workspace, names: Sequence[str]) -> SeriesConfig:
    """Return the named series, or the only series.

    Raises `UsageError` if the workspace has several series and none was named.
    """
    chosen = workspace.select(names)
    if len(chosen) > 1:
        raise AmbiguousName(
            f"{workspace.path} has several series", hint=f"name one of {', '.join(series.name for series in chosen)}"
        )
    return chosen[0]


def chosen_series(
    names: Sequence[str],
    workspace: Path | None,
    *,
    patches: Path | None,
    upstream: str | None,
    pin: str | None,
    fork: str | None = None,
    fork_ref: str | None = None,
) -> tuple[SeriesConfig, ...]:
    """Return the chosen series of the workspace, or the series that the options describe.

    Without `patches`, `upstream` replaces the upstream of the workspace's series. Raises `UsageError` if the options
    mix a series of the workspace with a described series, or describe a series incompletely.
    """
    from patchstack.workspace import SeriesConfig

    by_hand = {"--pin": pin, "--fork": fork, "--fork-ref": fork_ref}
    if patches is None:
        given = [option for option, value in by_hand.items() if value is not None]
        if given:
            raise OptionConflict(
                f"{', '.join(given)} cannot be used without --patches", hint="add --patches DIR to describe a series"
            )
        configs = the_workspace(workspace).select(names)
        return configs if upstream is None else tuple(_with_upstream(config, upstream) for config in configs)
    if names or workspace is not None:
        raise OptionConflict("give a series of the workspace or --patches, not both")
    if pin is None:
        raise OptionConflict(
            "--patches needs --pin", hint="add --pin SHA, the upstream commit to which the patches apply"
        )
    if upstream is None and fork is None:
        raise OptionConflict("--patches needs --upstream", hint="add --upstream REPO, a clone or URL that has the pin")
    if (fork is None) != (fork_ref is None):
        raise OptionConflict("--fork and --fork-ref must be used together", hint="--fork REPO --fork-ref REF")
    return (
        SeriesConfig(
            name=patches.resolve().name,
            patches=patches,
            upstream=upstream or fork or "",
            pin=pin,
            fork=fork,
            fork_ref=fork_ref,
            expect="fork" if fork else "lock",
            listed=False,
        ),
    )


def _with_upstream(config: SeriesConfig, upstream: str) -> SeriesConfig:
    """Return the series with a different upstream for this command, and print a note."""
    from patchstack.git.remote import shown_url

    if upstream != config.upstream:
        talk(
            f"note: {config.name}: upstream is {shown_url(upstream)} for this command, not {shown_url(config.upstream)}"
        )
    return replace(config, upstream=upstream)


@contextmanager
def naming_clones(config: SeriesConfig) -> Iterator[None]:
    """If the upstream cannot be fetched or lacks an object, name the fork's local clone in the hint.

    The clone is never used as upstream unless the user requests it. Otherwise nobody would notice that the upstream
    lacks the pin.
    """
    from patchstack.git.objects import MissingObject
    from patchstack.git.remote import NotFetched
    from patchstack.workspace import is_url

    try:
        yield
    except (NotFetched, MissingObject) as error:
        fork = config.fork
        if is_url(config.upstream) and fork is not None and not is_url(fork) and Path(fork).is_dir():
            error.hint = f"{error.hint}; or use the local clone as upstream for this command: --upstream {quote(fork)}"
        raise


def open_cache(*, offline: bool) -> Cache:
    """Return the cache in PATCHSTACK_CACHE, or in the platform's cache directory if this variable is not set."""
    from patchstack.git.remote import Cache

    return Cache(cache_directory, offline=offline)
