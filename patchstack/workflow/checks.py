"""Run and record the checks of a series on its own pin."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime

from patchstack.causes import NothingToRecord, ReasonMissing, SettingsRefused, UnknownName
from patchstack.checks.model import Check, CheckRow, Place
from patchstack.checks.read import read_promises
from patchstack.checks.run import Checker, OpenEngine, touched_paths, trees_of
from patchstack.git.apply import Applier
from patchstack.git.overlay import TreeOverlay
from patchstack.git.remote import Cache
from patchstack.series.files.directory import configured_series
from patchstack.series.sources import open_sources
from patchstack.series.verify.prefix_trees import apply_series
from patchstack.tasks import task
from patchstack.workspace import SeriesConfig
from patchstack.workspace.write import write_sites


def require_checks(configs: Sequence[SeriesConfig]) -> None:
    """Raise `UsageError` if none of the series has a check, and `ConfigError` for unusable checks."""
    if not any(config.checks for config in configs):
        names = ", ".join(config.name for config in configs)
        raise UnknownName(f"no checks exist for {names}", hint="add checks: to the series in patchstack.yaml")
    for config in configs:
        read_promises(config)


def check_series(config: SeriesConfig, cache: Cache, engine: OpenEngine) -> tuple[CheckRow, ...]:
    """Run every check of a series on the tree of the pin and the tree after each patch.

    Nothing is written. Raises the errors of `configured_series` and `open_sources`, and `ConfigError` for unusable
    checks.
    """
    checks = read_promises(config)
    if not checks:
        return ()
    series = configured_series(config)
    sources = open_sources(cache, upstream=config.upstream, pin=config.pin, series=series, beside=config.fork)
    series = series.at_depth(TreeOverlay(sources.objects, sources.base.tree))
    checker = Checker(sources.objects, touched_paths(series.patches), engine)
    with task("checks"), Applier(sources.objects, sources.base.tree) as applier, contextlib.closing(checker):
        return checker.rows(checks, trees_of(apply_series(applier, series, keep_going=True)))


def record(rows: Sequence[CheckRow], config: SeriesConfig, name: str, why: str) -> Check:
    """Write the sites found by a check to the workspace file, and return the check.

    The reason `why` and the date are written too.

    Raises `UsageError` for an unknown check, for a kind of check that has no sites, and for an empty reason. Raises
    `NotHeldError` if the check found no sites or could not be judged.
    """
    row = next((one for one in rows if one.check.name == name), None)
    if row is None:
        known = ", ".join(one.check.name for one in rows if one.check.kind == "sites") or "none"
        raise UnknownName(f"there is no check {name} in {config.name}", hint=f"checks that record sites: {known}")
    if row.check.kind != "sites":
        raise SettingsRefused(f"{name} is a check of kind {row.check.kind}, which has no sites to record")
    if not why.strip():
        raise ReasonMissing(f"--record {name} needs a reason", hint="add --why TEXT, which is stored with the sites")
    sites = row.found.sites
    if not sites:
        raise NothingToRecord(f"nothing to record for {name}: {row.found.reason}")
    note = f"{datetime.now(UTC).date().isoformat()}: {' '.join(why.split())}"
    write_sites(row.check.file, config.name, name, _by_file(sites), note)
    return row.check


def _by_file(places: Sequence[Place]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for site in sorted({place.site for place in places}):
        found.setdefault(site.path, []).append(site.name)
    return found
