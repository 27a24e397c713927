"""From a configured series to its verification: load, open, compare."""

from __future__ import annotations

from dataclasses import dataclass

from patchstack.git.remote import Cache
from patchstack.series.files.directory import Series, load_series
from patchstack.series.lock import read_lock
from patchstack.series.sources import Sources, open_sources
from patchstack.series.verify.result import Verification
from patchstack.series.verify.verify import Expectation, verify
from patchstack.workspace import SeriesConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """A verification, with the series it is about and the objects that hold its trees."""

    series: Series
    sources: Sources
    verification: Verification


def prove(
    config: SeriesConfig,
    cache: Cache,
    *,
    expect_tree: str | None = None,
    apply_only: bool = False,
    tree_only: bool = False,
    keep_going: bool = False,
) -> Verification:
    """Verify one series as configured. `expect_tree` is held against the last tree on top of a fork, and instead of a
    lock; `apply_only` compares with nothing. Raises what loading, opening and verifying raise."""
    return prove_and_keep(
        config,
        cache,
        expect_tree=expect_tree,
        apply_only=apply_only,
        tree_only=tree_only,
        keep_going=keep_going,
    ).verification


def prove_and_keep(
    config: SeriesConfig,
    cache: Cache,
    *,
    expect_tree: str | None = None,
    apply_only: bool = False,
    tree_only: bool = False,
    keep_going: bool = False,
) -> Proven:
    """As `prove`, and what was opened for it stays open: for whoever goes on with the trees."""
    series = load_series(config.patches, config.name)
    with_fork = config.expect == "fork" and not apply_only
    sources = open_sources(
        cache,
        upstream=config.upstream,
        pin=config.pin,
        fork=config.fork if with_fork else None,
        fork_ref=config.fork_ref if with_fork else None,
        series=series,
        head_only=tree_only,
    )
    with_lock = config.expect == "lock" and not apply_only and expect_tree is None
    expectation = Expectation(
        fork=sources.fork,
        lock=read_lock(config.patches) if with_lock else None,
        tree=None if apply_only else expect_tree,
        tree_only=tree_only,
    )
    verification = verify(sources.objects, series, sources.base, expectation, keep_going=keep_going)
    return Proven(series=series, sources=sources, verification=verification)
