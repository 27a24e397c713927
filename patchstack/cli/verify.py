"""`patchstack verify`: prove that pin + series = fork."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import BadValue, CloneNeeded, NothingToCompare, OptionConflict
from patchstack.cli.checks import (
    ChecksOption,
    RecordOption,
    RecordWhyOption,
    check_recording,
    checked,
    code_of,
    engine_of,
    show_checks,
    worst,
)
from patchstack.cli.each_series import each_series
from patchstack.cli.failures import complain_of, talk
from patchstack.cli.options import (
    EngineOption,
    OfflineOption,
    PatchesOption,
    PinOption,
    PolicyOption,
    SeriesArgument,
    StripOption,
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
    from patchstack.series.verify.states import Verification
    from patchstack.workspace import SeriesConfig

_TREE = re.compile(r"[0-9a-f]{40}\Z")


def verify_command(
    series: SeriesArgument = None,
    patches: PatchesOption = None,
    upstream: UpstreamOption = None,
    pin: PinOption = None,
    fork: Annotated[str | None, typer.Option(metavar="REPO", help="The fork's repository: a path or URL.")] = None,
    fork_ref: Annotated[str | None, typer.Option(metavar="REF", help="The fork's branch, tag or commit.")] = None,
    expect_tree: Annotated[
        str | None, typer.Option(metavar="SHA", help="The expected tree of the whole series.")
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option(metavar="fork|lock", help="The side to compare with, instead of the workspace's setting."),
    ] = None,
    apply_only: Annotated[bool, typer.Option("--apply-only", help="Only check whether every patch applies.")] = False,
    tree_only: Annotated[
        bool,
        typer.Option(
            "--tree-only", help="Compare only the last tree, not every prefix. Use it for a fork with merges."
        ),
    ] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Skip a patch that does not apply, and continue.")
    ] = False,
    strip: StripOption = None,
    checks: ChecksOption = False,
    record: RecordOption = None,
    why: RecordWhyOption = None,
    engine: EngineOption = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print a patchstack.verify/1 document, one line per series.")
    ] = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
    policy: PolicyOption = None,
) -> None:
    """Prove that pin + series = fork: compare the tree after every patch with its fork commit.

    Writes nothing, except with --record.
    """
    from patchstack.series.verify.verify import prove_series

    _check_expectations(expect, expect_tree, apply_only=apply_only, tree_only=tree_only)
    configs = chosen_series(
        series or (), workspace, patches=patches, upstream=upstream, pin=pin, fork=fork, fork_ref=fork_ref
    )
    configs = _expecting(configs, expect) if expect is not None else configs
    if expect_tree is not None and len(configs) > 1:
        raise OptionConflict("--expect-tree is for one series", hint="name the series to which the tree belongs")
    looked = _checking(configs, checks, record, why, policy)
    cache, opened = open_cache(offline=offline), engine_of(engine, workspace)
    verified = functools.partial(prove_series, cache=cache, expect_tree=expect_tree, strip=strip)

    def look(config: SeriesConfig) -> Exit:
        with naming_clones(config), task(f"verify {config.name}", key=f"verify {config.patches.absolute()}"):
            result = verified(config, apply_only=apply_only, tree_only=tree_only, keep_going=keep_going)
            rows = checked(config, cache, opened, name=record, why=why) if looked else None
        return worst(_reported(config, result, apply_only, json, rows), code_of(rows))

    raise typer.Exit(int(each_series(configs, look, _print_error if json else None)))


def _check_expectations(expect: str | None, expect_tree: str | None, *, apply_only: bool, tree_only: bool) -> None:
    """Raise `UsageError` if options cannot be combined, or if `expect_tree` is not a full tree id."""
    if expect_tree is not None and not _TREE.match(expect_tree):
        raise BadValue(f"--expect-tree {expect_tree} is not a full tree id of 40 hexadecimal digits")
    if apply_only and (expect_tree is not None or tree_only or expect is not None):
        hint = "omit --apply-only to compare trees"
        raise OptionConflict("--apply-only cannot be combined with --expect, --expect-tree or --tree-only", hint=hint)


def _checking(
    configs: Sequence[SeriesConfig], checks: bool, record: str | None, why: str | None, policy: str | None
) -> bool:
    """Return whether to run checks.

    Raises `UsageError` if no checks are configured, and `ConfigError` if the checks cannot be used.
    """
    check_recording(configs, record, why, policy)
    if not checks and record is None:
        return False
    from patchstack.workflow.checks import require_checks

    require_checks(configs)
    return True


def _expecting(configs: Sequence[SeriesConfig], expect: str) -> tuple[SeriesConfig, ...]:
    """Return copies of the series that are compared only with the fork, or only with the lock.

    Raises `UsageError` if `expect` is neither `fork` nor `lock`, or if a series has no fork to compare with.
    """
    if expect not in ("fork", "lock"):
        raise BadValue(f"--expect {expect} is neither fork nor lock")
    without = [config.name for config in configs if config.fork is None]
    if expect == "fork" and without:
        raise CloneNeeded(
            f"{', '.join(without)} cannot be compared with a fork: no fork is configured",
            hint="set fork and fork_ref in the workspace",
        )
    return tuple(replace(config, expect=expect) for config in configs)


def _print_error(name: str, error: PatchstackError) -> None:
    """Print an error document for a series that could not be verified.

    The output then has a document for every series.
    """
    from patchstack.report.documents.read import failed_verify

    print(failed_verify(name, error).line, flush=True)


def show(result: Verification) -> None:
    """Print the table, the result line and explanations on stdout, and warnings on stderr."""
    from patchstack.report.table import print_table
    from patchstack.report.text import printable
    from patchstack.report.verify import explanation, truth, verify_table

    print_table(verify_table(result))
    print(printable("\n".join([truth(result), *explanation(result)])), flush=True)
    for warning in result.warnings:
        talk(f"warning: {warning}")


def _reported(
    config: SeriesConfig, result: Verification, apply_only: bool, as_json: bool, rows: Sequence[CheckRow] | None
) -> Exit:
    """Print a result, and return its exit code."""
    if as_json:
        from patchstack.report.documents.verify import verify_document

        print(verify_document(result, rows).line, flush=True)
    else:
        show(result)
        show_checks(result.series, rows or ())
    if not result.applies or result.holds is False:
        return Exit.DOES_NOT_HOLD
    if result.holds is None and not apply_only:
        complain_of(
            NothingToCompare(
                "there is nothing to compare the applied tree with",
                hint=f"write series.lock with patchstack export {config.name}, or compare with the fork: --expect fork"
                if config.listed and config.fork is not None
                else "give --fork REPO --fork-ref REF or --expect-tree SHA, keep a series.lock next to the patches, "
                "or use --apply-only",
            )
        )
        return Exit.MISSING
    return Exit.HOLDS
