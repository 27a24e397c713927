"""Recreate a fork's branch.

Open the pin, then make the commits of the series on it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from patchstack.causes import BadValue
from patchstack.errors import MissingError
from patchstack.git.objects import FULL_ID, NotARepository
from patchstack.git.overlay import TreeOverlay
from patchstack.git.remote import Cache, shown_url
from patchstack.series.files.directory import Series, configured_series
from patchstack.series.lock import read_lock
from patchstack.series.mirror.checkout import CheckedOut, check_out, pick_alone
from patchstack.series.sources import Sources, open_sources
from patchstack.workspace import SeriesConfig, is_url


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckoutOrder:
    """The directory and name of the branch, and the patches that it contains.

    The branch contains all patches up to `at`, or only the patch `patch` on the pin. If both are None, the branch
    contains all patches. `at` and `patch` are numbers or names. If `files` is false, no files are checked out. If
    `clone` is set, `directory` becomes a new work tree of that repository. Otherwise, a new repository is created in
    `directory`. If `branch` is None, the branch has the same name as in the fork.
    """

    directory: Path
    at: str | None = None
    patch: str | None = None
    files: bool = True
    clone: Path | None = None
    branch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckoutResult:
    """The recreated branch, its pin, and whether its commits come from a lock."""

    branch: CheckedOut
    pin: str
    locked: bool


def check_out_series(
    config: SeriesConfig, order: CheckoutOrder, cache: Cache, tell: Callable[[str], None]
) -> CheckoutResult:
    """Recreate the branch of a series.

    Raises `UsageError` if `order.patch` is 0. Also raises the errors of `configured_series`, `open_sources` and
    `check_out`.
    """
    series = configured_series(config)
    if order.patch is not None and series.place_of(order.patch) < 0:
        raise BadValue("--patch 0 is the pin, not a patch", hint="use --at 0 to check out the pin")
    lock = read_lock(config.patches)
    sources = _sources(config, cache, series, order.clone, tell)
    made = check_out(
        sources.objects,
        series.at_depth(TreeOverlay(sources.objects, sources.base.tree)),
        lock,
        sources.base,
        order.directory,
        upstream=config.upstream,
        branch=order.branch or (lock.branch if lock is not None else _branch(config)),
        at=order.at if order.patch is None else order.patch,
        files=order.files,
        worktree_of=order.clone,
    )
    if order.patch is not None:
        made = pick_alone(made, sources.base, order.patch)
    return CheckoutResult(branch=made, pin=sources.base.oid, locked=lock is not None)


def _sources(
    config: SeriesConfig, cache: Cache, series: Series, clone: Path | None, tell: Callable[[str], None]
) -> Sources:
    """Open the clone that the user named, if upstream is a URL and the clone has the pin. Otherwise, open upstream."""
    if clone is not None and is_url(config.upstream):
        with contextlib.suppress(MissingError, NotARepository):
            sources = open_sources(cache, upstream=str(clone), pin=config.pin, series=series)
            tell(f"note: {clone} contains the pin, so nothing is fetched from {shown_url(config.upstream)}")
            return sources
    return open_sources(cache, upstream=config.upstream, pin=config.pin, series=series)


def _branch(config: SeriesConfig) -> str:
    """Return the branch name for a series whose lock has no branch name.

    This is the configured name or, if none is configured, the name of the series.
    """
    ref = (config.fork_ref or "").removeprefix("refs/heads/")
    return ref if ref and ref != "HEAD" and not FULL_ID.match(ref) else config.name
