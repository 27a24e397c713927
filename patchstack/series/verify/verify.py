"""Prove that pin + series = fork.

Every prefix tree is compared with the tree of its fork commit, and the last one with the tree of the fork's head.
`verify` compares a loaded series. `prove_series` loads and opens a configured series, then compares it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchstack.git.apply import Applier
from patchstack.git.objects import Commit, Objects
from patchstack.git.overlay import TreeOverlay
from patchstack.series.files.directory import Series, configured_series
from patchstack.series.lock import Lock, parked_notes, read_lock
from patchstack.series.sources import Sources, open_sources
from patchstack.series.verify.prefix_trees import Link, apply_series
from patchstack.series.verify.states import (
    NOT_APPLIED,
    Drift,
    Row,
    State,
    Verification,
    against_fork,
    against_lock,
    apply_row,
)

if TYPE_CHECKING:
    from patchstack.git.remote import Cache
    from patchstack.series.history import ForkHistory
    from patchstack.workspace import SeriesConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The expected result of a series.

    A fork takes precedence over a lock. In addition, the last tree is compared with `tree` if it is set. With
    `tree_only`, only the tree of the fork's head is compared, not the trees of its commits. With `other_tools`, verify
    also checks whether GNU patch and git apply the hunks at the same places.
    """

    fork: ForkHistory | None = None
    lock: Lock | None = None
    tree: str | None = None
    tree_only: bool = False
    other_tools: bool = False


def verify(
    objects: Objects, series: Series, base: Commit, expectation: Expectation, *, keep_going: bool = False
) -> Verification:
    """Verify a series with `verify_links`, and return only the verification."""
    return verify_links(objects, series, base, expectation, keep_going=keep_going)[0]


def verify_links(
    objects: Objects, series: Series, base: Commit, expectation: Expectation, *, keep_going: bool = False
) -> tuple[Verification, tuple[Link, ...]]:
    """Apply the series to the pin in memory, and compare the trees. Writes nothing.

    Return the verification, and the result of applying each patch. After a patch that does not apply, the other patches
    are `skipped`, unless `keep_going` is set.

    Raises `MissingObject` if a touched file's content, or a tree of the fork, is not available.
    """
    with Applier(objects, base.tree) as applier:
        links = apply_series(applier, series, keep_going=keep_going)
        rows = [apply_row(link) for link in links]
        drift: Drift | None = None
        fork, lock = expectation.fork, expectation.lock
        if fork is not None and not expectation.tree_only and not fork.merges:
            from patchstack.series.verify.drift import explain_drift
            from patchstack.series.verify.match import match

            matching = match(objects, links, fork.commits, base.tree)
            rows = against_fork(applier, links, rows, matching, fork, base)
            drift = explain_drift(objects, links, matching, fork, base, {row.file: row.state for row in rows})
        elif fork is None and lock is not None and not expectation.tree_only:
            rows = against_lock(links, rows, lock)
        found = _concluded(series, base, links, tuple(rows), expectation, drift)
        # Objects that git created can be read only while the applier is open.
        told = _other_tools(objects, links) if expectation.other_tools else ()
        return replace(found, warnings=(*found.warnings, *told)), links


def _other_tools(objects: Objects, links: Sequence[Link]) -> tuple[str, ...]:
    from patchstack.series.verify.other_tools import disagreements

    return tuple(disagreements(objects, links))


def _concluded(
    series: Series,
    base: Commit,
    links: Sequence[Link],
    rows: tuple[Row, ...],
    expectation: Expectation,
    drift: Drift | None,
) -> Verification:
    fork, lock = expectation.fork, expectation.lock
    applied_tree = links[-1].after
    applied_count = sum(link.applied for link in links)
    expected, expected_from = _expected(expectation)
    problem = next((f"{row.label}: {row.state}: {row.detail}" for row in rows if row.state is not State.OK), None)
    if fork is not None and fork.merges and not expectation.tree_only:
        problem = problem or _merges(fork)
    if fork is None and lock is not None and (lock.base_commit, lock.base_tree) != (base.oid, base.tree):
        problem = f"the lock was written for the pin {lock.base_commit[:12]}, not {base.oid[:12]}"
        if lock.base_commit == base.oid:
            problem = (
                f"the lock records the tree {lock.base_tree} for the base {base.oid[:12]}, but its tree is {base.tree}"
            )
    if expected is not None and applied_tree != expected and applied_count == len(links):
        problem = problem or f"the applied tree {applied_tree} is not the expected {expected} ({expected_from})"
    if expectation.tree is not None and fork is not None and fork.head.tree != expectation.tree:
        problem = problem or f"the fork's tree {fork.head.tree} is not the expected {expectation.tree}"
    holds = None if expected is None else problem is None and applied_tree == expected
    if expected is None and any(row.state in NOT_APPLIED for row in rows):
        holds = False
    return Verification(
        series=series.name,
        base_commit=base.oid,
        base_tree=base.tree,
        rows=rows,
        applied_count=applied_count,
        patch_count=len(links),
        applied_tree=applied_tree,
        expected_tree=expected,
        expected_from=expected_from,
        holds=holds,
        first_problem=problem,
        drift=drift,
        warnings=(*series.warnings, *_warnings(links)),
    )


