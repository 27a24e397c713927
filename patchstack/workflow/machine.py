"""Open the machine for builds and runs. The commands that run programs of a build use this module."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from patchstack.builds.inputs.plan import Plan, Request, make_plan
from patchstack.builds.inputs.prepare import prepare
from patchstack.builds.inputs.source import Source
from patchstack.builds.inputs.variant import Setting, Variants
from patchstack.builds.record.store import Store, Stored
from patchstack.builds.run.build import Inputs, build
from patchstack.builds.run.session import Watch
from patchstack.engine.protocol import Engine
from patchstack.evidence.origin import Known, Recorded
from patchstack.evidence.store import Observations
from patchstack.files.places import cache_places
from patchstack.llama.compute_path import require_gpu
from patchstack.observe.exclusive import fit_machine
from patchstack.observe.from_build import programs_of
from patchstack.observe.layout import Programs
from patchstack.observe.observer import RunContext
from patchstack.observe.runner import Runner
from patchstack.tasks import task
from patchstack.workspace import Workspace

_WAIT = 600.0  # seconds to wait for the GPU

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A connection to an engine.

    `open_another` opens a second connection to the engine, which is used to query its machine. `tell` prints messages.
    """

    engine: Engine
    open_another: Callable[[], Engine]
    tell: Tell


@contextlib.contextmanager
def open_runner(
    connection: Connection,
    programs: Programs,
    *,
    observations: Path,
    purpose: str,
    kind: str = "",
    allow: Sequence[str] = (),
    again: bool = False,
    gpus: bool = True,
    recorded: Recorded | None = None,
    offline: bool = False,
) -> Iterator[Runner]:
    """Open a runner for programs on a suitable machine.

    If the programs use a GPU, the GPU is locked. If `gpus` is False, the programs run without a GPU. Observations are
    stored in the directory `observations`. `recorded` is recorded evidence that is reused too. `purpose` is shown to
    users who wait for the GPU. With `offline`, no image is built.

    Raises the errors of `fit_machine` and `require_gpu`.
    """
    programs.names()  # fail before waiting for a GPU
    cache = cache_places()
    with contextlib.ExitStack() as stack:
        with task("querying the machine"):
            machine = stack.enter_context(
                fit_machine(
                    connection.engine,
                    connection.open_another,
                    gpus=programs.gpus and gpus,
                    image=programs.image,
                    allow=allow,
                    purpose=purpose,
                    wait=_WAIT,
                    tell=connection.tell,
                )
            )
        runner = stack.enter_context(
            Runner(
                connection.engine,
                programs,
                observations=Observations(observations, cache.outputs),
                memory=cache.digests,
                context=RunContext(kind=kind),
                hardware=machine,
                again=again,
                builds=cache.builds,
                recorded=recorded,
                offline=offline,
            )
        )
        if programs.gpus and gpus:
            with task("asking programs for the GPU"):
                require_gpu(runner)
        yield runner


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvingMachine:
    """The machine that builds and gates candidates.

    `default` is the variant to build if the request names neither a variant nor an architecture. `purpose` is shown to
    users who wait for the GPU. `allow` lists the preflight checks that may fail. `watching` opens the observer of a
    build. With `again`, earlier observations are not reused. `recorded` contains only evidence that an allowed signer
    signed, because other recorded evidence does not count.
    """

    workspace: Workspace
    connection: Connection
    request: Request
    variants: Variants
    default: Setting[str] | None
    purpose: str
    allow: tuple[str, ...]
    offline: bool
    watching: Callable[[], AbstractContextManager[Watch]]
    again: bool = False
    recorded: Recorded | None = None

    @property
    def known(self) -> Known:
        """The observations of this machine, and the recorded evidence that counts."""
        cache = cache_places()
        return Known(cache=Observations(cache.observations, cache.outputs), recorded=self.recorded)

    @property
    def store(self) -> Store:
        """The store of builds in this machine's cache."""
        return Store(cache_places().builds)

    def inputs(self, source: Source) -> Inputs:
        """Return the build inputs of a source."""
        return prepare(
            self.request,
            source,
            self.connection.engine,
            self.variants,
            cache_places().toolchains,
            self.connection.tell,
            default=self.default,
            offline=self.offline,
        )

    def planned(self, variant: str) -> Plan:
        """Return the plan of a variant.

        The plan is not compared with this machine, which may be unable to run the build.
        """
        return make_plan(Request(variant=variant), self.variants, self.connection.engine.about())

    def build(self, source: Source) -> Stored:
        """Build a source, or return its existing build."""
        inputs = self.inputs(source)
        with self.watching() as watch:
            stored, _ = build(inputs, self.connection.engine, self.store, watch)
        return stored

    def runner(self, stored: Stored) -> AbstractContextManager[Runner]:
        """Open a runner for a build, on a suitable machine."""
        return open_runner(
            self.connection,
            programs_of(stored, isolated=self.connection.engine.about().isolated),
            observations=cache_places().observations,
            purpose=self.purpose,
            allow=self.allow,
            again=self.again,
            recorded=self.recorded,
            offline=self.offline,
        )
