"""Keyed builds for a bisection: every point is built once, and found again by the next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from patchstack.build.plan import Request
from patchstack.build.prepare import prepare
from patchstack.build.record import BUILT, bin_directory
from patchstack.build.runner import build
from patchstack.build.session import NotJudged, Watch
from patchstack.build.source import Source, with_absent
from patchstack.build.store import Store
from patchstack.build.variant import Setting, Variants
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
        return bin_directory(stored)
