"""Run gates on existing programs: a single gate, or a suite on a build."""

from __future__ import annotations

import contextlib
import functools
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from patchstack.builds.inputs.plan import Request
from patchstack.builds.inputs.prepare import prepare
from patchstack.builds.inputs.source import series_source
from patchstack.builds.inputs.variant import load_variants, series_variant
from patchstack.builds.record.store import Store, Stored
from patchstack.causes import AmbiguousName, NoSuchBuild, OptionConflict, SettingsRefused
from patchstack.engine.protocol import About
from patchstack.evidence.origin import Recorded
from patchstack.files.places import cache_places
from patchstack.gates.judgement import Judgement
from patchstack.gates.kind import Kind
from patchstack.gates.reference.admissible import EVIDENCE, allowed
from patchstack.gates.reference.record import RecordedReference, base_of, changed, references, write_references
from patchstack.gates.suite import Suite, run_suite
from patchstack.git.remote import Cache
from patchstack.machine.gpu.lock import GpuTaken
from patchstack.observe.exclusive import NotFit
from patchstack.observe.from_build import chosen_build, engine_of, programs_of
from patchstack.observe.layout import Programs, uses_gpu
from patchstack.observe.runner import Runner
from patchstack.series.files.order import has_patches
from patchstack.series.lock import read_lock
from patchstack.tasks import task, timed
from patchstack.workflow.machine import Connection, open_runner
from patchstack.workspace import SeriesConfig, Workspace

S = TypeVar("S")


