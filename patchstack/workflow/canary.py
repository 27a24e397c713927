"""Check one series on a newer upstream commit, and forecast which patches will break soon."""

from __future__ import annotations

from dataclasses import replace

from patchstack.checks.read import read_checks
from patchstack.git.remote import Cache
from patchstack.series.lock import read_lock
from patchstack.tasks import task
from patchstack.upstream.canary.canary import Question, ask
from patchstack.upstream.canary.result import Canary
from patchstack.upstream.forecast.forecast import Forecast, foresee
from patchstack.upstream.history import open_ahead
from patchstack.workspace import SeriesConfig


def look_ahead(
    config: SeriesConfig, cache: Cache, to: str | None, question: Question, *, days: int | None, what: str
) -> tuple[Canary, Forecast | None]:
    """Return the state of a series on the upstream commit `to`. None means the newest commit.

    With `days`, a forecast from that many days of upstream's history is included. `what` is the name of `to` in errors.
    Raises the errors of `open_ahead`.
    """
    lock = read_lock(config.patches)
    parked = lock.parked if lock is not None else ()
    question = replace(question, checks=read_checks(config), parked=parked)
    with task(f"canary {config.name}"):
        ahead = open_ahead(config, cache, to, what=what)
    ahead.objects.remember()
    with task(f"canary {ahead.series.name}"):
        found = ask(ahead.objects, ahead.series, ahead.range, ahead.upstream, question)
    if days is None:
        return found, None
    return found, foresee(ahead.objects, ahead.repository, ahead.series, ahead.range, days=days)