def _expected(expectation: Expectation) -> tuple[str | None, str | None]:
    """Return the tree that the series must produce, and a phrase that describes the origin of this tree."""
    if expectation.tree is not None:
        return expectation.tree, "the command line (--expect-tree)"
    if expectation.fork is not None:
        fork = expectation.fork
        return fork.head.tree, f"fork {fork.name} ({fork.head.oid[:12]})"
    if expectation.lock is not None:
        return expectation.lock.tree, f"lock {expectation.lock.path}"
    return None, None


def _merges(fork: ForkHistory) -> str:
    named = ", ".join(f"{commit.oid[:12]} ({commit.subject})" for commit in fork.merges[:3])
    more = f" and {len(fork.merges) - 3} more" if len(fork.merges) > 3 else ""
    count = f"{len(fork.merges)} merge{'s' if len(fork.merges) > 1 else ''}"
    return (
        f"the fork has {count} since the pin: {named}{more}. A merge cannot become a patch; "
        "rebase the fork, or compare only the last tree with --tree-only"
    )


def _warnings(links: Sequence[Link]) -> tuple[str, ...]:
    warnings = [f"{link.patch.file}: {text}" for link in links if link.outcome for text in link.outcome.warnings]
    anchored = [link.patch.file for link in links if link.patch.anchored]
    if anchored:
        named = f"{anchored[0]} is" if len(anchored) == 1 else f"{anchored[0]} and {len(anchored) - 1} more are"
        warnings.append(
            f"{named} anchored: "
            "git apply would put the lines in the wrong place without an error; apply this series with patchstack apply"
        )
    return tuple(warnings)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedSeries:
    """A verification, with its series and the objects that contain its trees."""

    series: Series
    sources: Sources
    verification: Verification


def prove_series(
    config: SeriesConfig,
    cache: Cache,
    *,
    expect_tree: str | None = None,
    apply_only: bool = False,
    tree_only: bool = False,
    keep_going: bool = False,
    strip: int | None = None,
) -> Verification:
    """Verify a configured series.

    The last tree is compared with `expect_tree`, in addition to a fork and instead of a lock. With `apply_only`,
    nothing is compared. `tree_only` is explained in `Expectation`, and `keep_going` in `verify_links`. `strip` is the N
    of `-p N`. Raises the errors of `configured_series`, `open_sources` and `verify_links`.
    """
    return prove_and_keep(
        config,
        cache,
        expect_tree=expect_tree,
        apply_only=apply_only,
        tree_only=tree_only,
        keep_going=keep_going,
        strip=strip,
    ).verification


def prove_and_keep(
    config: SeriesConfig,
    cache: Cache,
    *,
    expect_tree: str | None = None,
    apply_only: bool = False,
    tree_only: bool = False,
    keep_going: bool = False,
    strip: int | None = None,
) -> VerifiedSeries:
    """Verify a series with the arguments of `prove_series`, and keep the repositories open for further work on the
    trees."""
    series = configured_series(config)
    with_fork = config.expect == "fork" and not apply_only
    sources = open_sources(
        cache,
        upstream=config.upstream,
        pin=config.pin,
        fork=config.fork if with_fork else None,
        fork_ref=config.fork_ref if with_fork else None,
        series=series,
        head_only=tree_only,
        recreate=config.name if config.listed else None,
        beside=config.fork,
    )
    with_lock = config.expect == "lock" and not apply_only and expect_tree is None
    expectation = Expectation(
        fork=sources.fork,
        lock=read_lock(config.patches) if with_lock else None,
        tree=None if apply_only else expect_tree,
        tree_only=tree_only,
        other_tools=apply_only,
    )
    series = series.at_depth(TreeOverlay(sources.objects, sources.base.tree), strip)
    verification, links = verify_links(sources.objects, series, sources.base, expectation, keep_going=keep_going)
    fuzzy = [link.patch.file for link in links if link.fuzz]
    # A series that has a fork is exported from the fork and not refreshed.
    if fuzzy and sources.fork is None and expectation.lock is None:
        verification = replace(verification, warnings=(*verification.warnings, _refresh(config, fuzzy, strip)))
    notes = parked_notes(config.patches)
    if notes:
        verification = replace(verification, warnings=(*verification.warnings, *notes))
    return VerifiedSeries(series=series, sources=sources, verification=verification)


def _refresh(config: SeriesConfig, files: Sequence[str], strip: int | None) -> str:
    """Return a sentence about the patches that need fuzz, with the command that refreshes them."""
    others = f" and {len(files) - 1} more need" if len(files) > 1 else " needs"
    depth = [] if strip is None else ["-p", str(strip)]
    words = ["patchstack", "refresh", "--patches", str(config.patches), "--upstream", config.upstream]
    command = shlex.join([*words, "--pin", config.pin, *depth, f"{config.patches}-refreshed"])
    return f"{files[0]}{others} fuzz, which git apply does not do; refreshed copies: {command}"
