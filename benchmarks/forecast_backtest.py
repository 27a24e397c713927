"""Compare the forecasts of `patchstack canary --forecast` with upstream's real changes, over many earlier pins.

`python -m benchmarks.forecast_backtest --repo CLONE --pin SHA --patches DIR --to REF [--pins 24 --every 15]` takes the
places where a series is in upstream's files and follows them, line by line, to earlier commits: every `--every`
days back from the pin is one more pin. At each pin, several predictors estimate how likely upstream changes a place
(its lines, and three of context) within 30 days. They know only upstream's earlier commits. The estimates are compared
with upstream's later commits. For each predictor it prints how often a struck patch ranked higher than one that was not
struck (AUC, pin by pin: 0.5 is chance), and how many patches it expected to be struck.

A place is omitted at a pin if upstream wrote all of its lines later. Nothing is written.
"""

from __future__ import annotations

import argparse
import math
import subprocess
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from patchstack.git.objects import Objects, Repository
from patchstack.git.overlay import EXECUTABLE, FILE
from patchstack.series.files.directory import load_series
from patchstack.upstream.canary.functions import function_at, functions
from patchstack.upstream.canary.strict_chain import StrictChain
from patchstack.upstream.forecast.forecast import AHEAD, CONTEXT, NEAR, expected
from patchstack.upstream.forecast.line_map import Range, before, behind, distance
from patchstack.upstream.merge.histogram import Edit
from patchstack.upstream.merge.patch_edits import OwnEdits
from patchstack.upstream.merge.text import edits, is_binary

DAY = 86_400


@dataclass(frozen=True, slots=True)
class Change:
    """One upstream commit's change of one file: when (seconds since 1970), its edits, the functions it changes."""

    when: int
    edits: tuple[Edit, ...]
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Place:
    """Lines of an upstream file at the pin that a patch is on, and their function: its name and how many lines."""

    path: str
    range: Range
    function: str
    whole: int


class History:
    """Upstream's changes of some files, oldest first."""

    def __init__(self, objects: Objects, repo: Path, to: str, paths: Sequence[str], count: int) -> None:
        command = ["git", "-C", str(repo), "log", "--first-parent", f"-n{count}", "--raw", "--no-abbrev"]
        command += ["--no-renames", "--format=C %ct", to, "--", *paths]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        self._objects = objects
        self.changes: dict[str, list[Change]] = {path: [] for path in paths}
        when = 0
        found: list[tuple[str, int, str, str]] = []
        for line in told.splitlines():
            if line.startswith("C "):
                when = int(line[2:])
            elif line.startswith(":"):
                fields, _, path = line.partition("\t")
                old, new = fields.split()[2:4]
                found.append((path, when, old, new))
        for path, at, old, new in reversed(found):
            before, after = self._text(old), self._text(new)
            made = edits(before, after)
            heads = functions(after.split(b"\n"))
            names = frozenset(one.name if (one := function_at(heads, edit.to)) else "" for edit in made)
            self.changes[path].append(Change(at, made, names))

    def _text(self, oid: str) -> bytes:
        if not int(oid, 16):
            return b""
        data = self._objects.blob(oid)
        return b"" if is_binary(data) else data + b"\n"

    def between(self, path: str, start: int, end: int) -> list[Change]:
        """Return the changes after `start`, up to `end`."""
        changes = self.changes[path]
        times = [change.when for change in changes]
        return changes[bisect_right(times, start) : bisect_right(times, end)]


def strikes(edit: Edit, range_: Range) -> bool:
    """Return whether an edit meets a range of the old text, or its context."""
    return edit.at <= range_[1] + CONTEXT and edit.at + edit.removed >= range_[0] - CONTEXT


def places(repo: Path, pin: str, patches: Path) -> tuple[list[list[Place]], Objects]:
    """Return every patch's places in upstream's files at the pin."""
    repository = Repository.open(str(repo), repo)
    objects = Objects()
    objects.add_directory(repository.object_directory, str(repo))
    objects.remember()
    tree = repository.resolve_commit(pin, "pin", objects).tree
    series = load_series(patches, "series")
    found: list[list[Place]] = []
    with StrictChain(objects, series.patches) as chain:
        own = OwnEdits(chain, tree)
        entries = chain.touched.entries(tree)
        for index in range(len(own)):
            of_patch = []
            for path, change in own.of(index).items():
                base = entries[chain.touched.place[path]]
                if base is None or base[0] not in (FILE, EXECUTABLE) or change.old is None:
                    continue
                to_pin = own.between(base, change.old)
                lines = own.lines(base) or ()
                heads = functions(lines)
                for edit in change.edits or ():
                    there = before((edit.at, edit.at + edit.removed), to_pin)
                    one = function_at(heads, there[0])
                    whole = one.end - one.start if one else max(1, len(lines) - sum(x.end - x.start for x in heads))
                    of_patch.append(Place(path.decode(), there, one.name if one else "", whole))
            found.append(of_patch)
    return found, objects


@dataclass(frozen=True, slots=True)
class Seen:
    """A place at an earlier pin, and what upstream did around it before: for each past change of its file its age in
    days, how near it came (lines; None: not its lines' business), and whether it changed the function."""

    place: Place
    size: int
    past: tuple[tuple[float, int, bool], ...]
    file: int


Predictor = Callable[[Seen], float]
_FAR = 10_000


