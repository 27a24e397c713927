"""The machine that a candidate is built and gated on: what `accept` and `sync` share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from patchstack.cli.failures import talk
from patchstack.cli.gates.standing import fit_bench
from patchstack.cli.options import open_chosen_engine
from patchstack.files.places import cache_places

if TYPE_CHECKING:
    from patchstack.builds.inputs.plan import Request
    from patchstack.builds.inputs.source import Source
    from patchstack.builds.inputs.variant import Setting
    from patchstack.builds.record.store import Stored
    from patchstack.builds.run.build import Inputs
    from patchstack.engine.protocol import Engine
    from patchstack.observe.runner import Runner
    from patchstack.workspace import Workspace


class ProvingMachine:
    """Where candidates are built and gated. `default` is the variant if the request names neither variant nor
    architecture, `spec` the engine as the user named it, `purpose` what others who want its GPU are told."""

    def __init__(
        self,
        workspace: Workspace,
        engine: Engine,
        request: Request,
        *,
        default: Setting[str] | None,
        purpose: str,
        spec: str | None,
        allow: tuple[str, ...],
        offline: bool,
    ) -> None:
        from patchstack.builds.inputs.variant import load_variants
        from patchstack.builds.record.store import Store

        self.workspace = workspace
        self.engine = engine
        self.request = request
        self.default = default
        self.purpose = purpose
        self.spec = spec
        self.allow = allow
        self.offline = offline
        self.store = Store(cache_places().builds)
        self.variants = load_variants(workspace.variants)

    def inputs(self, source: Source) -> Inputs:
        """What a build of the source is made of."""
        from patchstack.builds.inputs.prepare import prepare

        memory = cache_places().toolchains
        return prepare(
            self.request,
            source,
            self.engine,
            self.variants,
            memory,
            talk,
            default=self.default,
            offline=self.offline,
        )

    def build(self, source: Source) -> Stored:
        """Build a source, or find it built."""
        from patchstack.builds.run.build import build
        from patchstack.report.build import BuildScreen

        inputs = self.inputs(source)
        with BuildScreen() as screen:
            stored, _ = build(inputs, self.engine, self.store, screen)
        return stored

    @contextlib.contextmanager
    def bench(self, stored: Stored) -> Iterator[Runner]:
        """A bench for a build, on a machine that is fit."""
        from patchstack.observe.from_build import programs_of

        with fit_bench(
            self.engine,
            lambda: open_chosen_engine(self.spec, self.workspace),
            programs_of(stored, isolated=self.engine.about().isolated),
            observations=self.workspace.root / "evidence",
            purpose=self.purpose,
            allow=self.allow,
        ) as bench:
            yield bench
