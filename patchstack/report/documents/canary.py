"""`patchstack.canary/1`: the result of `patchstack canary` for one series on a newer upstream."""

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
    """The upstream that was examined: the repository, the requested ref, and the ref's commit and tree."""

    repository: str
    ref: str
    commit: str
    tree: str


class CommitEntry(Part, frozen=True, kw_only=True):
    """An upstream commit.

    `index` is its distance from the pin, in commits. `pr` is the number of its pull request, or null if unknown.
    """

    index: int
    commit: str
    subject: str
    author: str
    date: str
    pr: int | None


class BreakingEntry(CommitEntry, frozen=True, kw_only=True):
    """An upstream commit that is the first to break patches. `patches` lists the files of these patches."""

    patches: tuple[str, ...]


class MendEntry(Part, frozen=True, kw_only=True):
    """Patches to repair together.

    `patches` lists the files of the patches that fail by themselves. `commit` is the upstream commit that conflicts
    with these patches; it is null if unknown. `frees` lists the files of later patches that apply once these patches
    are repaired. `freed_count` is the number of these later patches.
    """

    commit: CommitEntry | None
    patches: tuple[str, ...]
    frees: tuple[str, ...]
    freed_count: int


class BrokenEntry(CommitEntry, frozen=True, kw_only=True):
    """The first commit that breaks a patch.

    `root` is true if the patch breaks by itself. Otherwise it breaks because of other patches: `causes` lists them, and
    `caused_by` is the first. `together` lists earlier commits that are also needed to break the patch.
    """

    root: bool
    caused_by: str | None
    causes: tuple[str, ...] = ()
    together: tuple[CommitEntry, ...] = ()
    lines: tuple[str, ...]


class RenamedEntry(Part, frozen=True, kw_only=True):
    """A file that moved. `from` is its name at the pin, and `to` is its new name."""

    old: str = msgspec.field(name="from")
    new: str = msgspec.field(name="to")


class LikeEntry(Part, frozen=True, kw_only=True):
    """An upstream change that is similar to a patch.

    `how` describes how the change was found. `score` is the share of the patch that the change contains (0 to 1).
    `commit` is null if the pin contains the change. `drop_why` is the reason to drop the patch, or null if the patch
    has not landed.
    """

    how: str
    score: float
    commit: CommitEntry | None
    drop_why: str | None


class CanaryPatchEntry(Part, frozen=True, kw_only=True):
    """A patch and its state on the newer upstream.

    `line` is the number of the line in the patch file that does not apply, counted from 1. If only a part of the patch
    has landed, `remains` lists the hunks that upstream lacks.
    """

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
    """An upstream function.

    `commits` is the number of upstream commits that changed the function. `patches` lists the patches that touch it.
    """

    name: str
    commits: int
    patches: tuple[str, ...]


class FileEntry(Part, frozen=True, kw_only=True):
    """An upstream file that the series changes.

    `weeks` contains the number of upstream commits in each week, oldest week first. `commits` is the total number.
    `patches` lists the patches that touch the file. `known` is false if the functions of the file are unknown.
    """

    path: str
    weeks: tuple[int, ...]
    commits: int
    patches: tuple[str, ...]
    functions: tuple[FunctionEntry, ...]
    known: bool


class RiskEntry(Part, frozen=True, kw_only=True):
    """The risk of a patch.

    `risk` is the probability (0 to 1) that upstream changes lines of the patch in the next 30 days. `where` is the main
    source of this risk.
    """

    file: str
    number: int | None
    risk: float
    where: str


class ForecastEntry(Part, frozen=True, kw_only=True):
    """The recent upstream changes, and a forecast for the patches that is based on these changes."""

    days: int
    until: str
    commits: int
    weeks: tuple[str, ...]
    files: tuple[FileEntry, ...]
    patches: tuple[RiskEntry, ...]


class SiteChangeEntry(SiteEntry, frozen=True, kw_only=True):
    """A site that is `new` or `lost` at the tip.

    `since` is the upstream commit that changed the site. It is null if no search was made, or if the site has the same
    state at the pin.
    """

    change: str
    since: CommitEntry | None


class CheckAheadEntry(Part, frozen=True, kw_only=True):
    """The result of a check on the series at the tip of upstream.

    `check` contains this result, and `at_pin` is the verdict at the pin. `first_fails` is the first upstream commit on
    which the check fails. It is null if the check does not fail, or if no search was made. `changes` lists the sites
    that changed.
    """

    check: CheckEntry
    at_pin: str
    first_fails: CommitEntry | None
    changes: tuple[SiteChangeEntry, ...]


class DropEntry(Part, frozen=True, kw_only=True):
    """A patch with a check that decides when to drop the patch (trailer `Drop-Check:`).

    `verdict` and `reason` are the result of the check on upstream without the series. `when` is the text of the trailer
    `Drop-When:`.
    """

    file: str
    number: int | None
    check: str
    verdict: str
    reason: str
    when: str


class ParkedEntry(Part, frozen=True, kw_only=True):
    """A parked patch. `reason` states why it is parked, and `still` states whether it would apply at the tip."""

    file: str
    number: int | None
    subject: str
    reason: str
    still: str


class CanaryDocument(Document, frozen=True, kw_only=True, tag="patchstack.canary/1"):
    """The state of a series on a newer upstream.

    `commits` is the number of upstream commits after the pin. `blamed` states how patches were applied in the search
    for the breaking commits: `strict` or `threeway`. It is null if no search was made. `mend` lists the groups of
    patches to repair. The group that frees the most patches is first.
    """

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
    """Convert the result of a canary run and its forecast to the JSON document."""
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
    """Convert a patch and the result of its drop check to an entry."""
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
