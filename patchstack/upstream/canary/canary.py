"""Check in memory whether a series applies to a newer upstream, and determine the state of every patch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patchstack.checks.model import Check
from patchstack.checks.run import OpenEngine, no_engine
from patchstack.git.objects import Objects
from patchstack.series.files.directory import PatchFile, Series
from patchstack.series.lock import ParkedPatch
from patchstack.tasks import counted, task
from patchstack.upstream.canary.causes import Culprits
from patchstack.upstream.canary.checks import look_at_checks, look_at_drops
from patchstack.upstream.canary.diagnose import Diagnoser, Diagnosis
from patchstack.upstream.canary.landed import SAME_LINES, Landing, commit_named, drop_reason
from patchstack.upstream.canary.parked import look_at_parked
from patchstack.upstream.canary.result import Broken, Canary, CanaryPatch, Likeness, State
from patchstack.upstream.canary.stale import Staleness
from patchstack.upstream.canary.strict_chain import ChainRun, StrictChain
from patchstack.upstream.canary.timeline import timeline
from patchstack.upstream.history import UpstreamCommit, UpstreamRange
from patchstack.upstream.merge.moved_directories import MovedDirectories

_IN_THE_TREE = ("tree", "reverse", "hunks")
_NOT_AT_PIN = "it does not apply at its own pin: see patchstack verify"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The options of a canary run.

    With `blame`, the run searches for the first commit that breaks each patch. It uses strict applies if `strict` is
    true, and otherwise three-way merges. With `search`, it also finds commits that are similar to a patch, and commits
    that conflict with the lines of a patch. It also searches files that the series does not touch for names that the
    patches add. `timeline` shows how each patch fits onto every commit. `checks` are run on the resulting trees.
    `engine` opens the engine for the commands of checks. `parked` patches are examined too.
    """

    strict: bool = False
    blame: bool = False
    search: bool = True
    timeline: bool = False
    checks: tuple[Check, ...] = ()
    parked: tuple[ParkedPatch, ...] = ()
    engine: OpenEngine = no_engine


def ask(objects: Objects, series: Series, range_: UpstreamRange, upstream: str, question: Question) -> Canary:
    """Apply a series to upstream's tip in memory and return the state of every patch. Writes nothing.

    Raises `MissingObject` if a touched file's content is not available.
    """
    with StrictChain(objects, series.patches) as chain:
        fetch_ahead(objects, chain, range_, all_commits=question.blame or question.search or question.timeline)
        diagnoser = Diagnoser(objects, chain, range_.pin.tree, len(range_.commits))
        broken: Sequence[Broken | None] = [None] * len(series.patches)
        if question.blame:
            from patchstack.upstream.canary.first_breaking import blame_strict, blame_threeway

            find = blame_strict if question.strict else blame_threeway
            broken = find(diagnoser, range_, series.patches)
        with task("applying the series to upstream"):
            rows = _Rows(objects, series.patches, range_, diagnoser, search=question.search)
        with task("examining patches") as this:
            each = counted(range(len(series.patches)), this, len(series.patches), lambda at: series.patches[at].file)
            patches = tuple(rows.row(index, broken[index]) for index in each)
        drawn = timeline(diagnoser, range_) if question.timeline else ()
    return Canary(
        series=series.name,
        upstream=upstream,
        range=range_,
        patches=patches,
        blamed=("strict" if question.strict else "threeway") if question.blame else None,
        warnings=(),
        timeline=drawn,
        checks=look_at_checks(objects, series, range_, question.checks, question.engine, blame=question.blame),
        parked=look_at_parked(objects, series, range_, question.parked),
        drops=look_at_drops(objects, series, range_.tip.tree, question.checks, question.engine),
    )


def fetch_ahead(objects: Objects, chain: StrictChain, range_: UpstreamRange, *, all_commits: bool) -> None:
    """Fetch the missing files that the series needs, all in one step.

    With `all_commits`, these are the files at the pin and at every commit, otherwise those at the pin and at the tip.
    Does nothing if `objects` cannot fetch.
    """
    if objects.fetch is None:
        return
    trees = [range_.pin.tree, *(commit.tree for commit in range_.commits)] if all_commits else []
    oids: dict[str, None] = {}
    for tree in trees or (range_.pin.tree, range_.tip.tree):
        for entry in chain.touched.entries(tree):
            if entry is not None and entry[0] & 0o170000 in (0o100000, 0o120000):
                oids[entry[1]] = None
    objects.want(oids)


