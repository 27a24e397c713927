"""Build a source on an engine, or open a shell in its build environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchstack.builds.inputs.plan import Request
from patchstack.builds.inputs.prepare import prepare
from patchstack.builds.inputs.source import Source, directory_source, series_source
from patchstack.builds.inputs.variant import load_variants, series_variant
from patchstack.builds.proofs.claim import IDS
from patchstack.builds.record.store import Store, Stored
from patchstack.builds.run.build import Inputs, build
from patchstack.builds.run.session import Session, Watch, open_session
from patchstack.causes import AmbiguousName, BadValue
from patchstack.engine.protocol import Engine
from patchstack.files.places import cache_places
from patchstack.git.remote import Cache
from patchstack.process import attached
from patchstack.workspace import SeriesConfig, Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOrder:
    """The source of a build, with its engine and options.

    `config` is the series of the source. It is None if the source does not come from a series.
    """

    source: Source
    config: SeriesConfig | None
    request: Request
    engine: Engine
    workspace: Workspace | None
    offline: bool = False

    def inputs(self, tell: Callable[[str], None]) -> Inputs:
        """Return the inputs of the build. Raises `UsageError`, `ImageMissing` and `MissingError`."""
        return prepare(
            self.request,
            self.source,
            self.engine,
            load_variants(self.workspace.variants if self.workspace else ()),
            cache_places().toolchains,
            tell,
            default=series_variant(self.config) if self.config is not None else None,
            offline=self.offline,
        )


def source_of(
    directory: Path | None, configs: Sequence[SeriesConfig], cache: Cache, at: str | None
) -> tuple[Source, SeriesConfig | None]:
    """Return the source to build, and its series.

    With `directory`, the source is this directory, and there is no series. Otherwise, the source is the series up to
    the patch `at`, or the whole series if `at` is None.

    Raises `UsageError` if several series exist but none is named.
    """
    if directory is not None:
        return directory_source(directory), None
    if len(configs) > 1:
        names = ", ".join(one.name for one in configs)
        raise AmbiguousName("the workspace has several series", hint=f"name one of {names}")
    return series_source(configs[0], cache, at=at), configs[0]


def check_proofs(unproven: frozenset[str]) -> None:
    """Raise `UsageError` for names that are not proofs."""
    if strangers := unproven - set(IDS):
        told = ", ".join(sorted(strangers))
        raise BadValue(f"--unproven {told}: no such proof", hint=f"use one of {', '.join(IDS)}")


def build_order(order: BuildOrder, inputs: Inputs, watch: Watch, *, again: bool, keep: bool) -> tuple[Stored, bool]:
    """Build an order, or find its existing build. Return the build, and whether it already existed."""
    return build(inputs, order.engine, Store(cache_places().builds), watch, again=again, keep=keep)


def open_build_shell(order: BuildOrder, inputs: Inputs, watch: Watch, *, ready: Callable[[Session], None]) -> None:
    """Open a shell in the build environment of the order. `ready` is called before the shell starts."""
    store = Store(cache_places().builds)
    with open_session(order.engine, inputs.plan, inputs.toolchain, inputs.key, store, watch) as session:
        session.send(inputs.source)
        ready(session)
        attached(order.engine.shell(session.job("shell", ("sh",))))
