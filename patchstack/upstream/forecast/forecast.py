"""Forecast which patches will break next.

The forecast uses how often upstream changes lines near the series' own changes. In a backtest
(benchmarks/forecast_backtest.py), this was the simplest of the best predictors. docs/guides/canary.md shows the
figures. Using the age or the function of a change did not improve the predictions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from patchstack.causes import NotFetchable
from patchstack.git import run as git
from patchstack.git.objects import Commit, Objects, Repository
from patchstack.git.overlay import EXECUTABLE, FILE, Entry
from patchstack.series.files.directory import Series
from patchstack.tasks import task
from patchstack.upstream.canary.functions import function_at, functions
from patchstack.upstream.canary.strict_chain import StrictChain
from patchstack.upstream.forecast.line_map import Range, before, behind, distance
from patchstack.upstream.history import UpstreamRange
from patchstack.upstream.merge.edits import compare
from patchstack.upstream.merge.histogram import Edit
from patchstack.upstream.merge.patch_edits import OwnEdits
from patchstack.upstream.merge.text import is_binary

AHEAD = 30
"""The horizon of the forecast in days."""
NEAR = 25
"""The maximum distance, in lines, between a place and an upstream change that counts for this place."""
CONTEXT = 3
"""The number of context lines around a change.

A patch no longer applies strictly if upstream changes one of these lines.
"""
CALM = 0.05
"""The expected number of changes to a place in `AHEAD` days if upstream changed nothing nearby.

