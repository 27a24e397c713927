"""`patchstack init`: write patchstack.yaml from a fork or from a directory of patches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import AlreadyExists, OptionConflict
from patchstack.cli.failures import talk
from patchstack.cli.options import PatchesOption, StripOption, open_cache

if TYPE_CHECKING:
    from patchstack.git.remote import Cache
    from patchstack.series.mirror.discover import Found


def init_command(
    fork: Annotated[str | None, typer.Option(metavar="REPO", help="The fork's clone.")] = None,
    fork_ref: Annotated[
        str | None,
        typer.Option(metavar="REF", help="The fork's branch [default with --adopt: the name of the series]."),
    ] = None,
    upstream: Annotated[
        str | None, typer.Option(metavar="REPO", help="The upstream's repository: a path or URL.")
    ] = None,
    pin: Annotated[
        str | None,
        typer.Option(metavar="SHA", help="The upstream commit from which the fork starts [default: the merge base]."),
    ] = None,
    patches: PatchesOption = None,
    adopt: Annotated[
        str | None,
        typer.Option(
            metavar="CLONE", help="With --patches: create a branch of this clone from the patches, and its mirror here."
        ),
    ] = None,
    strip: StripOption = None,
    name: Annotated[
        str | None, typer.Option(help="The name of the series [default: the name of the branch or directory].")
    ] = None,
) -> None:
    """Write patchstack.yaml here, or add a series to it.

    The series comes from a branch of a fork, or from a directory of patches.
    """
    from patchstack.workspace import FILE_NAME
    from patchstack.workspace.write import add_series

    path = Path(FILE_NAME)
    there = path.exists()
    cache = open_cache(offline=False)
    if adopt is not None:
        if patches is None or pin is None or fork is not None:
            hint = "patchstack init --patches DIR --adopt CLONE --pin SHA"
            raise OptionConflict("--adopt needs --patches and --pin, and cannot be combined with --fork", hint=hint)
        _adopt(cache, path, patches, adopt, upstream=upstream, pin=pin, name=name, branch=fork_ref, strip=strip)
        return
    if strip is not None:
        raise OptionConflict(
            "-p needs --adopt, because the workspace does not store the depth", hint="add --adopt CLONE"
        )
    found, counted, next_step = _find(
        cache, fork=fork, fork_ref=fork_ref, upstream=upstream, pin=pin, patches=patches, name=name
    )
    add_series(path, found.config)
    verb = "added to" if there else "written to"
    print(f"{found.config.name}: {verb} {path}")
    print(f"pin {found.pin.oid} ({found.pin.subject}), from {found.pin_from}; {found.count} {counted}")
    talk(f"next: {next_step}")


def _find(
    cache: Cache,
    *,
    fork: str | None,
    fork_ref: str | None,
    upstream: str | None,
    pin: str | None,
    patches: Path | None,
    name: str | None,
) -> tuple[Found, str, str]:
    """Return the series, the words that follow its printed count, and the next command for the user.

    The words are `patches` for a directory of patches, and `commits above it` for a fork. Raises `UsageError` if
    options are missing.
    """
    from patchstack.series.mirror.discover import from_fork, from_patches

    if fork is not None:
        if fork_ref is None:
            raise OptionConflict("--fork needs --fork-ref", hint="patchstack init --fork REPO --fork-ref BRANCH")
        found = from_fork(cache, fork=fork, fork_ref=fork_ref, upstream=upstream, pin=pin, name=name, patches=patches)
        return found, "commits above it", f"patchstack export {found.config.name}"
    if patches is not None:
        if upstream is None or pin is None:
            raise OptionConflict(
                "--patches needs --upstream and --pin", hint="patchstack init --patches DIR --upstream REPO --pin SHA"
            )
        found = from_patches(cache, patches=patches, upstream=upstream, pin=pin, name=name)
        return found, "patches", f"patchstack verify {found.config.name} --apply-only"
    raise OptionConflict(
        "neither --fork nor --patches was given",
        hint="--fork REPO --fork-ref BRANCH, or --patches DIR --upstream REPO --pin SHA",
    )


def _adopt(
    cache: Cache,
    path: Path,
    patches: Path,
    clone: str,
    *,
    upstream: str | None,
    pin: str,
    name: str | None,
    branch: str | None,
    strip: int | None,
) -> None:
    """Adopt the patches, write the series, and verify the series from the written files."""
    from patchstack.report.text import patch_count
    from patchstack.report.verify import truth
    from patchstack.series.mirror.adopt import adopt
    from patchstack.series.mirror.discover import series_name
    from patchstack.series.verify.verify import prove_series
    from patchstack.workspace import read_workspace
    from patchstack.workspace.write import add_series

    name = name or series_name(patches.resolve().name)
    if path.exists() and any(series.name == name for series in read_workspace(path).series):
        raise AlreadyExists(f"{path} already has a series {name}", hint="choose a different name with --name")
    done = adopt(
        cache,
        patches=patches,
        clone=clone,
        upstream=upstream,
        pin=pin,
        name=name,
        branch=branch or name,
        strip=strip,
    )
    add_series(path, done.config)
    for warning in done.warnings:
        talk(f"warning: {warning}")
    if done.config.waive:
        talk(
            f"note: {path} waives the rule paths for {patch_count(len(done.config.waive))}: they are adopted unchanged"
        )
    print(f"{patches}: {patch_count(done.count)} on {done.pin.oid} give tree {done.tree}")
    print(f"{clone}: new branch {done.config.fork_ref} at {done.head}, with one commit for each patch")
    print(f"{done.config.patches}: its mirror, {patch_count(len(done.plan.files))} and series.lock")
    [series] = [one for one in read_workspace(path).series if one.name == name]
    print(truth(prove_series(series, cache)))
    talk(
        f"next: commit {path} and {done.config.patches}; work on {done.config.fork_ref}, then patchstack export {name}"
    )
