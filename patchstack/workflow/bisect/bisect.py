"""Find the first patch or upstream commit that makes a command fail.

Exit codes have the same meaning as in git bisect.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from patchstack.causes import BadValue
from patchstack.errors import Exit, PatchstackError
from patchstack.git.scratch import make_directory
from patchstack.process import ProgramTimeout, run
from patchstack.tasks import task
from patchstack.workflow.bisect.checkout_tree import TreeDirectory
from patchstack.workflow.bisect.points import NoTree, Point, Row


class PointState(StrEnum):
    """Whether the command succeeds at a point.

    `skip` means that the point cannot be tested.
    """

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


class Ending(StrEnum):
    """The way in which a bisection ends.

    `first-bad` means that the answer is one point. `between-skips` means that there are several candidates. The other
    values are reasons why there is no answer.
    """

    FIRST_BAD = "first-bad"
    BETWEEN_SKIPS = "between-skips"
    ALL_GOOD = "all-good"
    ALL_BAD = "all-bad"
    END_SKIPPED = "end-skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of the search.

    `candidates` contains the indexes of the points that may be the first bad one, in order. For `first-bad`, it
    contains only this point. For `end-skipped`, it contains the end that was skipped. For `all-good` and `all-bad`, it
    is empty.
    """

    ending: Ending
    candidates: tuple[int, ...] = ()


def next_point(good: int, bad: int, said: Mapping[int, PointState]) -> int | SearchResult:
    """Return the next point to try between a good and a bad end. Return the result if the search is over.

    Both ends are tried first. Then the middle point is tried, or the point nearest to it that was not skipped. A point
    is the first bad one if it is bad and the point before it is good. If all points between a good point and a bad
    point were skipped, the bad point or any of the skipped points may be the first bad one.
    """
    for end, wanted, other in ((bad, PointState.BAD, Ending.ALL_GOOD), (good, PointState.GOOD, Ending.ALL_BAD)):
        if end not in said:
            return end
        if said[end] is PointState.SKIP:
            return SearchResult(ending=Ending.END_SKIPPED, candidates=(end,))
        if said[end] is not wanted:
            return SearchResult(ending=other)
    low = max(point for point, one in said.items() if one is PointState.GOOD and good <= point < bad)
    high = min(point for point, one in said.items() if one is PointState.BAD and low < point <= bad)
    left = [point for point in range(low + 1, high) if point not in said]
    if left:
        middle = (low + high) / 2
        return min(left, key=lambda point: (abs(point - middle), point))
    candidates = tuple(range(low + 1, high + 1))
    return SearchResult(
        ending=Ending.FIRST_BAD if len(candidates) == 1 else Ending.BETWEEN_SKIPS,
        candidates=candidates,
    )


def comes_and_goes(said: Mapping[int, PointState]) -> tuple[int, int] | None:
    """Return a bad point and a later good point. Return None if no such points exist.

    If such points exist, the result changes from good to bad at several places, and the bisection found only one of
    these places.
    """
    bad = [point for point, one in said.items() if one is PointState.BAD]
    good = [point for point, one in said.items() if one is PointState.GOOD]
    if bad and good and min(bad) < max(good):
        return min(bad), max(good)
    return None


Talk = Callable[[str], None]
_SKIP, _ABORT = 125, 128


