"""`patchstack.bisect/1`: the patch or the upstream commit that first makes a command fail."""

from __future__ import annotations

from patchstack.document import Document, Part
from patchstack.workflow.bisect.bisect import Bisected
from patchstack.workflow.bisect.points import Point


class PointEntry(Part, frozen=True, kw_only=True):
    """A point of the search.

    It is either a prefix of the series (`number`) or an upstream commit (`commit`).
    """

    name: str
    subject: str
    number: int | None
    commit: str | None


class TriedEntry(PointEntry, frozen=True, kw_only=True):
    """A point that was tried.

    `place` is the position of the point, counted from 0. `code` is the exit code, or null if the command did not run.
    `seconds` is the wall time. `why` is null if the command decided the result. Otherwise it is the reason for the
    result.
    """

    place: int
    said: str
    code: int | None
    seconds: float
    log: str | None
    why: str | None


class BisectDocument(Document, frozen=True, kw_only=True, tag="patchstack.bisect/1"):
    """The result of a bisection.

    `candidates` has several entries if points were skipped. If the command failed at a point and succeeded at a later
    point, `turns_back` contains both points.
    """

    series: str
    over: str
    what: str
    command: tuple[str, ...]
    points: int
    ending: str
    first_bad: PointEntry | None
    candidates: tuple[PointEntry, ...]
    turns_back: tuple[PointEntry, ...] | None
    log: tuple[TriedEntry, ...]


def bisect_document(series: str, found: Bisected) -> BisectDocument:
    """Convert a bisection to its JSON document."""
    points = found.row.points
    turns_back = found.turns_back
    return BisectDocument(
        series=series,
        over=found.row.over,
        what=found.row.what,
        command=tuple(found.command),
        points=len(points),
        ending=found.answer.ending.value,
        first_bad=_point(found.first_bad) if found.first_bad is not None else None,
        candidates=tuple(_point(points[place]) for place in found.answer.candidates),
        turns_back=tuple(_point(points[place]) for place in turns_back) if turns_back is not None else None,
        log=tuple(
            TriedEntry(
                name=points[one.place].name,
                subject=points[one.place].subject,
                number=points[one.place].number,
                commit=points[one.place].commit,
                place=one.place,
                said=one.said.value,
                code=one.code,
                seconds=round(one.seconds, 3),
                log=str(one.log) if one.log is not None else None,
                why=one.why or None,
            )
            for one in found.tried
        ),
    )


def _point(point: Point) -> PointEntry:
    return PointEntry(name=point.name, subject=point.subject, number=point.number, commit=point.commit)
