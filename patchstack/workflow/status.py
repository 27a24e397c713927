"""Read the state of a series, with notes about its patches.

Notes report parked patches and patches that can be dropped. They come from the lock and the checks of the series.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from patchstack.checks.read import read_checks
from patchstack.checks.run import OpenEngine
from patchstack.errors import ConfigError
from patchstack.git.patch.trailers import DROP_CHECK
from patchstack.git.remote import Cache
from patchstack.series.files.directory import configured_series
from patchstack.series.lock import parked_notes
from patchstack.series.sources import open_sources
from patchstack.series.status.metadata import read_metadata
from patchstack.series.status.status import SeriesStatus, read_status
from patchstack.upstream.canary.checks import Drop, look_at_drops
from patchstack.workspace import SeriesConfig


def whole_status(
    config: SeriesConfig, cache: Cache, engine: OpenEngine, *, now: datetime, patches: bool
) -> SeriesStatus:
    """Return the result of `read_status`, with additional notes about patches.

    A note is added for each parked patch, and for each patch that can be dropped according to its `Drop-Check:`.
    """
    status = read_status(config, cache, now=now, patches=patches)
    notes = [*parked_notes(config.patches), *_going(config, cache, engine)]
    return replace(status, warnings=(*status.warnings, *notes)) if notes else status


def _going(config: SeriesConfig, cache: Cache, engine: OpenEngine) -> Iterator[str]:
    with contextlib.suppress(ConfigError):  # `status` itself reports an unreadable series
        series = configured_series(config)
        if not any(one.values.get(DROP_CHECK) for one in read_metadata(series)):
            return
        sources = open_sources(cache, upstream=config.upstream, pin=config.pin, series=series, beside=config.fork)
        checks = read_checks(config)
        for drop in look_at_drops(sources.objects, series, sources.base.tree, checks, engine):
            if drop.can_go:
                yield going(drop)


def going(drop: Drop) -> str:
    """Return a note that a patch can be dropped."""
    when = f" ({drop.when})" if drop.when else ""
    return f"{drop.file} can be dropped{when}: check {drop.check} is PASS on the pin alone"
