"""Make the sides of a comparison from a series.

A side is the build of a prefix of the series, or of the whole series with a variant. Missing builds are made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from patchstack.builds.inputs.plan import Request
from patchstack.builds.inputs.source import series_source
from patchstack.builds.record.store import Store
from patchstack.builds.run.build import Inputs, build
from patchstack.builds.run.session import Watch
from patchstack.causes import AmbiguousName, BadValue, BuildFailed, NoWorkspace
from patchstack.engine.protocol import Engine
from patchstack.files.places import cache_places
from patchstack.git.remote import Cache
from patchstack.tasks import task
from patchstack.workflow.build import BuildOrder
from patchstack.workspace import SeriesConfig, Workspace

_SIDE = re.compile(r"(?P<kind>prefix|variant):(?:(?P<series>[^/]+)/)?(?P<what>.+)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSide:
    """A side that is built from a series.

    `at` is the last patch that is applied. If it is None, all patches are applied. If `variant` is None, the variant of
    the series is built.
    """

    text: str
    series: SeriesConfig
    at: int | None
    variant: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBuild:
    """The build that a side needs: its inputs, and whether the build exists here."""

    side: SeriesSide
    inputs: Inputs
    known: bool

    @property
    def key(self) -> str:
        """The key of the build, which is known before the build exists."""
        return self.inputs.key.hex


def series_side(text: str, workspace: Workspace | None) -> SeriesSide | None:
    """Read `prefix:N`, `prefix:SERIES/N`, `variant:NAME` or `variant:SERIES/NAME`. Return None for any other form.

    Raises `UsageError` without a workspace, for an invalid number, and if several series exist but none is named.
    """
    match = _SIDE.match(text)
    if match is None:
        if text.startswith(("prefix:", "variant:")):
            raise BadValue(
                f"{text}: no patch or variant is named",
                hint="use prefix:N for the series up to patch N, or variant:NAME for a variant",
            )
        return None
    if workspace is None:
        raise NoWorkspace(f"{text}: there is no workspace here", hint="run 'patchstack init' to create one")
    named = match["series"]
    chosen = workspace.select([named] if named else [])
    if len(chosen) > 1:
        names = ", ".join(one.name for one in chosen)
        hint = f"use {match['kind']}:SERIES/{match['what']} with one of {names}"
        raise AmbiguousName(f"{text}: the workspace has several series", hint=hint)
    if match["kind"] == "variant":
        return SeriesSide(text=text, series=chosen[0], at=None, variant=match["what"])
    if not match["what"].isdecimal():
        raise BadValue(
            f"{text}: {match['what']} is not a patch number", hint="use prefix:N for the series up to patch N"
        )
    return SeriesSide(text=text, series=chosen[0], at=int(match["what"]), variant=None)


def side_build(side: SeriesSide, workspace: Workspace, cache: Cache, engine: Engine) -> SideBuild:
    """Return the build that a side needs. Nothing is built.

    Raises the errors of `BuildOrder.inputs`.
    """
    order = BuildOrder(
        source=series_source(side.series, cache, at=side.at),
        config=side.series,
        request=Request(variant=side.variant),
        engine=engine,
        workspace=workspace,
        offline=cache.offline,
    )
    inputs = order.inputs(lambda _: None)
    found = Store(cache_places().builds).find(inputs.key.hex)
    return SideBuild(side=side, inputs=inputs, known=found is not None)


def build_side(wanted: SideBuild, engine: Engine, watch: Watch) -> str:
    """Build a side if its build does not exist here, and return its key.

    Raises `NotHeldError` for a source that does not compile.
    """
    with task(f"build {wanted.side.text}", announced=not wanted.known):
        stored, _ = build(wanted.inputs, engine, Store(cache_places().builds), watch)
    if not stored.record.built:
        raise BuildFailed(f"{wanted.side.text} does not compile: build {stored.key[:12]}")
    return stored.key
