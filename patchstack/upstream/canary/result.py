"""What canary found: a state for every patch on a newer upstream, who is to blame, and what is next."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from patchstack.upstream.canary.checks import CheckAhead, Drop
from patchstack.upstream.canary.parked import ParkedAhead
from patchstack.upstream.history import UpstreamCommit, UpstreamRange


class State(StrEnum):
    """What became of one patch on a newer upstream."""

    CLEAN = "clean"
    OFFSET = "offset"
    STALE = "stale"
    LANDED = "landed"
    PARTLY_LANDED = "partly-landed"
    FAILS_AT_PIN = "fails-at-pin"
    CONFLICT = "conflict"
    DELETED_SOURCE = "deleted-source"
    RENAMED_SOURCE = "renamed-source"
    CASCADE = "cascade"


APPLIES = frozenset({State.CLEAN, State.OFFSET, State.STALE})
_ROOTS = frozenset({State.CONFLICT, State.PARTLY_LANDED, State.DELETED_SOURCE, State.RENAMED_SOURCE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """An upstream commit that does what a patch does, or something like it.

    `how` is `tree` (the patch changes nothing there any more), `reverse` (it applies backwards), `hunks` (upstream's
    tree contains every hunk), `patch-id` (the same change), `similar` (`score` of its changed lines are the commit's)
    or `title` (both touch a file, and `score` of the words of the commit's title that tell it from others are in the
    patch's). The first three tell what is in upstream's tree, the others what a commit once did. `commit` is None for a
    change that upstream had at the pin already.
    """

    how: str
    score: float
    commit: UpstreamCommit | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The first commit at which a patch fails.

    `together` are earlier commits without which that commit would not break it, oldest first; empty if it does so
    alone. `root` tells whether the patch fails there by itself; else `causes` are the patches whose failure takes it
    along. `lines` show what collides.
    """

    commit: UpstreamCommit
    together: tuple[UpstreamCommit, ...]
    root: bool
    causes: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def caused_by(self) -> str | None:
        """The first of the causes."""
        return self.causes[0] if self.causes else None


class Fit(StrEnum):
    """How a patch fits onto one upstream commit, patches before it that fail left out."""

    APPLIES = "applies"
    OFFSET = "applies at an offset"
    MERGES = "merges three-way"
    FAILS = "fails"
    AT_PIN = "fails at its own pin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A patch, by its index, and the commits from `first` to `last` (both included) at which it fits the same way.
    -1 is the pin."""

    patch: int
    first: int
    last: int
    fit: Fit


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryPatch:
    """One patch of a series on a newer upstream.

    `strict` is its place in a chain of strict `git apply`: `clean`, `offset`, `conflict`, `missing-file`, `malformed`
    or `unsafe`; None for an anchored patch. `threeway` is that in a chain of three-way merges: `clean`, `landed`
    (it changes nothing there) or `conflict`; None for one that does not apply to the pin.
    `caused_by` is the patch to which a cascade goes back first, `causes` all of them. `renamed` are files that moved:
    the name at the pin and the one now. `collides` are the commits whose lines are in the way, the most lines first.
    `remains` are the hunks of a patch that landed in part which upstream's tree does not contain. `line` is the 1-based
    line of the patch file that does not fit; None for one that applies, or if it is not known.
    """

    file: str
    number: int | None
    subject: str
    state: State
    strict: str | None
    threeway: str | None
    caused_by: str | None
    causes: tuple[str, ...]
    detail: str
    problems: tuple[str, ...]
    remains: tuple[str, ...]
    line: int | None
    renamed: tuple[tuple[str, str], ...]
    collides: tuple[UpstreamCommit, ...]
    like: Likeness | None
    first_broken: Broken | None

    @property
    def applies(self) -> bool:
        return self.state in APPLIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """The whole answer for one series. `blamed` is `strict` or `threeway` if first breaking commits were looked for,
    else None. `timeline` is empty if it was not asked for, `checks` if the series has none;
    `drops` are patches that name a check by which they can go, `parked` those that are parked."""

    series: str
    upstream: str
    range: UpstreamRange
    patches: tuple[CanaryPatch, ...]
    blamed: str | None
    warnings: tuple[str, ...]
    timeline: tuple[Span, ...] = ()
    checks: tuple[CheckAhead, ...] = ()
    drops: tuple[Drop, ...] = ()
    parked: tuple[ParkedAhead, ...] = ()

    @property
    def applies(self) -> bool:
        """Whether every patch applies there as it is."""
        return all(patch.applies for patch in self.patches)

    @property
    def landed(self) -> tuple[CanaryPatch, ...]:
        return tuple(patch for patch in self.patches if patch.state is State.LANDED)


def breaking(result: Canary) -> list[tuple[UpstreamCommit, list[CanaryPatch]]]:
    """Upstream's commits that break patches, in their order, each with the patches it breaks first."""
    found: dict[int, tuple[UpstreamCommit, list[CanaryPatch]]] = {}
    for patch in result.patches:
        if patch.first_broken is not None:
            commit = patch.first_broken.commit
            found.setdefault(commit.index, (commit, []))[1].append(patch)
    return [found[index] for index in sorted(found)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """Patches that fail by themselves, by the upstream commit that is in their way; None if none is known. `freed` are
    the cascades that go back to no others: they apply once these are mended."""

    commit: UpstreamCommit | None
    roots: tuple[CanaryPatch, ...]
    freed: tuple[CanaryPatch, ...]


def to_mend(result: Canary) -> list[Culprit]:
    """What is to be mended, those that free the most patches first, then those with the most patches.

    A patch goes to the commit that broke it first, if that was looked for, else to the one with most lines in its way.
    """
    groups: dict[int, list[CanaryPatch]] = {}
    commits: dict[int, UpstreamCommit] = {}
    for patch in result.patches:
        if patch.state in _ROOTS:
            commit = patch.first_broken.commit if patch.first_broken is not None else None
            commit = commit or next(iter(patch.collides), None)
            key = commit.index if commit is not None else -1
            groups.setdefault(key, []).append(patch)
            if commit is not None:
                commits[key] = commit
    found = []
    for key, roots in groups.items():
        files = {patch.file for patch in roots}
        freed = tuple(
            patch
            for patch in result.patches
            if patch.state is State.CASCADE and patch.causes and files.issuperset(patch.causes)
        )
        found.append(Culprit(commit=commits.get(key), roots=tuple(roots), freed=freed))
    return sorted(found, key=lambda one: (-len(one.freed), -len(one.roots), one.commit.index if one.commit else -1))
