"""Store the reference runs of machines in one SQLite file of the cache.

A finished comparison is judged without this file: the record of each pair contains the machine's usual clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from patchstack.causes import NoComparison

if TYPE_CHECKING:
    import sqlite3

SLOWER = 0.05
"""A drop is reported if the median speed falls by more than this share."""
_LEAST = 3
"""The minimum number of runs before a drop, and also after it."""
_TABLE = """
CREATE TABLE IF NOT EXISTS reference_runs (
    at TEXT NOT NULL, machine TEXT NOT NULL, what TEXT NOT NULL, speed REAL NOT NULL, clock REAL, power REAL,
    temperature REAL, comparison TEXT NOT NULL, pair INTEGER NOT NULL, slot INTEGER NOT NULL,
    UNIQUE (comparison, pair, slot))
"""
_COLUMNS = "at, machine, what, speed, clock, power, temperature, comparison, pair, slot"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRun:
    """A reference run.

    `at` is the time (UTC, ISO 8601). `what` is the digest of the workload: programs, model and shape. `speed` is in
    tokens per second. `clock` (MHz), `power` (watts) and `temperature` (degrees Celsius) are values under load; None if
    unknown. `slot` is 1 or 2, the position in the pair.
    """

    at: str
    machine: str
    what: str
    speed: float
    clock: float | None
    power: float | None
    temperature: float | None
    comparison: str
    pair: int
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """A drop in the speed of a machine.

    `since` is the first slower run. `before` is the median speed of the runs before it. `after` is the median speed of
    `since` and all later runs.
    """

    since: ReferenceRun
    before: float
    after: float


def remember(file: Path, runs: Sequence[ReferenceRun]) -> None:
    """Add runs to the file. Runs that the file already contains are skipped.

    Raises `MissingError` if the file cannot be written.
    """
    with _opened(file, write=True) as database, database:
        database.executemany(
            f"INSERT OR IGNORE INTO reference_runs ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?)",  # noqa: S608  (constant)
            [
                (r.at, r.machine, r.what, r.speed, r.clock, r.power, r.temperature, r.comparison, r.pair, r.slot)
                for r in runs
            ],
        )


def history(file: Path, machine: str | None = None) -> tuple[ReferenceRun, ...]:
    """Return the runs in chronological order.

    If `machine` is given, return only the runs of this machine. Return no runs if the file does not exist. Raises
    `MissingError` if the file is damaged.
    """
    if not file.is_file():
        return ()
    with _opened(file, write=False) as database:
        rows = database.execute(f"SELECT {_COLUMNS} FROM reference_runs ORDER BY at, pair, slot").fetchall()  # noqa: S608
    names = _COLUMNS.split(", ")
    runs = [ReferenceRun(**dict(zip(names, row, strict=True))) for row in rows]
    return tuple(run for run in runs if machine is None or run.machine == machine)


def usual_clock(runs: Sequence[ReferenceRun]) -> float | None:
    """Return the usual GPU clock of a machine in MHz: the median over its reference runs.

    Return None if fewer than six of the runs have a clock.
    """
    clocks = [run.clock for run in runs if run.clock is not None]
    return median(clocks) if len(clocks) >= 2 * _LEAST else None


def by_workload(runs: Sequence[ReferenceRun]) -> dict[tuple[str, str], tuple[ReferenceRun, ...]]:
    """Group runs by machine and workload, because only runs of the same machine and workload are comparable."""
    found: dict[tuple[str, str], tuple[ReferenceRun, ...]] = {}
    for run in runs:
        found[run.machine, run.what] = (*found.get((run.machine, run.what), ()), run)
    return found


def slower_since(runs: Sequence[ReferenceRun]) -> Drop | None:
    """Return the drop in the speed of a machine. Return None if the machine has not become slower.

    The runs must be in chronological order, all from one machine and one workload. If the drop could start at several
    runs, the result starts at the run for which the medians before and after fit the speeds best.
    """
    speeds = [run.speed for run in runs]
    best: tuple[float, Drop] | None = None
    for at in range(_LEAST, len(speeds) - _LEAST + 1):
        before, after = median(speeds[:at]), median(speeds[at:])
        if after >= before * (1 - SLOWER):
            continue
        error = sum(abs(one - before) for one in speeds[:at]) + sum(abs(one - after) for one in speeds[at:])
        if best is None or error < best[0]:
            best = error, Drop(since=runs[at], before=before, after=after)
    return best[1] if best is not None else None


@contextmanager
def _opened(file: Path, *, write: bool) -> Iterator[sqlite3.Connection]:
    import sqlite3

    try:
        if write:
            file.parent.mkdir(parents=True, exist_ok=True)
        place = str(file) if write else f"file:{file}?mode=ro"
        with closing(sqlite3.connect(place, timeout=30, uri=not write)) as database:
            if write:
                database.execute(_TABLE)
            yield database
    except (sqlite3.Error, OSError) as error:
        raise NoComparison(
            f"cannot use the history of this machine, {file}: {error}",
            hint="remove the file to start a new history",
        ) from error