class BisectAborted(PatchstackError):
    """The bisection was aborted.

    The command requested the abort, was ended by a signal or the time limit, or gave different results for the same
    point.
    """

    code = "PS0911"
    exit_code = Exit.INVALID


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One attempt to run the command at a point.

    `place` is the index of the point. `code` is the exit code. It is None if the command was not run. In that case,
    `why` is the reason. `seconds` is the wall time.
    """

    place: int
    said: PointState
    code: int | None
    seconds: float
    log: Path | None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisected:
    """The result of the bisection, with all runs in order.

    `turns_back` contains a bad point and a later good point. It is None if no such points exist.
    """

    row: Row
    command: tuple[str, ...]
    tried: tuple[Tried, ...]
    answer: SearchResult
    turns_back: tuple[int, int] | None

    @property
    def first_bad(self) -> Point | None:
        if self.answer.ending is not Ending.FIRST_BAD:
            return None
        return self.row.points[self.answer.candidates[0]]


class Builder(Protocol):
    """Builds the trees of points, so that the command can test the programs."""

    def build(self, point: Point, tree: str) -> Path | NoTree:
        """Return the directory of the binaries.

        If the point has no binaries, return the reason. The point is then skipped.
        """
        ...


def bisect(
    row: Row,
    command: Sequence[str],
    logs: Path,
    talk: Talk,
    *,
    seconds: float = 24 * 3600.0,
    builder: Builder | None = None,
    confirm: bool = False,
) -> Bisected:
    """Find the first point at which a command fails.

    The command runs in a directory that contains the tree of the point. One log file is written to `logs` for each run.
    `seconds` is the time limit of a run. With `confirm`, the first bad point and the point before it are tried again.

    Raises `UsageError` if the command does not exist. Raises `BisectAborted` if the command requests an abort, is ended
    by a signal, exceeds its time limit, or gives different results for the same point.
    """
    argv = _found(command)
    logs.mkdir(parents=True, exist_ok=True)
    root = make_directory()
    try:
        trial = _Trial(row, argv, logs, talk, TreeDirectory(root / "tree", row.objects), seconds, builder)
        (root / "tree").mkdir()
        said: dict[int, PointState] = {}
        tried: list[Tried] = []
        last = len(row.points) - 1
        while isinstance(step := next_point(0, last, said), int):
            one = trial.run(step, len(tried) + 1)
            tried.append(one)
            said[step] = one.said
        if confirm and step.ending is Ending.FIRST_BAD:
            for place in (step.candidates[0] - 1, step.candidates[0]):
                tried.append(trial.run(place, len(tried) + 1))
                _refuse_doubt(row, said[place], tried[-1])
        return Bisected(
            row=row,
            command=tuple(command),
            tried=tuple(tried),
            answer=step,
            turns_back=comes_and_goes(said),
        )
    finally:
        shutil.rmtree(root, ignore_errors=True)


class _Trial:
    """Runs the command at the points, one at a time."""

    def __init__(
        self,
        row: Row,
        argv: tuple[str, ...],
        logs: Path,
        talk: Talk,
        directory: TreeDirectory,
        seconds: float,
        builder: Builder | None,
    ) -> None:
        self._row = row
        self._argv = argv
        self._logs = logs
        self._talk = talk
        self._directory = directory
        self._seconds = seconds
        self._builder = builder

    def run(self, place: int, count: int) -> Tried:
        point = self._row.points[place]
        tree = self._row.tree(place)
        if isinstance(tree, NoTree):
            return self._tell(
                point, Tried(place=place, said=PointState.SKIP, code=None, seconds=0.0, log=None, why=tree.why)
            )
        started = time.monotonic()
        environment = {"PATCHSTACK_TREE": tree, "PATCHSTACK_POINT": point.name}
        if self._builder is not None:
            made = self._builder.build(point, tree)
            if isinstance(made, NoTree):
                wall = time.monotonic() - started
                none = Tried(place=place, said=PointState.SKIP, code=None, seconds=wall, log=None, why=made.why)
                return self._tell(point, none)
            environment["PATCHSTACK_BIN"] = str(made)
        if spoilt := self._directory.move(tree):
            files = "1 file" if spoilt == 1 else f"{spoilt} files"
            self._talk(f"note: the command changed {files} of the tree, which patchstack restored")
        if not Path(self._argv[0]).is_absolute() and not (self._directory.root / self._argv[0]).is_file():
            why = f"the tree has no {self._argv[0]}"
            return self._tell(
                point, Tried(place=place, said=PointState.SKIP, code=None, seconds=0.0, log=None, why=why)
            )
        started = time.monotonic()
        log = self._logs / f"{count:03d}-{point.name.replace(' ', '-')}.log"
        with task(f"run {count} of the command: {point.name}", key=f"bisect {' '.join(self._argv)}"):
            code = self._code(environment, log)
        one = Tried(
            place=place,
            said=PointState.GOOD if code == 0 else PointState.SKIP if code == _SKIP else PointState.BAD,
            code=code,
            seconds=time.monotonic() - started,
            log=log,
        )
        if code < 0 or code >= _ABORT:
            how = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
            raise BisectAborted(
                f"the search was aborted: the command {how} at {point.name} ({point.subject})",
                hint=f"its output is in {one.log}; exit with 1 to 127 for bad, or with 125 to skip",
            )
        return self._tell(point, one)

    def _code(self, environment: dict[str, str], log: Path) -> int:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PATCHSTACK_"))}
        try:
            done = run(self._argv, cwd=self._directory.root, env=kept | environment, timeout=self._seconds)
        except ProgramTimeout as error:
            raise BisectAborted(
                f"the search was aborted: the command exceeded its time limit of {self._seconds:g} s",
                hint="to search for a hang, use --run 'timeout 60 CMD': its exit status 124 means bad",
            ) from error
        log.write_bytes(done.stdout + done.stderr)
        return done.code

    def _tell(self, point: Point, one: Tried) -> Tried:
        how = one.why or f"exit {one.code}, {one.seconds:.1f} s"
        self._talk(f"{one.said.value:<4}  {point.name}  {point.subject} ({how})")
        return one


def _found(command: Sequence[str]) -> tuple[str, ...]:
    """Return the command with the absolute path of its program, because it runs in a different directory.

    A relative path that does not exist here is treated as a program of the tree. Raises `UsageError` if the command is
    empty or its program does not exist.
    """
    if not command:
        raise BadValue("--run is empty", hint="name a command, for example --run 'make test'")
    program = shutil.which(command[0])
    if program is not None:
        return (str(Path(program).absolute()), *command[1:])
    if "/" in command[0] and not Path(command[0]).is_absolute():
        return tuple(command)  # a program of the tree itself
    hint = "no shell runs the command; to use one: --run 'sh -c \"…\"'"
    raise BadValue(f"program {command[0]} does not exist", hint=hint)


def _refuse_doubt(row: Row, before: PointState, again: Tried) -> None:
    if again.said is not before:
        point = row.points[again.place]
        raise BisectAborted(
            f"the search was aborted: {point.name} ({point.subject}) was {before.value} and is {again.said.value} now,"
            " so the command is not reliable",
            hint="make the command repeat its check until it is reliable",
        )
