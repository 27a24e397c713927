"""Find the first upstream commit that breaks each patch, in one walk over the range."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from patchstack.series.files.directory import PatchFile
from patchstack.tasks import counted, task
from patchstack.upstream.canary.diagnose import Diagnoser
from patchstack.upstream.canary.result import Broken, State
from patchstack.upstream.canary.transplant import Transplant
from patchstack.upstream.history import UpstreamCommit, UpstreamRange

_SHOWN = 4  # the maximum number of conflicting places that are reported for one patch
_TOGETHER = 4  # the maximum number of commits that together break a patch; if more are needed, only the last is named

Fails = Callable[[str], Sequence[bool]]
"""The type of functions that return, for each patch, whether the patch fails in a chain over a tree."""


def blame_strict(diagnoser: Diagnoser, range_: UpstreamRange, patches: tuple[PatchFile, ...]) -> list[Broken | None]:
    """Return, for each patch, the first commit at which the patch fails in a chain of strict applies.

    Failing patches are skipped in the chain. The first failure counts, even if the patch applies again later. An
    anchored patch counts as failing if it does not merge from its blob. The result of a patch is None if the patch
    never fails. It is also None if the patch does not apply to the pin, because then upstream did not break it.
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
    """Return, for each patch, the first commit onto which the patch does not merge three-way.

    The patch is merged onto a tree that includes the earlier patches that merge. The result is None for a patch that
    never fails, or that does not apply to the pin.
    """
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
    """Walk over the commits, and explain every patch at the first commit at which the patch fails.

    `fails` returns which patches fail on a commit's tree. `supposed` returns the same for hypothetical trees. `broken`
    describes the failure of a patch.
    """
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
    """Yield upstream's commits, and count them in the progress display."""
    with task("blaming commits") as this:
        yield from counted(range_.commits, this, len(range_.commits), lambda commit: commit.label)


class _Together:
    """Finds the earlier commits without which a commit would not break a patch."""

    def __init__(self, diagnoser: Diagnoser, range_: UpstreamRange, fails: Fails) -> None:
        self._range = range_
        self._fails = fails
        self._transplant = Transplant(diagnoser.objects, range_, diagnoser.chain.touched)

    def needed(self, commit: UpstreamCommit, indices: Sequence[int]) -> dict[int, tuple[UpstreamCommit, ...]]:
        """Return, for each patch, the earlier commits without which `commit` would not break it, oldest first.

        `indices` are patches that fail from `commit` on. The result does not include patches that `commit` breaks
        alone. It is empty if `commit` depends on earlier commits and cannot be separated from them.
        """
        if commit.index == 0:
            return {}
        alone = self._failing(self._range.pin.tree, [commit])
        if alone is None:
            return {}
        return {index: self._before(commit, index) for index in indices if not alone[index]}

    def _before(self, commit: UpstreamCommit, index: int) -> tuple[UpstreamCommit, ...]:
        """Return the earlier commits without which `commit` would not break one patch.

        Each bisection adds the latest commit that is still missing. The search ends when the chosen commits break the
        patch at the pin. The result is empty if too many commits are needed, or if they depend on other commits.
        """
        chosen = [commit]
        while len(chosen) < _TOGETHER:
            fine, fails = -1, chosen[0].index - 1  # the patch applies up to `fine`, and fails from `fails` on
            while fails - fine > 1:
                middle = (fine + fails) // 2
                failing = self._failing(self._range.commits[middle].tree, chosen)
                if failing is not None and failing[index]:
                    fails = middle
                else:
                    fine = middle
            if fine >= 0 and self._failing(self._range.commits[fine].tree, chosen) is None:
                return ()  # the chosen commits depend on the commit `fine`
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
    """Return the failing earlier patches that prevent a patch from merging onto a tree.

    The result is empty if the patch fails because of its own change. Otherwise it is the one patch whose changes would
    make the merge succeed, or a minimal group of patches whose changes are needed together.
    """
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
