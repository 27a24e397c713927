"""Show the result of `patchstack bisect` on a screen."""

from __future__ import annotations

from collections.abc import Iterator

from patchstack.workflow.bisect.bisect import Bisected, Ending


def answer_lines(found: Bisected) -> Iterator[str]:
    """Yield the first bad point, or the reason why it is unknown.

    The last line is a warning if the failure began more than once.
    """
    points, candidates = found.row.points, found.answer.candidates
    command = " ".join(found.command)
    runs = f"{len(found.tried)} of {len(points)} tried"
    match found.answer.ending:
        case Ending.FIRST_BAD:
            bad = points[candidates[0]]
            yield f"first bad: {bad.name} {bad.subject} ({runs}); {points[candidates[0] - 1].name} is good"
        case Ending.BETWEEN_SKIPS:
            yield f"the first bad point is unknown ({runs}), because points were skipped. It is one of:"
            yield from (f"  {points[place].name} {points[place].subject}" for place in candidates)
        case Ending.ALL_GOOD:
            yield f"{command} does not fail at {points[-1].name} ({points[-1].subject}): there is nothing to find"
        case Ending.ALL_BAD:
            yield f"{command} fails at {points[0].name} ({points[0].subject}) already: no later point is the cause"
        case Ending.END_SKIPPED:
            end = points[candidates[0]]
            why = found.tried[-1].why or "the command exited 125"
            yield f"{end.name} ({end.subject}) is an end of the range and was skipped, so nothing was searched: {why}"
    if found.turns_back is not None:
        bad, good = (points[place] for place in found.turns_back)
        yield (
            f"warning: {bad.name} is bad, but {good.name} after it is good: the failure began more than once, and only "
            f"one of these points was found"
        )
