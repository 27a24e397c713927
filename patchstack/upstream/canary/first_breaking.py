"""The first upstream commit that breaks each patch, in one walk over the range."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from patchstack.series.files.directory import PatchFile
from patchstack.tasks import counted, task
from patchstack.upstream.canary.diagnose import Diagnoser
from patchstack.upstream.canary.result import Broken, State
from patchstack.upstream.canary.transplant import Transplant
from patchstack.upstream.history import UpstreamCommit, UpstreamRange

_SHOWN = 4  # colliding places that are told of one patch
_TOGETHER = 4  # commits that are named as one reason; a break that takes more is told by the last alone

Fails = Callable[[str], Sequence[bool]]
"""Which patches fail in a chain over a tree."""


def blame_strict(diagnoser: Diagnoser, range_: UpstreamRange, patches: tuple[PatchFile, ...]) -> list[Broken | None]:
    """For every patch the first commit at which it fails in a chain of strict applies, failing patches left out.

    A patch that fails, applies again and fails again counts from the first time. An anchored patch counts as failing
    if it does not merge from its blob. None for a patch that does not apply to the pin: upstream did not break it.
    """

    def broken(commit: UpstreamCommit, index: int, together: tuple[UpstreamCommit, ...]) -> Broken:
        found = diagnoser.diagnose(commit.tree, index)
        return Broken(
            commit=commit,
            together=together,
            root=found.state is not State.CASCADE,
            causes=tuple(patches[one].file for one in found.causes),
            lines=_some(tuple(reason.detail for reason in found.reasons)),
        )

    return _walked(
        diagnoser,
        range_,
        lambda tree: [not ok for ok in diagnoser.chain.run(tree).applied],
        lambda tree: [not ok for ok in diagnoser.chain.supposed(tree)],
        broken,
    )


def blame_threeway(diagnoser: Diagnoser, range_: UpstreamRange, patches: tuple[PatchFile, ...]) -> list[Broken | None]:
    """For every patch the first commit onto which it does not merge three-way after those before it that do. None for
    a patch that does not apply to the pin."""
    causes: dict[int, tuple[int, ...]] = {}

    def broken(commit: UpstreamCommit, index: int, together: tuple[UpstreamCommit, ...]) -> Broken:
        needed = _needed(diagnoser, commit.tree, index)
        causes[index] = tuple(dict.fromkeys(root for one in needed for root in causes.get(one) or (one,)))
        lines: tuple[str, ...] = ()
        if not diagnoser.chain.run(commit.tree).applied[index]:
            lines = tuple(reason.detail for reason in diagnoser.diagnose(commit.tree, index).reasons)
        return Broken(
            commit=commit,
            together=together,
            root=not needed,
            causes=tuple(patches[one].file for one in causes[index]),
            lines=_some(lines),
        )

    return _walked(
        diagnoser,
        range_,
        lambda tree: [ok is False for ok in diagnoser.carried(tree).clean],
        lambda tree: [ok is False for ok in diagnoser.supposed(tree)],
        broken,
    )


def _walked(
    diagnoser: Diagnoser,
    range_: UpstreamRange,
    fails: Fails,
    supposed: Fails,
    broken: Callable[[UpstreamCommit, int, tuple[UpstreamCommit, ...]], Broken],
) -> list[Broken | None]:
    """Go through the commits, and explain every patch at the first at which it fails. `supposed` answers as `fails`
    does, for trees that are near the pin."""
    judged = [index for index in range(len(diagnoser.own)) if diagnoser.own.applies(index)]
    found: list[Broken | None] = [None] * len(diagnoser.own)
    search = _Together(diagnoser, range_, supposed)
    last: Sequence[object] = diagnoser.chain.touched.entries(range_.pin.tree)
    for commit in _each(range_):
        entries = diagnoser.chain.touched.entries(commit.tree)
        if entries == last:
            continue
        last = entries
        failing = fails(commit.tree)
        fresh = [index for index in judged if failing[index] and found[index] is None]
        needed = search.needed(commit, fresh) if fresh else {}
        for index in fresh:
            found[index] = broken(commit, index, needed.get(index, ()))
        if all(found[index] is not None for index in judged):
            break
    return found


def _each(range_: UpstreamRange) -> Iterator[UpstreamCommit]:
    """Upstream's commits, while progress counts them."""
    with task("blaming commits") as this:
        yield from counted(range_.commits, this, len(range_.commits), lambda commit: commit.label)


class _Together:
    """Finds the commits without which a commit would not have broken a patch."""

    def __init__(self, diagnoser: Diagnoser, range_: UpstreamRange, fails: Fails) -> None:
        self._range = range_
        self._fails = fails
        self._transplant = Transplant(diagnoser.objects, range_, diagnoser.chain.touched)

    def needed(self, commit: UpstreamCommit, indices: Sequence[int]) -> dict[int, tuple[UpstreamCommit, ...]]:
        """For patches that fail from a commit on, the earlier commits that it takes as well, oldest first; nothing for
        a patch that the commit breaks alone, or if the commit itself is on earlier ones and cannot be told apart.
        """
        if commit.index == 0:
            return {}
        alone = self._failing(self._range.pin.tree, [commit])
        if alone is None:
            return {}
        return {index: self._before(commit, index) for index in indices if not alone[index]}

    def _before(self, commit: UpstreamCommit, index: int) -> tuple[UpstreamCommit, ...]:
        """Add the latest commit that is still missing, found by bisection, until the patch fails."""
        chosen = [commit]
        while len(chosen) < _TOGETHER:
            fine, fails = -1, chosen[0].index - 1  # commits up to which the patch is fine, and up to which it fails
            while fails - fine > 1:
                middle = (fine + fails) // 2
                failing = self._failing(self._range.commits[middle].tree, chosen)
                if failing is not None and failing[index]:
                    fails = middle
                else:
                    fine = middle
            if fine >= 0 and self._failing(self._range.commits[fine].tree, chosen) is None:
                return ()  # the chosen ones merge only after that commit: it is their ground
            chosen.insert(0, self._range.commits[fails])
            failing = self._failing(self._range.pin.tree, chosen)
            if failing is None:
                return ()
            if failing[index]:
                return tuple(chosen[:-1])
        return ()

    def _failing(self, tree: str, commits: Sequence[UpstreamCommit]) -> Sequence[bool] | None:
        made = self._transplant.onto(tree, commits)
        return self._fails(made) if made is not None else None


def _needed(diagnoser: Diagnoser, tree: str, index: int) -> tuple[int, ...]:
    """The failing patches without which one that does not merge onto a tree would merge: none for one that fails by
    itself, one that is enough if laid in, or the fewest that must be laid in together."""
    failing = diagnoser.carried(tree).clean
    before = sorted(
        {
            one
            for path in diagnoser.own.of(index)
            for one in diagnoser.ownership.touching(path, index)
            if failing[one] is False
        }
    )
    if not before or not diagnoser.merges_laid(tree, index):
        return ()
    for one in before:
        if diagnoser.merges_with(tree, (one,), index):
            return (one,)
    if not diagnoser.merges_with(tree, before, index):
        return ()
    needed = list(before)
    for one in before:
        fewer = [other for other in needed if other != one]
        if diagnoser.merges_with(tree, fewer, index):
            needed = fewer
    return tuple(needed)


def _some(lines: tuple[str, ...]) -> tuple[str, ...]:
    if len(lines) <= _SHOWN:
        return lines
    return (*lines[:_SHOWN], f"and {len(lines) - _SHOWN} more places")
