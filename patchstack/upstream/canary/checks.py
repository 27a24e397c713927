"""Run the checks of a series on a newer upstream, and find the first upstream commit on which each check fails."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchstack.checks.model import Check, CheckRow, Found, Site
from patchstack.checks.run import Checker, OpenEngine, SeriesTrees, touched_paths
from patchstack.git.apply import Applier
from patchstack.git.objects import Objects
from patchstack.git.patch.trailers import DROP_CHECK, DROP_WHEN
from patchstack.series.files.directory import Series
from patchstack.series.status.metadata import read_metadata
from patchstack.series.verify.prefix_trees import apply_series
from patchstack.tasks import counted, task
from patchstack.upstream.canary.carried_trees import CarriedTrees
from patchstack.upstream.history import UpstreamCommit, UpstreamRange
from patchstack.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteChange:
    """A site that is new or missing at the tip, and the commit that added or removed it.

    The commit is None if no search was made, or if the site was already new or missing at the pin.
    """

    site: Site
    lost: bool
    since: UpstreamCommit | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAhead:
    """A check on a newer upstream.

    `row` is the result at the tip. `at_pin` is the result at the pin. `first_fails` is the first commit on which the
    check fails. It is None if the check fails on no commit, if the check already fails at the pin, or if no search was
    made.
    """

    row: CheckRow
    at_pin: Verdict
    first_fails: UpstreamCommit | None
    changes: tuple[SiteChange, ...]

    @property
    def verdict(self) -> Verdict:
        return self.row.verdict


def look_at_checks(
    objects: Objects,
    series: Series,
    range_: UpstreamRange,
    checks: Sequence[Check],
    engine: OpenEngine,
    *,
    blame: bool,
) -> tuple[CheckAhead, ...]:
    """Run checks on the trees that a series produces at the pin and at the tip.

    Checks of upstream without the series (`on_upstream`) are skipped. With `blame`, also run the checks at every commit
    between the pin and the tip. Writes nothing. Raises `MissingObject` if the content of a touched file is not
    available.
    """
    checks = [check for check in checks if not check.on_upstream]
    if not checks:
        return ()
    wanted = {check.patch for check in checks if check.patch is not None}
    checker = Checker(objects, touched_paths(series.patches), engine)
    with Applier(objects, range_.pin.tree) as applier, contextlib.closing(checker):
        trees = CarriedTrees(objects, apply_series(applier, series, keep_going=True), wanted)
        histories = [_History(check) for check in checks]
        _look(checker, histories, trees.on(range_.pin.tree), None)
        commits = range_.commits if blame else range_.commits[-1:]
        with task("checking commits") as this:
            for commit in counted(commits, this, len(commits), lambda commit: commit.label):
                _look(checker, histories, trees.on(commit.tree), commit)
    return tuple(one.concluded(blame=blame) for one in histories)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """A patch that names a check, and the check's result on upstream without the series.

    The patch can be dropped if the result is PASS. `when` is the patch's own description of when it can be dropped.
    """

    file: str
    number: int | None
    check: str
    when: str
    found: Found

    @property
    def can_go(self) -> bool:
        """Whether the patch can be dropped, because its check is PASS."""
        return self.found.verdict is Verdict.PASS


def look_at_drops(
    objects: Objects, series: Series, tree: str, checks: Sequence[Check], engine: OpenEngine
) -> tuple[Drop, ...]:
    """Run the checks that patches name in `Drop-Check:` on an upstream tree without the series.

    If a named check does not exist, its result is INVALID.
    """
    named = [(one, name) for one in read_metadata(series) for name in one.values.get(DROP_CHECK, ())]
    if not named:
        return ()
    known = {check.name: check for check in checks}
    found = []
    with contextlib.closing(Checker(objects, touched_paths(series.patches), engine)) as checker:
        for patch, name in named:
            missing = Found(verdict=Verdict.INVALID, reason=f"no check is named {name}")
            found.append(
                Drop(
                    file=patch.file,
                    number=patch.number,
                    check=name,
                    when=patch.told(DROP_WHEN),
                    found=checker.judge(known[name], tree) if name in known else missing,
                )
            )
    return tuple(found)


def _look(checker: Checker, histories: Sequence[_History], trees: SeriesTrees, commit: UpstreamCommit | None) -> None:
    for history in histories:
        row = checker.row(history.check, trees)
        number = history.check.patch
        against = row.found.new or row.found.places or row.found.lost
        if number in trees.absent and number is not None and not against:
            # If a patch does not merge, the resulting tree is incomplete, and the check proves nothing.
            found = Found(verdict=Verdict.INVALID, reason=trees.absent[number])
            row = replace(row, found=found)
        history.add(row, commit)


class _History:
    """The results of one check, from the pin to the tip."""

    def __init__(self, check: Check) -> None:
        self.check = check
        self._rows: list[CheckRow] = []
        self._first: UpstreamCommit | None = None
        self._since: dict[tuple[Site, bool], UpstreamCommit | None] = {}

    def add(self, row: CheckRow, commit: UpstreamCommit | None) -> None:
        """Add the result at the next commit, or at the pin."""
        self._rows[1:] = [row]
        if self._rows[0].verdict is not Verdict.FAIL and row.verdict is Verdict.FAIL and self._first is None:
            self._first = commit
        found = row.found
        new = found.new or tuple(dict.fromkeys(one.site for one in found.places))
        now = [(site, False) for site in new] + [(site, True) for site in found.lost]
        self._since = {key: self._since.get(key, commit) for key in now}

    def concluded(self, *, blame: bool) -> CheckAhead:
        """Return the summary of all results."""
        changes = tuple(
            SiteChange(site=site, lost=lost, since=since if blame else None)
            for (site, lost), since in self._since.items()
        )
        return CheckAhead(
            row=self._rows[-1],
            at_pin=self._rows[0].verdict,
            first_fails=self._first if blame else None,
            changes=changes,
        )