def look(history: History, place: Place, pin: int, now: int, days: int) -> tuple[Seen, bool] | None:
    """Return a place at an earlier pin, and whether upstream struck it in the following days. None if it did not
    exist."""
    range_ = place.range
    for change in reversed(history.between(place.path, now, pin)):
        older = before(range_, change.edits)
        if older[0] == older[1] and range_[0] < range_[1]:
            return None
        range_ = older
    start = range_
    struck = False
    for change in history.between(place.path, now, now + AHEAD * DAY):
        if any(strikes(edit, range_) for edit in change.edits):
            struck = True
            break
        range_ = behind(range_, change.edits)
    range_ = start
    past = []
    for change in reversed(history.between(place.path, now - days * DAY, now)):
        off = min((distance(edit, range_) for edit in change.edits), default=_FAR)
        past.append(((now - change.when) / DAY, off, place.function in change.names))
        range_ = before(range_, change.edits)
    return Seen(place, start[1] - start[0], tuple(past), len(past)), struck


def by_function(days: int) -> Predictor:
    """Return the number of commits that change the function, times the place's share of it."""

    def rate(seen: Seen) -> float:
        often = sum(in_function for age, _, in_function in seen.past if age <= days)
        share = min(1.0, (seen.place.range[1] - seen.place.range[0] + 2 * CONTEXT) / seen.place.whole)
        return often * share * AHEAD / days

    return rate


def by_lines(around: int, half: float, days: int, calm: float) -> Predictor:
    """Return the weighted number of commits that change nearby lines, times the place's share of these lines, plus
    `calm`. A commit's weight halves after a number of days (0: never)."""

    def rate(seen: Seen) -> float:
        weight = sum(0.5 ** (age / half) if half else 1.0 for age, off, _ in seen.past if off <= around and age <= days)
        time = half / math.log(2) * (1 - 0.5 ** (days / half)) if half else days
        share = (seen.size + 2 * CONTEXT) / (seen.size + 2 * around)
        return calm + weight * min(1.0, share) * AHEAD / time

    return rate


def as_it_is(days: int) -> Predictor:
    """Return the score of the predictor that patchstack uses."""
    return lambda seen: expected(sum(off <= NEAR and age <= days for age, off, _ in seen.past), seen.size, days)


def by_file(days: int) -> Predictor:
    """Return the number of commits that change the file."""
    return lambda seen: sum(age <= days for age, _, _ in seen.past) * AHEAD / days / 50


def by_size(seen: Seen) -> float:
    """Return the number of lines, without regard to upstream."""
    return (seen.size + 2 * CONTEXT) / 500


def auc(scores: Sequence[tuple[float, bool]]) -> float | None:
    """Return how often a struck one scores higher than one that was not struck. Ties count half."""
    hit = [score for score, struck in scores if struck]
    spared = [score for score, struck in scores if not struck]
    if not hit or not spared:
        return None
    return sum((one > other) + 0.5 * (one == other) for one in hit for other in spared) / len(hit) / len(spared)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Hold forecasts against what upstream did next.")
    for name in ("--repo", "--pin", "--patches", "--to"):
        parser.add_argument(name, required=True)
    parser.add_argument("--pins", type=int, default=24, help="how many earlier pins [24]")
    parser.add_argument("--every", type=int, default=15, help="days between them [15]")
    given = parser.parse_args()
    repo = Path(given.repo)
    surface, objects = places(repo, given.pin, Path(given.patches))
    paths = sorted({place.path for patch in surface for place in patch})
    history = History(objects, repo, given.to, paths, 20_000)
    told = subprocess.run(
        ["git", "-C", str(repo), "show", "-s", "--format=%ct", given.pin], capture_output=True, text=True, check=True
    )
    pin = int(told.stdout)
    predictors: dict[str, Predictor] = {"as it is, 90 days": as_it_is(90)}
    predictors |= {f"function, {days} days": by_function(days) for days in (30, 90, 365)}
    for around in (10, 25, 50, 100):
        for half, days in ((0, 90), (30, 90), (90, 365)):
            for calm in (0.0, 0.05):
                name = f"lines within {around}, half-life {half}, {days} days, calm {calm:g}"
                predictors[name] = by_lines(around, half, days, calm)
    predictors |= {"file, 90 days": by_file(90), "size alone": by_size}
    rows: dict[str, list[list[tuple[float, bool]]]] = {name: [] for name in predictors}
    struck = 0
    asked = 0
    for number in range(given.pins + 1):
        now = pin - number * given.every * DAY
        seen = [[one for place in patch if (one := look(history, place, pin, now, 730))] for patch in surface]
        for name, rate in predictors.items():
            scores = [
                (1 - math.exp(-sum(rate(one) for one, _ in patch)), any(hit for _, hit in patch))
                for patch in seen
                if patch
            ]
            rows[name].append(scores)
        asked += sum(bool(patch) for patch in seen)
        struck += sum(any(hit for _, hit in patch) for patch in seen)
    print(f"{given.pins + 1} pins, {asked} patches on them, {struck} struck within {AHEAD} days\n")
    print(f"{'predictor':54}{'AUC':>6}{'worst pin':>11}{'at the pin':>12}{'expected':>10}{'Brier':>8}")
    for name, pins in rows.items():
        each = [found for one in pins if (found := auc(one)) is not None]
        expected = sum(score for one in pins for score, _ in one)
        brier = mean((score - hit) ** 2 for one in pins for score, hit in one)
        last = auc(pins[0])
        shown = f"{last:12.2f}" if last is not None else f"{'-':>12}"
        print(f"{name:54}{mean(each):6.2f}{min(each):11.2f}{shown}{expected:10.0f}{brier:8.3f}")


if __name__ == "__main__":
    main()
