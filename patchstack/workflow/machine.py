"""The machine that builds are made on and gated on: what `accept`, `sync` and the gate commands share."""

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

_WAIT = 600.0  # seconds for who has the GPU

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """An engine, another connection to it for whoever waits for its GPU, and who is told of what happens there."""

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
) -> Iterator[Runner]:
    """Open a runner for programs on a machine that is fit, its GPU locked if they use one (`gpus` False: none is
    theirs).

    Observations are kept below `observations`; `recorded` is recorded evidence that counts as well. `purpose` is what
    others who want the GPU are told. Raises what `fit_machine` and `require_gpu` raise.
    """
    programs.names()  # said before anybody waits for a GPU
    cache = cache_places()
    with contextlib.ExitStack() as stack:
        with task("looking at the machine"):
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
            )
        )
        if programs.gpus and gpus:
            with task("asking programs for the GPU"):
                require_gpu(runner)
        yield runner


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvingMachine:
    """Where candidates are built and gated.

    `default` is the variant if the request names neither variant nor architecture, `purpose` what others who want the
    GPU are told, `allow` the preflight checks that may fail, `watching` opens what follows a build. With `again`,
    nothing that is known counts. `recorded` is the recorded evidence that counts: only what allowed signers signed.
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
        """The observations that count as known."""
        cache = cache_places()
        return Known(cache=Observations(cache.observations, cache.outputs), recorded=self.recorded)

    @property
    def store(self) -> Store:
        """Where builds are kept."""
        return Store(cache_places().builds)

    def inputs(self, source: Source) -> Inputs:
        """What a build of the source is made of."""
        return prepare(
            self.request,
            source,
            self.connection.engine,
            self.variants,
            cache_places().toolchains,
            self.connection.tell,
            default=self.default,
            offline=self.offline,
            untrusted=self.workspace.policy is not None,
        )

    def planned(self, variant: str) -> Plan:
        """Return how a variant is built here. Nothing is looked for, so it may be one that cannot be built on this
        machine."""
        return make_plan(Request(variant=variant), self.variants, self.connection.engine.about())

    def build(self, source: Source) -> Stored:
        """Build a source, or find it built."""
        inputs = self.inputs(source)
        with self.watching() as watch:
            stored, _ = build(inputs, self.connection.engine, self.store, watch)
        return stored

    def runner(self, stored: Stored) -> AbstractContextManager[Runner]:
        """Open a runner for a build, on a machine that is fit."""
        return open_runner(
            self.connection,
            programs_of(stored, isolated=self.connection.engine.about().isolated),
            observations=cache_places().observations,
            purpose=self.purpose,
            allow=self.allow,
            again=self.again,
            recorded=self.recorded,
        )
