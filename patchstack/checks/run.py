"""Run checks on trees.

Results are cached by check and files, so a check does not judge the same file contents again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from patchstack.causes import EngineNotNamed
from patchstack.checks.bound import TookTooLong, at_most
from patchstack.checks.kind import View
from patchstack.checks.model import Check, CheckRow, Found, TreeFile
from patchstack.checks.registry import kind_of
from patchstack.checks.scan import MatchesNothing, Scanner
from patchstack.checks.tree_files import Selection, TreeFiles
from patchstack.engine.protocol import Engine
from patchstack.errors import MissingError
from patchstack.git.handover import every_path
from patchstack.git.objects import Objects
from patchstack.series.files.directory import PatchFile
from patchstack.series.lint.globs import matching
from patchstack.series.verify.prefix_trees import Link
from patchstack.tasks import counted, task
from patchstack.verdict import Verdict

_NO_FILES = "none of the files that the patch touches exist"

OpenEngine = Callable[[], Engine]


def no_engine() -> Engine:
    """Raise `MissingError`, because no engine was named for commands."""
    raise EngineNotNamed("no engine was named for commands", hint="use --engine host or --engine docker")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesTrees:
    """The trees of a series.

    `last` is the tree after the last patch. `after` maps the number of each applied patch to the tree after that patch.
    `absent` maps the number of each other patch to the reason why the patch was not applied.
    """

    last: str
    after: Mapping[int, str]
    absent: Mapping[int, str]


def trees_of(links: Sequence[Link]) -> SeriesTrees:
    """Return the trees of a series. `links` record which patches applied."""
    after, absent = {}, {}
    for link in links:
        number = link.patch.number
        if number is not None and link.applied:
            after[number] = link.after
        elif number is not None:
            absent[number] = f"{link.patch.file} does not apply"
    return SeriesTrees(last=links[-1].after, after=after, absent=absent)


def touched_paths(patches: Sequence[PatchFile]) -> dict[int | None, frozenset[str]]:
    """Return the files that each patch touches, by patch number. The key None maps to the files of all patches."""
    found: dict[int | None, frozenset[str]] = {None: frozenset()}
    for patch in patches:
        paths = frozenset(path.decode("utf-8", "surrogateescape") for path in every_path(patch.data or b""))
        found[None] |= paths
        if patch.number is not None:
            found[patch.number] = found.get(patch.number, frozenset()) | paths
    return found


def _unmatched(globs: Sequence[str], files: tuple[TreeFile, ...]) -> str:
    """Return a message that lists the globs without a match, or an empty string if every glob matches a file."""
    without = [glob for glob in globs if not any(matching(file.path, [glob]) for file in files)]
    return f"no file matches {', '.join(without)}" if without else ""


class Checker:
    """Runs the checks of one series.

    `touched` contains the files that each patch touches. `engine` opens the engine for commands. It is called once,
    when the engine is first needed.
    """

    def __init__(self, objects: Objects, touched: Mapping[int | None, frozenset[str]], engine: OpenEngine) -> None:
        self._objects = objects
        self._touched = touched
        self._files = TreeFiles(objects)
        self._selections: dict[str, Selection] = {}
        self._scanner = Scanner(objects)
        self._open = engine
        self._engine: Engine | None = None
        self._known: dict[tuple[str, tuple[TreeFile, ...], tuple[TreeFile, ...]], Found] = {}
        self.judged = 0
        """The number of results that were computed. Cached results are not counted."""

    def rows(self, checks: Sequence[Check], trees: SeriesTrees) -> tuple[CheckRow, ...]:
        """Return the result of every check on its tree."""
        with task("running checks") as this:
            each = counted(checks, this, len(checks), lambda check: check.name)
            return tuple(self.row(check, trees) for check in each)

    def row(self, check: Check, trees: SeriesTrees) -> CheckRow:
        """Return the result of one check on its tree.

        The result is INVALID if the check's patch is not in the series or was not applied.
        """
        number = check.patch
        if number is not None and number not in trees.after:
            why = trees.absent.get(number, f"the series has no patch {number:04d}")
            return CheckRow(check=check, found=Found(verdict=Verdict.INVALID, reason=why))
        tree = trees.after[number] if check.at_patch and number is not None else trees.last
        return CheckRow(check=check, found=self.judge(check, tree), tree=tree)

    def judge(self, check: Check, tree: str) -> Found:
        """Return the result of a check on a tree. The result is INVALID if the check cannot judge the tree."""
        kind = kind_of(check.kind)
        needs = kind.needs(check.settings)
        try:
            files = self._files.select(tree, self._selection(check))
            others = self._files.select(tree, Selection(globs=needs)) if needs else ()
            key = (check.name, files, others)
            found = self._known.get(key)
            if found is None:
                why = "" if files else _NO_FILES
                why = _unmatched(check.files, files) or _unmatched(needs, others) or why
                self.judged += not why
                invalid = Found(verdict=Verdict.INVALID, reason=why)
                found = self._known[key] = invalid if why else self._judged(check, files, others)
        except MissingError as error:
            return Found(verdict=Verdict.INVALID, reason=error.message)
        return found

    def _selection(self, check: Check) -> Selection:
        found = self._selections.get(check.name)
        if found is None:
            paths = () if check.files else self._touched.get(check.patch, ())
            found = self._selections[check.name] = Selection(globs=check.files, paths=paths)
        return found

    def _judged(self, check: Check, files: tuple[TreeFile, ...], others: tuple[TreeFile, ...]) -> Found:
        kind = kind_of(check.kind)
        self._objects.want(file.oid for file in (*files, *others))
        view = View(
            name=check.name,
            files=files,
            others=others,
            objects=self._objects,
            scanner=self._scanner,
            seconds=check.seconds,
            engine=self._opened,
        )
        if kind.name == "command":  # the engine enforces the time limit of a command
            return kind.judge(check.settings, view)
        try:
            with at_most(check.seconds):
                return kind.judge(check.settings, view)
        except TookTooLong:
            return Found(verdict=Verdict.INVALID, reason=f"its pattern took over {check.seconds:g} s and was stopped")
        except MatchesNothing:
            return Found(verdict=Verdict.INVALID, reason="its pattern matches an empty text")

    def _opened(self) -> Engine:
        if self._engine is None:
            self._engine = self._open()
        return self._engine

    def close(self) -> None:
        """Close the engine if it is open."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None