It is not 0, because refactorings cannot be predicted.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HotFunction:
    """A function that patches change, and the number of upstream commits that changed this function in the period.

    `name` is empty for lines outside of functions.
    """

    name: str
    commits: int
    patches: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HotFile:
    """A file of upstream that the series changes.

    `weeks` contains, for each week, the number of upstream commits that changed the file, oldest week first. `known` is
    false if the functions are unknown because contents were missing.
    """

    path: str
    weeks: tuple[int, ...]
    patches: tuple[str, ...]
    functions: tuple[HotFunction, ...]
    known: bool

    @property
    def commits(self) -> int:
        return sum(self.weeks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The risk of one patch.

    `risk` is the probability, from 0 to 1, that upstream changes lines of the patch within `AHEAD` days. `where` is the
    place with the largest part of this risk.
    """

    file: str
    number: int | None
    subject: str
    risk: float
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The forecast for a series.

    `days` is the length of the period that ends at `until` (YYYY-MM-DD). The period is shorter than requested if the
    clone's history is shorter. `weeks` are the first days of the weeks. Files are sorted by commits, and patches are
    sorted by risk, highest first.
    """

    days: int
    until: str
    commits: int
    weeks: tuple[str, ...]
    files: tuple[HotFile, ...]
    patches: tuple[Outlook, ...]


def expected(commits: float, lines: int, days: int) -> float:
    """Return how many changes to a place are expected in the next `AHEAD` days.

    The place has `lines` lines. In the last `days` days, `commits` commits changed lines near the place. The result is
    the place's share of these changes, scaled to `AHEAD` days, plus `CALM`.
    """
    share = (lines + 2 * CONTEXT) / (lines + 2 * NEAR)
    return CALM + commits * share * AHEAD / days


@dataclass(frozen=True, slots=True)
class _Past:
    """A past commit of upstream: its tree, and its time in seconds since 1970."""

    tree: str
    when: int


@dataclass(frozen=True, slots=True)
class _Place:
    """Lines of upstream's tip that a patch touches, and the function that contains these lines."""

    range: Range
    function: str


@task("forecasting")
def foresee(objects: Objects, repository: Repository, series: Series, range_: UpstreamRange, *, days: int) -> Forecast:
    """Forecast from upstream's commits of the last `days` days before its tip.

    If contents are missing, only those of touched files at the pin and at the tip are fetched. Raises `MissingError` if
    the history of the clone cannot be read.
    """
    past = _past(repository, range_.tip, days)
    with StrictChain(objects, series.patches) as chain:
        own = OwnEdits(chain, range_.pin.tree)
        return _Forecaster(objects, chain, own, series, range_, past, days).forecast()


def _past(repository: Repository, tip: Commit, days: int) -> list[_Past]:
    """Return upstream's commits of the last `days` days before its tip, oldest first.

    The tree of the oldest commit is the base, so the changes of this commit do not count.
    """
    told = git.read(repository.path, "rev-list", "-1", "--format=%ct", tip.oid)
    if not told.ok:
        raise NotFetchable(f"the history of {repository.name} cannot be read: {told.complaint}", hint="run 'git fsck'")
    newest = int(told.stdout.split(b"\n")[1])
    asked = git.read(
        repository.path,
        *("rev-list", "--first-parent", f"--max-age={newest - days * 86_400}", "--format=%T %ct", tip.oid),
    )
    lines = asked.stdout.decode("ascii", "replace").split("\n")[1::2]
    found = [_Past(tree, int(when)) for tree, when in (line.split(" ") for line in lines)]
    return found[::-1]


class _Forecaster:
    def __init__(
        self,
        objects: Objects,
        chain: StrictChain,
        own: OwnEdits,
        series: Series,
        range_: UpstreamRange,
        past: Sequence[_Past],
        days: int,
    ) -> None:
        self._objects = objects
        self._own = own
        self._series = series
        self._past = past
        self._newest = past[-1].when
        reached = (self._newest - past[0].when) / 86_400
        self._days = max(1, min(days, math.ceil(reached)))
        self._chain = chain
        self._pin = chain.touched.entries(range_.pin.tree)
        self._paths = [place for place, entry in enumerate(self._pin) if entry is not None]
        self._weeks = max(1, math.ceil(self._days / 7))
        self._tip = chain.touched.entries(range_.tip.tree)

    def forecast(self) -> Forecast:
        counts = {place: [0] * self._weeks for place in self._paths}
        edited: dict[int, Counter[str]] = {place: Counter() for place in self._paths}
        made: dict[int, list[tuple[Edit, ...]]] = {place: [] for place in self._paths}
        known = dict.fromkeys(self._paths, True)
        last = self._chain.touched.entries(self._past[0].tree)
        for commit in self._past[1:]:
            after = self._chain.touched.entries(commit.tree)
            week = self._weeks - 1 - min(self._weeks - 1, (self._newest - commit.when) // (7 * 86_400))
            for place in self._paths:
                if last[place] is not None and last[place] != after[place]:
                    counts[place][week] += 1
                    change = self._changed(last[place], after[place])
                    known[place] = known[place] and change is not None
                    edits, names = change or ((), set())
                    edited[place].update(names)
                    made[place].append(edits)
            last = after
        surface = self._surface()
        files = [self._file(place, counts[place], edited[place], known[place], surface) for place in self._paths]
        patches = [self._outlook(index, counts, made, known, surface[index]) for index in range(len(self._own))]
        begin = datetime.fromtimestamp(self._newest, UTC) - timedelta(days=7 * self._weeks - 1)
        return Forecast(
            days=self._days,
            until=datetime.fromtimestamp(self._newest, UTC).date().isoformat(),
            commits=len(self._past) - 1,
            weeks=tuple((begin + timedelta(days=7 * week)).date().isoformat() for week in range(self._weeks)),
            files=tuple(sorted((file for file in files if file.patches), key=lambda one: (-one.commits, one.path))),
            patches=tuple(sorted(patches, key=lambda one: (-one.risk, one.file))),
        )

    def _changed(self, old: Entry | None, new: Entry | None) -> tuple[tuple[Edit, ...], set[str]] | None:
        """Return the edits of a commit in a file, and the names of the changed functions.

        The name is empty for edits outside of functions. Return None if contents are missing.
        """
        texts = []
        for entry in (old, new):
            if entry is None or entry[0] not in (FILE, EXECUTABLE):
                texts.append([b""])
                continue
            if not self._objects.has(entry[1]):
                return None
            data = self._objects.blob(entry[1])
            texts.append([b""] if is_binary(data) else data.split(b"\n"))
        found = functions(texts[1])
        edits = compare(texts[0], texts[1])
        heads = (function_at(found, min(edit.to, len(texts[1]) - 1)) for edit in edits)
        return edits, {head.name if head is not None else "" for head in heads}

    def _surface(self) -> list[dict[int, list[_Place]]]:
        """Return the places that each patch changes, by file."""
        found: list[dict[int, list[_Place]]] = []
        for index in range(len(self._own)):
            files: dict[int, list[_Place]] = {}
            for path, change in self._own.of(index).items():
                place = self._chain.touched.place[path]
                lines = self._own.lines(change.old)
                if place in self._paths and lines is not None:
                    to_old = self._own.between(self._pin[place], change.old)
                    to_tip = self._own.between(self._pin[place], self._tip[place])
                    heads = functions(lines)
                    files[place] = [
                        _Place(behind(before((at, at + removed), to_old), to_tip), head.name if head else "")
                        for at, removed, _, _ in change.edits or ()
                        for head in (function_at(heads, at),)
                    ]
            found.append(files)
        return found

    def _file(
        self,
        place: int,
        weeks: list[int],
        edited: Counter[str],
        known: bool,
        surface: list[dict[int, list[_Place]]],
    ) -> HotFile:
        patches = self._series.patches
        by: dict[str, list[str]] = {}
        touching = []
        for index, files in enumerate(surface):
            if place in files:
                touching.append(patches[index].file)
                for name in dict.fromkeys(one.function for one in files[place]):
                    by.setdefault(name, []).append(patches[index].file)
        hot = [HotFunction(name=name, commits=edited[name], patches=tuple(files)) for name, files in by.items()]
        return HotFile(
            path=self._chain.touched.paths[place].decode("utf-8", "replace"),
            weeks=tuple(weeks),
            patches=tuple(touching),
            functions=tuple(sorted(hot, key=lambda one: (-one.commits, -len(one.patches), one.name))),
            known=known,
        )

    def _outlook(
        self,
        index: int,
        counts: dict[int, list[int]],
        made: dict[int, list[tuple[Edit, ...]]],
        known: dict[int, bool],
        surface: dict[int, list[_Place]],
    ) -> Outlook:
        patch = self._series.patches[index]
        total, worst, where = 0.0, 0.0, ""
        for place, places in surface.items():
            path = self._chain.touched.paths[place].decode("utf-8", "replace")
            by_function: dict[str, float] = {}
            for one in places:
                lines = one.range[1] - one.range[0]
                if known[place]:
                    often: float = _near(one.range, made[place])
                else:  # a commit to the file counts equally for each line of the file
                    whole = len(self._own.lines(self._pin[place]) or ())
                    often = sum(counts[place]) * min(1.0, (lines + 2 * NEAR) / max(1, whole))
                so_far = by_function.get(one.function, 0.0)
                by_function[one.function] = so_far + expected(often, lines, self._days)
            for name, changes in by_function.items():
                total += changes
                if changes > worst:
                    worst, where = changes, f"{path}: {name}()" if name else path
        return Outlook(
            file=patch.file, number=patch.number, subject=patch.subject, risk=1 - math.exp(-total), where=where
        )


def _near(range_: Range, made: Sequence[tuple[Edit, ...]]) -> int:
    """Return how many changes of a file were near a range of lines. The range refers to the newest version of the file.

    `made` contains the changes, oldest first.
    """
    count = 0
    for edits in reversed(made):
        count += any(distance(edit, range_) <= NEAR for edit in edits)
        range_ = before(range_, edits)
    return count
