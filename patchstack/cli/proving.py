"""Open the machine on which `accept` and `sync` prove candidates."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from patchstack.cli.failures import talk
from patchstack.cli.options import open_chosen_engine

if TYPE_CHECKING:
    from patchstack.builds.inputs.plan import Request
    from patchstack.evidence.origin import Recorded
    from patchstack.workflow.machine import Connection, ProvingMachine
    from patchstack.workspace import SeriesConfig, Workspace


@contextlib.contextmanager
def connected(spec: str | None, workspace: Workspace | None) -> Iterator[Connection]:
    """Yield a connection to an engine, which is closed at the end of the block.

    The connection can open the engine a second time, to wait for the GPU.
    """
    from patchstack.workflow.machine import Connection

    with contextlib.closing(open_chosen_engine(spec, workspace)) as engine:
        yield Connection(engine=engine, open_another=lambda: open_chosen_engine(spec, workspace), tell=talk)


@contextlib.contextmanager
def proving_machine(
    workspace: Workspace,
    config: SeriesConfig,
    spec: str | None,
    request: Request,
    *,
    purpose: str,
    allow: tuple[str, ...],
    offline: bool,
    again: bool = False,
    recorded: Recorded | None = None,
) -> Iterator[ProvingMachine]:
    """Yield the machine that proves candidates of a series. Builds show their progress on this terminal."""
    from patchstack.builds.inputs.variant import load_variants, series_variant
    from patchstack.report.build import BuildScreen
    from patchstack.workflow.machine import ProvingMachine

    with connected(spec, workspace) as connection:
        yield ProvingMachine(
            workspace=workspace,
            connection=connection,
            request=request,
            variants=load_variants(workspace.variants),
            default=series_variant(config),
            purpose=purpose,
            allow=allow,
            offline=offline,
            watching=BuildScreen,
            again=again,
            recorded=recorded,
        )