def run_alone(
    kind: Kind[S], settings: S, connection: Connection, directory: Path, *, image: str | None, again: bool
) -> Judgement:
    """Run one gate on the programs of a directory, on a suitable machine.

    Observations are stored in the cache. Raises `UsageError` for a container engine without an image, and
    `MissingError` if a model or program is missing.
    """
    about = connection.engine.about()
    if about.isolated and image is None:
        raise AmbiguousName(
            f"{about.spec} runs containers, but no image is named",
            hint="name the image in which the build was made with --image NAME",
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
class ChosenPrograms:
    """The programs on which a suite runs, from a stored build or a directory.

    `note` is set if they are not the current build of the series.
    """

    stored: Stored | None = None
    directory: Path | None = None
    note: str = ""

    def on(self, about: About, image: str | None) -> tuple[Programs, str]:
        """Return the programs for an engine, and their description."""
        if self.stored is not None:
            programs = programs_of(self.stored, isolated=about.isolated, image=image)
            what = f"build {self.stored.key[:12]} ({self.stored.record.source.label}) on {about.spec}"
            return programs, what + self.note
        assert self.directory is not None
        gpus = uses_gpu(self.directory)
        programs = Programs(directory=self.directory, platform=about.platform, image=image, gpus=gpus)
        return programs, f"{self.directory} on {about.spec}{self.note}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramsRequest:
    """The programs that the user of `gate run` requested.

    `build` is the key of a build. If neither `build` nor `directory` is set, the current build of the series is
    requested. `engine` is the engine that the user named.
    """

    build: str | None = None
    directory: Path | None = None
    series: str | None = None
    variant: str | None = None
    engine: str | None = None
    offline: bool = False

    def __post_init__(self) -> None:
        if self.build is not None and self.directory is not None:
            raise OptionConflict("use --build or --bin, not both")
        if (self.series or self.variant) and (self.build or self.directory):
            raise OptionConflict(
                "--series and --variant select the build, so they cannot be used with --build or --bin"
            )

    def engine_spec(self) -> str | None:
        """Return the engine to open.

        If the user named an engine, return it. Otherwise, return the engine of the requested build, `host` for a
        directory, or None for the current build of the series. None means the engine of the workspace.
        """
        if self.engine is not None or (self.build is None and self.directory is None):
            return self.engine
        if self.build is not None:
            return engine_of(chosen_build(Store(cache_places().builds), self.build))
        return "host"


def choose_programs(
    request: ProgramsRequest, connection: Connection, workspace: Workspace, cache: Cache
) -> ChosenPrograms:
    """Return the requested programs.

    If no build or directory was requested, return the build with the current key. The key depends on the workspace's
    pin, series, variant and engine.

    Raises `MissingError` if this build does not exist, `NotHeldError` if it does not compile, and the errors of
    `series_source`.
    """
    store = Store(cache_places().builds)
    if request.directory is not None:
        return ChosenPrograms(directory=request.directory, note="; these programs do not belong to any series")
    if request.build is not None:
        stored = chosen_build(store, request.build)
        now = stored.record.source.tree in _trees(workspace)
        return ChosenPrograms(stored=stored, note="" if now else "; its tree is not the current tree of any series")
    config = _the_series(workspace, request.series)
    inputs = prepare(
        Request(variant=request.variant),
        series_source(config, cache),
        connection.engine,
        load_variants(workspace.variants),
        cache_places().toolchains,
        connection.tell,
        default=series_variant(config),
        offline=request.offline,
    )
    found = store.find(inputs.key.hex)
    if found is None:
        options = [("--variant", request.variant), ("--engine", request.engine)]
        given = " ".join(f"{option} {shlex.quote(value)}" for option, value in options if value is not None)
        raise NoSuchBuild(
            f"{config.name} is not built: no build has the key {inputs.key.short} of its current pin, patches, variant"
            f" ({inputs.plan.variant}) and engine ({connection.engine.about().spec})",
            hint=f"patchstack build {config.name} {given}".rstrip(),
        )
    return ChosenPrograms(stored=chosen_build(store, found.key))


def _the_series(workspace: Workspace, name: str | None) -> SeriesConfig:
    chosen = workspace.select([name] if name else ())
    if len(chosen) > 1:
        names = ", ".join(one.name for one in chosen)
        raise AmbiguousName(f"{workspace.path} has several series", hint=f"use --series with one of {names}")
    return chosen[0]


def _trees(workspace: Workspace) -> frozenset[str]:
    """Return the trees of a workspace's series, as recorded in the locks."""
    locks = (read_lock(one.patches) for one in workspace.series if has_patches(one.patches))
    return frozenset(lock.tree for lock in locks if lock is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A runner for a suite, and a description of its programs.

    `build` is the key of the build. If gates need a GPU but the runner has none, `unfit` is the reason, and `refusal`
    is the complete error message.
    """

    runner: Runner
    what: str
    build: str | None = None
    unfit: str | None = None
    refusal: str | None = None


@contextlib.contextmanager
def prepare_suite(
    connection: Connection,
    workspace: Workspace,
    meant: ChosenPrograms,
    suite: Suite,
    *,
    image: str | None,
    again: bool,
    partly: bool,
    recorded: Recorded | None = None,
    offline: bool = False,
) -> Iterator[Prepared]:
    """Open a runner for a suite on a suitable machine.

    The runner reuses the observations of this machine and the evidence in `recorded`. With `partly`, the runner has no
    GPU if the machine is not fit or its GPU is in use. With `offline`, no image is built.

    Raises `UsageError` for a container engine without an image. Also raises the errors of `open_runner`.
    """
    about = connection.engine.about()
    programs, what = meant.on(about, image)
    if about.isolated and programs.image is None:
        raise AmbiguousName(f"{about.spec} runs containers, but no image is named", hint="add --image NAME")
    opened = functools.partial(
        open_runner,
        connection,
        programs,
        observations=cache_places().observations,
        recorded=recorded,
        purpose=f"patchstack gate run {suite.name}",
        allow=suite.allow,
        again=again,
        offline=offline,
    )
    with contextlib.ExitStack() as stack:
        try:
            runner = stack.enter_context(opened(gpus=any(gate.gpu for gate in suite.gates)))
            ready = Prepared(runner=runner, what=what, build=programs.key)
        except (NotFit, GpuTaken) as error:
            if not partly:
                raise
            runner = stack.enter_context(opened(gpus=False))
            ready = Prepared(runner=runner, what=what, build=programs.key, unfit=error.message, refusal=error.render())
        yield ready


def suite_to_record(suite: Suite, gate: str, because: Sequence[str]) -> Suite:
    """Return the gates to run for a recording: the gate itself, and the gates that serve as evidence.

    Raises `UsageError` if a gate of `because` is of a kind that cannot serve as evidence.
    """
    chosen = suite.only([gate, *because])
    if strangers := [one.name for one in chosen.gates if one.name in because and one.kind not in EVIDENCE]:
        raise SettingsRefused(
            f"gate {', '.join(strangers)} cannot be evidence", hint=f"use gates of kind {', '.join(EVIDENCE)}"
        )
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
) -> tuple[RecordedReference, ...]:
    """Run a suite from `suite_to_record`, and write the gate's result as its reference.

    The reference is written into the workspace file at `path`, with date and reason. `told` is called with each gate's
    judgement and its time in seconds. Return the written references.

    Raises `NotHeldError` if the gate has no usable result, or if nothing proves that the model is still the same.
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
