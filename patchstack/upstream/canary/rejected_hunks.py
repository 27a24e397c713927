"""Why a patch fails in a strict chain: every hunk and file that does not fit, not only the first of each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from patchstack.git.patch.diff import FileDiff, Unsupported
from patchstack.git.patch.hunks import Misfit, apply_hunks, place_hunks
from patchstack.upstream.canary.strict_chain import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason against a patch. `fault` is a word of `patchstack.git.apply.Fault`; `path` is empty where none is
    known.

    `diff` and `hunk` (counted from 0) tell the hunk that does not fit; `hunk` is None for a file that is not there, or
    that is there and should not be.
    """

    fault: str
    path: bytes
    detail: str
    diff: FileDiff | None = None
    hunk: int | None = None


def why_not(standing: Standing, index: int) -> tuple[Reason, ...]:
    """The reasons for which a patch does not apply when a chain comes to it; at least one."""
    diffs = standing.chain.steps(index)
    if diffs is not None:
        try:
            found = tuple(reason for diff in diffs for reason in _of_file(standing, diff))
        except Unsupported:
            found = ()
        if found:
            return found
    outcome = standing.chain.outcome(standing, index)
    return tuple(
        Reason(fault=problem.fault.value, path=problem.path.encode("utf-8", "surrogateescape"), detail=problem.detail)
        for problem in outcome.problems
    )


def _of_file(standing: Standing, diff: FileDiff) -> list[Reason]:
    shown = diff.path.decode("utf-8", "replace")
    if diff.new is not None and diff.new != diff.old and standing.slot(diff.new) is not None:
        detail = f"{shown}: the patch makes it, but it is there already"
        return [Reason(fault="conflict", path=diff.new, detail=detail, diff=diff)]
    if diff.old is None:
        return []
    old = diff.old.decode("utf-8", "replace")
    if standing.slot(diff.old) is None:
        return [Reason(fault="missing-file", path=diff.old, detail=f"{old}: the file is not there", diff=diff)]
    lines = standing.lines(diff.old)
    if lines is None:
        raise Unsupported("no regular file", diff.line)
    whole = list(lines)
    if len(place_hunks(whole, diff.hunks)) == len(diff.hunks):
        if diff.new is None and whole != [b""]:
            detail = f"{shown}: the patch deletes it, but it holds lines the patch does not know"
            return [Reason(fault="conflict", path=diff.old, detail=detail, diff=diff)]
        return []
    found = []
    for number, hunk in enumerate(diff.hunks):
        alone = apply_hunks(lines, (hunk,))
        if isinstance(alone, Misfit):
            told = replace(alone, number=number + 1).describe()
            found.append(Reason(fault="conflict", path=diff.old, detail=f"{shown}: {told}", diff=diff, hunk=number))
    if not found:  # each fits alone, but not behind the others: the one that git stumbles over
        stumbled = apply_hunks(lines, diff.hunks)
        assert isinstance(stumbled, Misfit)
        detail = f"{shown}: {stumbled.describe()}"
        found.append(Reason(fault="conflict", path=diff.old, detail=detail, diff=diff, hunk=stumbled.number - 1))
    return found
