"""The first upstream commit that breaks each patch, in one walk over the range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchstack.series.files.directory import PatchFile
from patchstack.tasks import counted, task
from patchstack.upstream.canary.diagnose import Diagnoser
from patchstack.upstream.canary.result import Broken, State
from patchstack.upstream.history import UpstreamCommit, UpstreamRange
from patchstack.upstream.merge.series import Way

_SHOWN = 4  # colliding places that are told of one patch


def blame_strict(diagnoser: Diagnoser, range_: UpstreamRange, patches: tuple[PatchFile, ...]) -> list[Broken | None]:
    """For every patch the first commit at which it fails in a chain of strict applies, failing patches left out.

    A patch that fails, applies again and fails again counts from the first time. An anchored patch counts as failing
    where it does not merge from its blob.
    """
    first: dict[int, UpstreamCommit] = {}
    for commit in _each(range_):
        applied = diagnoser.chain.run(commit.tree).applied
        for index, ok in enumerate(applied):
            if not ok:
                first.setdefault(index, commit)
        if len(first) == len(patches):
            break
    return [_strictly(diagnoser, patches, index, first.get(index)) for index in _explained(patches)]


def _each(range_: UpstreamRange) -> Iterator[UpstreamCommit]:
    """Upstream's commits, while progress counts them."""
    with task("blaming commits") as this:
        yield from counted(range_.commits, this, len(range_.commits), lambda commit: commit.label)


def _explained(patches: Sequence[PatchFile]) -> Iterator[int]:
    """The places of the patches, while progress counts them."""
    with task("explaining what breaks") as this:
        yield from counted(range(len(patches)), this, len(patches), lambda index: patches[index].file)


def _strictly(
    diagnoser: Diagnoser, patches: tuple[PatchFile, ...], index: int, commit: UpstreamCommit | None
) -> Broken | None:
    if commit is None:
        return None
    found = diagnoser.diagnose(commit.tree, index)
    lines = tuple(reason.detail for reason in found.reasons)
    return Broken(
        commit=commit,
        root=found.state is not State.CASCADE,
        caused_by=patches[found.causes[0]].file if found.causes else None,
        lines=_some(lines),
    )


def blame_threeway(diagnoser: Diagnoser, range_: UpstreamRange, patches: tuple[PatchFile, ...]) -> list[Broken | None]:
    """For every patch the first commit onto which it does not merge three-way behind those before it that do. None for
    a patch that does not apply to the pin."""
    first: dict[int, tuple[UpstreamCommit, tuple[bool | None, ...]]] = {}
    last: object = None
    verdicts: tuple[bool | None, ...] = ()
    for commit in _each(range_):
        entries = diagnoser.chain.touched.entries(commit.tree)
        if entries != last:
            last, verdicts = entries, diagnoser.carried(commit.tree).clean
        for index, ok in enumerate(verdicts):
            if ok is False:
                first.setdefault(index, (commit, verdicts))
        if len(first) == len(patches):
            break
    return [_merging(diagnoser, patches, index, first.get(index)) for index in _explained(patches)]


def _merging(
    diagnoser: Diagnoser,
    patches: tuple[PatchFile, ...],
    index: int,
    found: tuple[UpstreamCommit, tuple[bool | None, ...]] | None,
) -> Broken | None:
    if found is None:
        return None
    commit, verdicts = found
    paths = diagnoser.own.of(index)
    before = {one for path in paths for one in diagnoser.ownership.touching(path, index) if verdicts[one] is False}
    root = not before or not diagnoser.carried(commit.tree, Way.LAID).clean[index]
    lines: tuple[str, ...] = ()
    if not diagnoser.chain.run(commit.tree).applied[index]:
        lines = tuple(reason.detail for reason in diagnoser.diagnose(commit.tree, index).reasons)
    return Broken(commit=commit, root=root, caused_by=None if root else patches[max(before)].file, lines=_some(lines))


def _some(lines: tuple[str, ...]) -> tuple[str, ...]:
    if len(lines) <= _SHOWN:
        return lines
    return (*lines[:_SHOWN], f"and {len(lines) - _SHOWN} more places")
