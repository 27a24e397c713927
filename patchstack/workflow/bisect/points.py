"""List the points of a bisection, and make their builds.

The points are the trees of a series, or upstream's commits with the series on top.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchstack.builds.inputs.plan import Request
from patchstack.builds.inputs.prepare import prepare
from patchstack.builds.inputs.source import Source, with_absent
from patchstack.builds.inputs.variant import Setting, Variants
from patchstack.builds.record.store import Store
from patchstack.builds.run.build import build
from patchstack.builds.run.session import NotJudged, Watch
from patchstack.causes import NotInRange, PatchDoesNotApply, TargetNotAfterPin
from patchstack.engine.protocol import Engine
from patchstack.git.objects import Objects
from patchstack.git.remote import Cache
from patchstack.series.files.directory import Series
from patchstack.series.files.names import stem_of
from patchstack.series.verify.verify import VerifiedSeries, prove_and_keep
from patchstack.upstream.merge.patch import Picker
from patchstack.workflow.sync.target import open_target
from patchstack.workspace import SeriesConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point of a bisection.

    `name` is shown to the user. For a point of a series, `number` is the patch number, or 0 for the pin. It is None if
    the patch has no number. For an upstream commit, only `commit` is set, which is the commit's id.
    """

    name: str
    subject: str
    number: int | None = None
    commit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoTree:
    """The reason why a point has no tree."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The points of a bisection, in order.

    `over` is `series` or `upstream`. `what` describes the points to the user. The first point should be good, and the
    last one bad. `tree` returns the tree of the point at an index, or the reason why the point has no tree.
    """

    over: str
    what: str
    points: tuple[Point, ...]
    objects: Objects
    tree: Callable[[int], str | NoTree]


def row_of(config: SeriesConfig, cache: Cache, to: str | None, *, good: str | None, bad: str | None) -> Row:
    """Return the points of a bisection.

    The points are the patches of a series from `good` to `bad`, which are numbers or names. By default, `good` is the
    pin and `bad` is the last patch. With `to`, the points are instead the pin and the upstream commits up to that ref.

    Raises the errors of `upstream_row`, `NotHeldError` for a patch that does not apply, `ConfigError` for a number or
    name that no patch has, and `UsageError` if `good` is not before `bad`.
    """
    if to is not None:
        return upstream_row(config, cache, to)
    proven = _applied(config, cache)
    return _between(_series_row(config, proven), proven.series, good, bad)


def _series_row(config: SeriesConfig, proven: VerifiedSeries) -> Row:
    """Return the pin and the tree after each patch as a `Row` of points to bisect."""
    trees = _trees(proven)
    points = [Point(name="the pin", subject=proven.sources.base.subject, number=0)]
    for row in proven.verification.rows:
        if row.tree is not None:
            alone = row.number is not None and row.number not in proven.series.shared_numbers
            name = f"{row.number:04d}" if alone else stem_of(row.label)
            points.append(Point(name=name, subject=row.subject, number=row.number))
    count = "1 patch" if len(points) == 2 else f"{len(points) - 1} patches"
    return Row(
        over="series",
        what=f"{config.name}, {count} on {proven.sources.base.oid[:12]}",
        points=tuple(points),
        objects=proven.sources.objects,
        tree=lambda place: trees[place],
    )


def upstream_row(config: SeriesConfig, cache: Cache, to: str) -> Row:
    """Return the upstream commits from the pin to a ref, each with the series on top.

    The series is merged three-way, patch by patch, when the tree of a point is needed.

    Raises the errors of `open_target`, and `UsageError` if the ref is the pin itself.
    """
    proven = _applied(config, cache)
    objects, base = proven.sources.objects, proven.sources.base
    target = open_target(cache, config.upstream, base, to, objects)
    commits = target.range.commits
    if not commits:
        raise TargetNotAfterPin(
            f"{to} is the pin: there are no upstream commits to try", hint="name a later commit with --to"
        )
    trees = _trees(proven)
    labels = [row.label for row in proven.verification.rows if row.tree is not None]
    picker = Picker(objects)

    def tree(place: int) -> str | NoTree:
        return _on_top(picker, trees, labels, commits[place - 1].tree) if place else trees[-1]

    points = [Point(name=base.oid[:12], subject=base.subject, commit=base.oid)]
    points += [Point(name=one.oid[:12], subject=one.subject, commit=one.oid) for one in commits]
    what = f"{len(commits)} upstream commits from {base.oid[:12]} to {target.commit.oid[:12]}, {config.name} on top"
    return Row(over="upstream", what=what, points=tuple(points), objects=objects, tree=tree)


def _between(row: Row, series: Series, good: str | None, bad: str | None) -> Row:
    """Return the points of a series from one patch to another.

    A patch is given by number or name; 0 is the pin.
    """
    first = series.place_of(good) + 1 if good is not None else 0
    last = series.place_of(bad) + 1 if bad is not None else len(row.points) - 1
    if first >= last:
        names = [given or row.points[place].name for given, place in ((good, first), (bad, last))]
        raise NotInRange(f"patch {names[0]} is not before patch {names[1]}", hint="name the earlier patch as good")
    return Row(
        over=row.over,
        what=row.what,
        points=row.points[first : last + 1],
        objects=row.objects,
        tree=lambda place: row.tree(first + place),
    )


def _applied(config: SeriesConfig, cache: Cache) -> VerifiedSeries:
    proven = prove_and_keep(config, cache, apply_only=True)
    if not proven.verification.applies:
        raise PatchDoesNotApply(
            f"{config.name} does not apply: {proven.verification.first_problem}",
            hint=f"run 'patchstack verify {config.name}' to see the problem",
        )
    return proven


def _trees(proven: VerifiedSeries) -> list[str]:
    """Return the tree of the pin and the tree after every patch."""
    return [proven.verification.base_tree, *(row.tree for row in proven.verification.rows if row.tree is not None)]


def _on_top(picker: Picker, trees: Sequence[str], labels: Sequence[str], onto: str) -> str | NoTree:
    """Merge the series onto a different tree. Return the resulting tree, or the reason why a patch does not merge."""
    for label, before, after in zip(labels, trees, trees[1:], strict=False):
        merged = picker.merge(before, after, onto)
        if merged.tree is None:
            paths = ", ".join(conflict.path for conflict in merged.conflicts[:3])
            return NoTree(why=f"{label} does not merge onto it: {paths}")
        onto = merged.tree
    return onto


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedBuilds:
    """Builds the trees of a row for one variant.

    A tree that does not compile is skipped, as the manual of git bisect advises.
    """

    variant: Setting[str]
    objects: Objects
    engine: Engine
    variants: Variants
    store: Store
    memory: Path
    watch: Watch
    offline: bool

    def build(self, point: Point, tree: str) -> Path | NoTree:
        """Return the directory of a point's binaries, built now or found in the store."""
        source = with_absent(Source(label=f"{point.name} {point.subject}", tree=tree, objects=self.objects))
        inputs = prepare(
            Request(),
            source,
            self.engine,
            self.variants,
            self.memory,
            self.watch.talk,
            default=self.variant,
            offline=self.offline,
        )
        try:
            stored, _ = build(inputs, self.engine, self.store, self.watch)
        except NotJudged as error:
            return NoTree(why=f"its build ended without a result: {error.message}")
        if stored.record.rejection is not None:
            return NoTree(why=f"it does not build: {stored.record.rejection.message}")
        self.watch.phase("run")
        return stored.programs
