"""`patchstack.canary/1`: what `patchstack canary` found of one series on a newer upstream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from patchstack.checks.entries import CheckEntry, SiteEntry, check_entry
from patchstack.document import Document, Part
from patchstack.report.documents.verify import BaseEntry
from patchstack.upstream.canary.checks import CheckAhead, Drop
from patchstack.upstream.canary.landed import drop_reason
from patchstack.upstream.canary.result import Broken, Canary, CanaryPatch, Culprit, Likeness, State, breaking, to_mend
from patchstack.upstream.history import UpstreamCommit

if TYPE_CHECKING:
    from patchstack.upstream.forecast.forecast import Forecast, HotFile


class UpstreamEntry(Part, frozen=True, kw_only=True):
    """The upstream that was looked at: its repository, the name that was asked for, and the commit it was."""

    repository: str
    ref: str
    commit: str
    tree: str


class CommitEntry(Part, frozen=True, kw_only=True):
    """A commit of upstream, `index` commits after the pin; `pr` is the number of its pull request."""

    index: int
    commit: str
    subject: str
    author: str
    date: str
    pr: int | None


class BreakingEntry(CommitEntry, frozen=True, kw_only=True):
    """A commit that breaks patches: the files of those that it breaks first."""

    patches: tuple[str, ...]


class MendEntry(Part, frozen=True, kw_only=True):
    """What to mend together: `patches` are the files of those that fail by themselves, by the upstream `commit` that is
    in their way (null if none is known). `frees` are the files of the cascades that apply once these are mended,
    `freed_count` how many."""

    commit: CommitEntry | None
    patches: tuple[str, ...]
    frees: tuple[str, ...]
    freed_count: int


class BrokenEntry(CommitEntry, frozen=True, kw_only=True):
    """The first commit that breaks a patch: at its `root`, or only because of other patches, `causes` (`caused_by` is
    the first). `together` are earlier commits without which this one would not break it."""

    root: bool
    caused_by: str | None
    causes: tuple[str, ...] = ()
    together: tuple[CommitEntry, ...] = ()
    lines: tuple[str, ...]


class RenamedEntry(Part, frozen=True, kw_only=True):
    """A file that moved: its name at the pin, and now."""

    old: str = msgspec.field(name="from")
    new: str = msgspec.field(name="to")


class LikeEntry(Part, frozen=True, kw_only=True):
    """What upstream has that is like the patch: how it was found, how much of it is there (0 to 1), the commit (null:
    the pin), and the reason to drop the patch if it has landed."""

    how: str
    score: float
    commit: CommitEntry | None
    drop_why: str | None


class CanaryPatchEntry(Part, frozen=True, kw_only=True):
    """A row of the table. `line` is the line of the patch file that does not fit, from 1. `remains` are the hunks of a
    patch that landed in part which upstream does not contain."""

    file: str
    number: int | None
    subject: str
    state: str
    strict: str | None
    threeway: str | None
    caused_by: str | None
    causes: tuple[str, ...]
    first_broken: BrokenEntry | None
    detail: str
    problems: tuple[str, ...]
    remains: tuple[str, ...] = ()
    line: int | None = None
    renamed: tuple[RenamedEntry, ...]
    collides: tuple[CommitEntry, ...]
    like: LikeEntry | None


class FunctionEntry(Part, frozen=True, kw_only=True):
    """A function of upstream: the commits that changed it, and the patches in it."""

    name: str
    commits: int
    patches: tuple[str, ...]


class FileEntry(Part, frozen=True, kw_only=True):
    """A file of upstream: commits a week, in all, the patches in it, its functions if they are `known`."""

    path: str
    weeks: tuple[int, ...]
    commits: int
    patches: tuple[str, ...]
    functions: tuple[FunctionEntry, ...]
    known: bool


class RiskEntry(Part, frozen=True, kw_only=True):
    """How likely upstream is to change lines a patch is on, soon (0 to 1), and where most of that comes from."""

    file: str
    number: int | None
    risk: float
    where: str


class ForecastEntry(Part, frozen=True, kw_only=True):
    """Where upstream moved in the days before, and what that means for the patches."""

    days: int
    until: str
    commits: int
    weeks: tuple[str, ...]
    files: tuple[FileEntry, ...]
    patches: tuple[RiskEntry, ...]


class SiteChangeEntry(SiteEntry, frozen=True, kw_only=True):
    """A site that is `new` or `lost` at the tip, and the commit since which it is; null if that was not looked for, or
    if it is so at the pin already."""

    change: str
    since: CommitEntry | None


class CheckAheadEntry(Part, frozen=True, kw_only=True):
    """A check on what the series gives there: its answer, the verdict at the pin, the first commit on which it fails
    (null if there is none, or if it was not looked for), and the sites that changed."""

    check: CheckEntry
    at_pin: str
    first_fails: CommitEntry | None
    changes: tuple[SiteChangeEntry, ...]


class DropEntry(Part, frozen=True, kw_only=True):
    """A patch that names a check by which it can go (`Drop-Check:`), what that says of upstream alone, and the words of
    `Drop-When:`."""

    file: str
    number: int | None
    check: str
    verdict: str
    reason: str
    when: str


class ParkedEntry(Part, frozen=True, kw_only=True):
    """A patch that is parked, why, and how it would fit there."""

    file: str
    number: int | None
    subject: str
    reason: str
    still: str


class CanaryDocument(Document, frozen=True, kw_only=True, tag="patchstack.canary/1"):
    """What becomes of a series on a newer upstream, `commits` after the pin. `blamed` says by which chain the breaking
    commits were found, null if they were not looked for. `mend` is what to mend, in the order to do it: the group that
    frees the most patches first."""

    series: str
    upstream: UpstreamEntry
    pin: BaseEntry
    commits: int
    applies: bool
    applied_count: int
    patch_count: int
    blamed: str | None
    patches: tuple[CanaryPatchEntry, ...]
    breaking: tuple[BreakingEntry, ...]
    forecast: ForecastEntry | None
    warnings: tuple[str, ...]
    checks: tuple[CheckAheadEntry, ...] = ()
    mend: tuple[MendEntry, ...] = ()
    drops: tuple[DropEntry, ...] = ()
    parked: tuple[ParkedEntry, ...] = ()


def canary_document(result: Canary, forecast: Forecast | None) -> CanaryDocument:
    """Return the document of what was found."""
    range_ = result.range
    return CanaryDocument(
        series=result.series,
        upstream=UpstreamEntry(repository=result.upstream, ref=range_.ref, commit=range_.tip.oid, tree=range_.tip.tree),
        pin=BaseEntry(commit=range_.pin.oid, tree=range_.pin.tree),
        commits=len(range_.commits),
        applies=result.applies,
        applied_count=sum(patch.applies for patch in result.patches),
        patch_count=len(result.patches),
        blamed=result.blamed,
        patches=tuple(map(_patch, result.patches)),
        breaking=tuple(_breaking(commit, patches) for commit, patches in breaking(result)),
        forecast=_forecast(forecast) if forecast is not None else None,
        warnings=tuple(result.warnings),
        checks=tuple(map(_check, result.checks)),
        mend=tuple(map(_mend, to_mend(result))),
        drops=tuple(map(drop_entry, result.drops)),
        parked=tuple(
            ParkedEntry(file=one.file, number=one.number, subject=one.subject, reason=one.reason, still=one.still.value)
            for one in result.parked
        ),
    )


def _patch(patch: CanaryPatch) -> CanaryPatchEntry:
    return CanaryPatchEntry(
        file=patch.file,
        number=patch.number,
        subject=patch.subject,
        state=patch.state.value,
        strict=patch.strict,
        threeway=patch.threeway,
        caused_by=patch.caused_by,
        causes=tuple(patch.causes),
        first_broken=_broken(patch.first_broken) if patch.first_broken is not None else None,
        detail=patch.detail,
        problems=tuple(patch.problems),
        remains=patch.remains,
        line=patch.line,
        renamed=tuple(RenamedEntry(old=old, new=new) for old, new in patch.renamed),
        collides=tuple(map(_commit, patch.collides)),
        like=_like(patch.like, landed=patch.state is State.LANDED) if patch.like is not None else None,
    )


def _commit(commit: UpstreamCommit) -> CommitEntry:
    return CommitEntry(
        index=commit.index,
        commit=commit.oid,
        subject=commit.subject,
        author=commit.author,
        date=commit.date,
        pr=commit.pr,
    )


def drop_entry(drop: Drop) -> DropEntry:
    """A patch and the check by which it can go, as documents have them."""
    return DropEntry(
        file=drop.file,
        number=drop.number,
        check=drop.check,
        verdict=drop.found.verdict.value,
        reason=drop.found.reason,
        when=drop.when,
    )


def _check(ahead: CheckAhead) -> CheckAheadEntry:
    return CheckAheadEntry(
        check=check_entry(ahead.row),
        at_pin=ahead.at_pin.value,
        first_fails=_commit(ahead.first_fails) if ahead.first_fails is not None else None,
        changes=tuple(
            SiteChangeEntry(
                path=one.site.path,
                name=one.site.name,
                change="lost" if one.lost else "new",
                since=_commit(one.since) if one.since is not None else None,
            )
            for one in ahead.changes
        ),
    )


def _breaking(commit: UpstreamCommit, patches: Sequence[CanaryPatch]) -> BreakingEntry:
    return BreakingEntry(patches=tuple(one.file for one in patches), **msgspec.structs.asdict(_commit(commit)))


def _mend(culprit: Culprit) -> MendEntry:
    return MendEntry(
        commit=_commit(culprit.commit) if culprit.commit is not None else None,
        patches=tuple(patch.file for patch in culprit.roots),
        frees=tuple(patch.file for patch in culprit.freed),
        freed_count=len(culprit.freed),
    )


def _broken(broken: Broken) -> BrokenEntry:
    return BrokenEntry(
        root=broken.root,
        caused_by=broken.caused_by,
        causes=broken.causes,
        together=tuple(map(_commit, broken.together)),
        lines=tuple(broken.lines),
        **msgspec.structs.asdict(_commit(broken.commit)),
    )


def _like(like: Likeness, *, landed: bool) -> LikeEntry:
    return LikeEntry(
        how=like.how,
        score=round(like.score, 3),
        commit=_commit(like.commit) if like.commit is not None else None,
        drop_why=drop_reason(like) if landed else None,
    )


def _forecast(forecast: Forecast) -> ForecastEntry:
    return ForecastEntry(
        days=forecast.days,
        until=forecast.until,
        commits=forecast.commits,
        weeks=tuple(forecast.weeks),
        files=tuple(map(_file, forecast.files)),
        patches=tuple(
            RiskEntry(file=one.file, number=one.number, risk=round(one.risk, 3), where=one.where)
            for one in forecast.patches
        ),
    )


def _file(file: HotFile) -> FileEntry:
    return FileEntry(
        path=file.path,
        weeks=tuple(file.weeks),
        commits=file.commits,
        patches=tuple(file.patches),
        functions=tuple(
            FunctionEntry(name=one.name, commits=one.commits, patches=tuple(one.patches)) for one in file.functions
        ),
        known=file.known,
    )
