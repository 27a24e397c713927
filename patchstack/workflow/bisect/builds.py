"""Keyed builds for a bisection: every point is built once, and found again by the next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from patchstack.builds.inputs.plan import Request
from patchstack.builds.inputs.prepare import prepare
from patchstack.builds.inputs.source import Source, with_absent
from patchstack.builds.inputs.variant import Setting, Variants
from patchstack.builds.record.record import BUILT, bin_directory
from patchstack.builds.record.store import Store
from patchstack.builds.run.build import build
from patchstack.builds.run.session import NotJudged, Watch
from patchstack.engine.protocol import Engine
from patchstack.git.objects import Objects
from patchstack.workflow.bisect.points import NoTree, Point


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedBuilds:
    """Builds the trees of a row for one variant. A tree that does not compile is skipped, as git's manual advises."""

    variant: Setting[str]
    objects: Objects
    engine: Engine
    variants: Variants
    store: Store
    memory: Path
    watch: Watch
    offline: bool

    def build(self, point: Point, tree: str) -> Path | NoTree:
        """The directory of a point's binaries, made now or found."""
        source = with_absent(Source(label=f"{point.name} {point.subject}", tree=tree, objects=self.objects))
        inputs = prepare(
            Request(),
            source,
            self.engine,
            self.variants,
            self.memory,
            self.watch.talk,
            default=self.variant,
            offline=self.offline,
        )
        try:
            stored, _ = build(inputs, self.engine, self.store, self.watch)
        except NotJudged as error:
            return NoTree(why=f"its build ended without an answer: {error.message}")
        if stored.record["status"] != BUILT:
            rejection = stored.record["rejection"]
            return NoTree(why=f"it does not build: {rejection['message']}")
        self.watch.phase("run")
        return bin_directory(stored)
