"""Gates on programs that are there: one alone, or a suite on a build."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from patchstack.builds.record.store import Store, Stored
from patchstack.engine.protocol import About
from patchstack.errors import UsageError
from patchstack.evidence.origin import Recorded
from patchstack.files.places import cache_places
from patchstack.gates.judgement import Judgement
from patchstack.gates.kind import Kind
from patchstack.gates.reference.admissible import EVIDENCE, allowed
from patchstack.gates.reference.record import Reference, base_of, changed, references, write_references
from patchstack.gates.suite import Suite, run_suite
from patchstack.machine.gpu.lock import GpuTaken
from patchstack.observe.exclusive import NotFit
from patchstack.observe.from_build import chosen_build, engine_of, programs_of
from patchstack.observe.layout import Programs, uses_gpu
from patchstack.observe.runner import Runner
from patchstack.tasks import task, timed
from patchstack.workflow.machine import Connection, open_runner
from patchstack.workspace import Workspace

S = TypeVar("S")


def run_alone(
    kind: Kind[S], settings: S, connection: Connection, directory: Path, *, image: str | None, again: bool
) -> Judgement:
    """Run one gate on the programs of a directory, on a machine that is fit. Observations are kept in the cache.

    Raises `UsageError` for a container engine without an image, `MissingError` if a model or program is missing.
    """
    about = connection.engine.about()
    if about.isolated and image is None:
        raise UsageError(
            f"{about.spec} runs containers: of which image?", hint="--image NAME; the one the build was made in"
        )
    programs = Programs(directory=directory, platform=about.platform, image=image, gpus=uses_gpu(directory))
    with (
        open_runner(
            connection,
            programs,
            observations=cache_places().observations,
            purpose=f"patchstack gate {kind.name}",
            kind=kind.key,
            again=again,
        ) as runner,
        task(f"gate {kind.name}", announced=True),
    ):
        return kind.run(settings, runner)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramsMeant:
    """The programs that a suite is run on: those of a stored build, or of a directory. `engine` is where they run if
    nobody names another engine."""

    stored: Stored | None
    directory: Path | None

    @property
    def engine(self) -> str:
        return engine_of(self.stored) if self.stored is not None else "host"

    def on(self, about: About, image: str | None) -> tuple[Programs, str]:
        """The programs on an engine, and what they are in words."""
        if self.stored is not None:
            programs = programs_of(self.stored, isolated=about.isolated, image=image)
            return programs, f"build {self.stored.key[:12]} ({self.stored.record.source.label}) on {about.spec}"
        assert self.directory is not None
        gpus = uses_gpu(self.directory)
        programs = Programs(directory=self.directory, platform=about.platform, image=image, gpus=gpus)
        return programs, f"{self.directory} on {about.spec}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A runner for a suite, and what it runs, in words. `unfit` is why it has no GPU although gates need one, and
    `refusal` the whole of that error."""

    runner: Runner
    what: str
    unfit: str | None = None
    refusal: str | None = None


def programs_meant(build: str | None, directory: Path | None) -> ProgramsMeant:
    """The programs of a build by its key, of a directory, or of the newest build. Raises `UsageError` for both,
    `MissingError` if there is no build."""
    if build is not None and directory is not None:
        raise UsageError("give --build or --bin, not both")
    stored = None if directory is not None else chosen_build(Store(cache_places().builds), build, None)
    return ProgramsMeant(stored=stored, directory=directory)


@contextlib.contextmanager
def prepare_suite(
    connection: Connection,
    workspace: Workspace,
    meant: ProgramsMeant,
    suite: Suite,
    *,
    image: str | None,
    again: bool,
    partly: bool,
    recorded: Recorded | None = None,
) -> Iterator[Prepared]:
    """Open a runner on a machine that is fit for a suite, with the workspace's observations. With `partly` it may be a
    machine without a fit GPU. Raises `UsageError` for a container engine without an image; `NotFit`, `GpuTaken`."""
    about = connection.engine.about()
    programs, what = meant.on(about, image)
    if about.isolated and programs.image is None:
        raise UsageError(f"{about.spec} runs containers: of which image?", hint="--image NAME")
    opened = functools.partial(
        open_runner,
        connection,
        programs,
        observations=cache_places().observations,
        recorded=recorded,
        purpose=f"patchstack gate run {suite.name}",
        allow=suite.allow,
        again=again,
    )
    with contextlib.ExitStack() as stack:
        try:
            runner = stack.enter_context(opened(gpus=any(gate.gpu for gate in suite.gates)))
            ready = Prepared(runner=runner, what=what)
        except (NotFit, GpuTaken) as error:
            if not partly:
                raise
            runner = stack.enter_context(opened(gpus=False))
            ready = Prepared(runner=runner, what=what, unfit=error.message, refusal=error.render())
        yield ready


def suite_to_record(suite: Suite, gate: str, because: Sequence[str]) -> Suite:
    """The gates that recording runs: the one itself and those that are evidence. Raises `UsageError` for a gate of a
    kind that is no evidence."""
    chosen = suite.only([gate, *because])
    if strangers := [one.name for one in chosen.gates if one.name in because and one.kind not in EVIDENCE]:
        raise UsageError(f"gate {', '.join(strangers)} is no evidence", hint=f"one of kind {', '.join(EVIDENCE)} is")
    return chosen


def record_gate(
    path: Path,
    suite: Suite,
    gate: str,
    runner: Runner,
    *,
    because: Sequence[str],
    why: str,
    told: Callable[[str, Judgement, float], None],
) -> tuple[Reference, ...]:
    """Run a suite of `suite_to_record`, and write what a gate gave as its reference into the workspace file at `path`,
    with date and reason. `told` is told of each gate's judgement and its time in seconds.

    Raises `NotHeldError` if the gate gave no answer to take, or nothing shows that the model is still the same.
    """
    judged = {}
    for (ran, judgement), seconds in timed(run_suite(suite, runner)):
        told(ran.name, judgement, seconds)
        judged[ran.name] = (ran, judgement)
    entry, judgement = judged[gate]
    taken = references(entry.kind, judgement)
    replaced = changed(taken)
    shown = allowed(judged[gate], replaced, [judged[name] for name in because], runner) if replaced else ""
    base = base_of(entry.settings, runner.files.key)
    note = f"{datetime.now(UTC):%Y-%m-%d}: {why}" + (f" ({shown})" if shown else "")
    taken = taken if base is None else (*taken, base)
    write_references(path, suite.name, gate, taken, note)
    return taken
