"""Prepare an audit: find the builds and models of this machine, and open runners."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from patchstack.builds.record.store import Store, Stored
from patchstack.files.places import cache_places
from patchstack.observe.from_build import programs_of
from patchstack.observe.models import read_models
from patchstack.observe.runner import Runner
from patchstack.workflow.ledger.audit import OpenRunner, models_here
from patchstack.workflow.machine import Connection, open_runner
from patchstack.workspace import Workspace


def audit_machine(workspace: Workspace, connection: Connection) -> tuple[Store, Mapping[str, Path], OpenRunner]:
    """Return the builds and models of this machine, and a function that opens a runner for a build.

    The models are mapped by the SHA-256 of their content.
    """
    isolated = connection.engine.about().isolated

    def opened(stored: Stored) -> AbstractContextManager[Runner]:
        return open_runner(
            connection,
            programs_of(stored, isolated=isolated),
            observations=cache_places().observations,
            purpose="patchstack ledger --audit",
            allow=("cpu-load",),
        )

    return Store(cache_places().builds), models_here(read_models(workspace, [])), opened