class _Rows:
    """Builds the `CanaryPatch` of each patch, which is one row of the result."""

    def __init__(
        self,
        objects: Objects,
        patches: Sequence[PatchFile],
        range_: UpstreamRange,
        diagnoser: Diagnoser,
        *,
        search: bool,
    ) -> None:
        self._patches = patches
        self._range = range_
        self._diagnoser = diagnoser
        self._search = search
        self._tip = range_.tip.tree
        self._run: ChainRun = diagnoser.chain.run(self._tip)
        self._merged = diagnoser.carried(self._tip).clean
        self._culprits = Culprits(objects, range_, diagnoser.chain.touched)
        self._landing = Landing(objects, patches, range_, diagnoser, self._culprits)
        stale = Staleness(objects, range_, diagnoser, self._culprits if search else None)
        self._stale = stale
        self._directories = MovedDirectories(objects, range_.pin.tree, self._tip)
        self._there = diagnoser.chain.touched.entries(self._tip)
        applying = [index for index, applied in enumerate(self._run.applied) if applied]
        self._names = stale.names(applying, everywhere=search) if range_.commits else {}

    def row(self, index: int, broken: Broken | None) -> CanaryPatch:
        """Return the row of one patch. `broken` is the first commit that breaks the patch, if it is known."""
        patch = self._patches[index]
        applied = self._run.applied[index]
        like = self._landed(index, applied)
        found = None if applied else self._diagnoser.diagnose(self._tip, index)
        remains = self._remains(index, found, like)
        if remains == () and (like is None or like.how in ("title", "similar")):
            like = self._landing.by_hunks(index)
        led = self._led(index)
        state, told = self._state(index, found, like, remains, led)
        if state is State.FAILS_AT_PIN:
            found = self._diagnoser.diagnose(self._range.pin.tree, index)
        landed = state is State.LANDED
        failing = None if landed or state is State.FAILS_AT_PIN else found
        collides = self._collides(index) if failing is not None else ()
        beside = self._beside(failing, like, remains, collides, led) if failing is not None else ()
        return CanaryPatch(
            file=patch.file,
            number=patch.number,
            subject=patch.subject,
            state=state,
            strict=None if patch.anchored else self._strict(index, found),
            threeway=self._threeway(index, landed=landed and like is not None and like.how == "tree"),
            caused_by=self._patches[failing.causes[0]].file if failing is not None and failing.causes else None,
            causes=tuple(self._patches[one].file for one in failing.causes) if failing is not None else (),
            detail="; ".join([*told, *beside]),
            problems=tuple(told),
            remains=remains if state is State.PARTLY_LANDED and remains is not None else (),
            line=found.reasons[0].line if found is not None and not landed else None,
            renamed=(*(found.renamed if found is not None else ()), *led),
            collides=collides,
            like=like,
            first_broken=broken,
        )

    def _remains(self, index: int, found: Diagnosis | None, like: Likeness | None) -> tuple[str, ...] | None:
        """Return the hunks of a failing patch that upstream has not taken.

        Return None for a patch that applies, or that does not apply to the pin. Also return None if upstream has taken
        no significant hunk, and no upstream commit made most of the change.
        """
        if found is None or not self._range.commits or not self._diagnoser.own.applies(index):
            return None
        if like is not None and like.how in _IN_THE_TREE:
            return ()
        taken = self._landing.taken(index)
        return taken.remains if taken.some or (like is not None and _did_it(like)) else None

    def _landed(self, index: int, applied: bool) -> Likeness | None:
        """Return how upstream already contains the patch or a similar change. Return None if it contains neither."""
        if not self._range.commits or not self._diagnoser.own.applies(index):
            return None
        if not self._diagnoser.changed(self._tip, index):
            return None
        if applied:
            return self._landing.whole(index) if self._merged[index] else None
        found = self._landing.whole(index)
        if found is None and self._search:
            found = self._landing.same(index) or self._landing.similar(index)
        return found

    def _led(self, index: int) -> tuple[tuple[str, str], ...]:
        """Return the files that a patch adds to directories that upstream renamed, each with its suggested new path."""
        found = []
        for path, change in self._diagnoser.own.of(index).items():
            if change.old is None and self._there[self._diagnoser.chain.touched.place[path]] is None:
                where = self._directories.suggested(path)
                if where is not None:
                    found.append((path.decode("utf-8", "replace"), where.decode("utf-8", "replace")))
        return tuple(found)

    def _state(
        self,
        index: int,
        found: Diagnosis | None,
        like: Likeness | None,
        remains: Sequence[str] | None,
        led: Sequence[tuple[str, str]],
    ) -> tuple[State, list[str]]:
        if like is not None and (like.how in _IN_THE_TREE or (found is not None and remains == ())):
            return State.LANDED, [drop_reason(like)]
        at_pin = self._diagnoser.own.applies(index)
        if found is not None and not at_pin:
            return State.FAILS_AT_PIN, self._at_pin(index)
        if found is not None:
            told = [reason.detail for reason in found.reasons]
            return State.PARTLY_LANDED if remains is not None else found.state, told
        if not at_pin:
            return (State.OFFSET if self._run.offset[index] else State.CLEAN), [_NOT_AT_PIN]
        notes = [*_follow(led), *self._names.get(index, ())]
        around = list(self._stale.around(index)) if self._range.commits else []
        if around:
            return State.STALE, [*around, *notes]
        if self._run.offset[index]:
            return State.OFFSET, [f"its lines are {_lines(self._run.offset[index])}", *notes]
        return State.CLEAN, notes

    def _at_pin(self, index: int) -> list[str]:
        """Return why a patch does not apply to the pin of its series. Later changes of upstream are not the cause."""
        pin = self._range.pin.tree
        places = set(self._diagnoser.chain.places(index))
        before = [
            self._patches[one].file
            for one in range(index)
            if not self._diagnoser.own.applies(one) and places & set(self._diagnoser.chain.places(one))
        ]
        told = [_NOT_AT_PIN, *(reason.detail for reason in self._diagnoser.diagnose(pin, index).reasons)]
        return [*told, f"earlier patches that fail in the same files: {', '.join(before)}"] if before else told

    def _strict(self, index: int, found: Diagnosis | None) -> str:
        if found is not None:
            return found.reasons[0].fault
        return "offset" if self._run.offset[index] else "clean"

    def _threeway(self, index: int, *, landed: bool) -> str | None:
        merged = self._merged[index]
        if merged is None:
            return None
        if landed:
            return "landed"
        return "clean" if merged else "conflict"

    def _collides(self, index: int) -> tuple[UpstreamCommit, ...]:
        if not self._search or not self._range.commits:
            return ()
        return self._diagnoser.collides(self._culprits, self._tip, index)

    def _beside(
        self,
        found: Diagnosis,
        like: Likeness | None,
        remains: Sequence[str] | None,
        collides: Sequence[UpstreamCommit],
        led: Sequence[tuple[str, str]],
    ) -> list[str]:
        """Return further remarks about a failing patch."""
        said: list[str] = []
        if remains is not None and like is not None and like.commit is not None and like.how == "patch-id":
            said.append(f"{commit_named(like.commit)} took the whole patch, and later commits changed it")
        if remains is not None and like is not None and like.commit is not None and like.how == "similar":
            said.append(f"{commit_named(like.commit)} has {like.score:.0%} of the patch's lines")
        said += [f"remains: {hunk}" for hunk in remains or ()]
        said += [f"{old} is {new} now" for old, new in found.renamed]
        said += _follow(led)
        if found.causes:
            said.append(f"only because of {', '.join(self._patches[one].file for one in found.causes)}")
        elif found.also:
            said.append(f"it also needs {', '.join(self._patches[one].file for one in found.also)}")
        if collides and not found.causes:
            named = [f"{commit.label} ({_title(commit)})" for commit in collides[:3]]
            more = f" and {len(collides) - 3} more" if len(collides) > 3 else ""
            said.append(f"in the way: {', '.join(named)}{more}")
        if like is not None and like.commit is not None and like.how == "title":
            said.append(
                f"upstream has a commit with a similar title: {like.commit.label} ({_title(like.commit)}); "
                "check whether the patch is still needed"
            )
        return said


def _did_it(like: Likeness) -> bool:
    """Return whether an upstream commit made the change of a patch, or most of this change."""
    return like.how == "patch-id" or (like.how == "similar" and like.score >= SAME_LINES)


def _follow(led: Sequence[tuple[str, str]]) -> list[str]:
    return [f"{old} belongs at {new} now: its directory was renamed" for old, new in led]


def _title(commit: UpstreamCommit) -> str:
    return commit.subject.removesuffix(f"(#{commit.pr})").strip()


def _lines(offset: int) -> str:
    count = abs(offset)
    return f"{count} line{'s' if count > 1 else ''} {'further down' if offset > 0 else 'further up'}"
