"""Plan the export of a series from its fork. The caller writes the files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from patchstack.causes import CloneNeeded
from patchstack.git.remote import Cache, shown_url
from patchstack.series.files.directory import Series
from patchstack.series.history import check_pushed
from patchstack.series.mirror.export import ExportPlan, ExportPolicy, plan_export
from patchstack.series.mirror.format_cache import FormatMemory
from patchstack.series.sources import open_sources
from patchstack.workflow.candidate.candidate import CandidateRange
from patchstack.workspace import SeriesConfig, is_url


def plan_from_fork(
    config: SeriesConfig, cache: Cache, *, renumber: bool, discard_edits: bool, same: Mapping[int, str]
) -> tuple[ExportPlan, str | None]:
    """Plan the export of a series from its configured fork.

    Return the plan, and a warning if the fork is not pushed.

    Raises `UsageError` for a series without a fork on this machine, and the errors of `plan_export` and `check_pushed`.
    """
    if config.fork is None or config.fork_ref is None:
        raise CloneNeeded(f"{config.name} has no fork to export", hint="add fork and fork_ref to patchstack.yaml")
    if is_url(config.fork):
        hint = f"clone {shown_url(config.fork)} and set fork: to the clone in patchstack.yaml"
        raise CloneNeeded("export needs a clone of the fork on this machine", hint=hint)
    sources = open_sources(
        cache,
        upstream=config.upstream,
        pin=config.pin,
        fork=config.fork,
        fork_ref=config.fork_ref,
        series=Series(name=config.name, directory=config.patches, patches=()),
        recreate=config.name,
    )
    assert sources.fork is not None and sources.fork_repository is not None
    warning = check_pushed(
        sources.fork_repository, sources.fork.head.oid, config.fork_ref, required=config.require_pushed
    )
    plan = plan_export(
        sources.objects,
        sources.fork_repository,
        config.name,
        config.patches,
        sources.base,
        sources.fork,
        ExportPolicy.of(config),
        renumber=renumber,
        discard_edits=discard_edits,
        same=same,
        memory=FormatMemory.of(cache.root, sources.fork_repository, context=config.context, anchored=config.anchored),
    )
    return plan, warning


def plan_with_candidate(way: CandidateRange, cache: Cache) -> ExportPlan:
    """Plan the export of the fork up to the candidate. Raises the errors of `plan_export`."""
    config = way.config
    return plan_export(
        way.sources.objects,
        way.repository,
        config.name,
        config.patches,
        way.sources.base,
        dataclasses.replace(way.fork, branch=config.fork_ref or way.fork.branch),
        ExportPolicy.of(config),
        memory=FormatMemory.of(cache.root, way.repository, context=config.context, anchored=config.anchored),
    )
