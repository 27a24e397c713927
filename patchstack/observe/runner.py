"""Run the programs of a build on an engine for gates, and store the observations."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Self

from patchstack.builds.inputs.toolchain import recall, remember
from patchstack.canonical import canonical, one_line
from patchstack.causes import ModelMissing, NotInBuild
from patchstack.engine.protocol import About, Ending, Engine, Job, Limits
from patchstack.evidence.key import Ingredients, observation_key
from patchstack.evidence.origin import Origin, Recorded, Source
from patchstack.evidence.store import Observations
from patchstack.observe.borrowed import with_program
from patchstack.observe.from_build import named_programs, shown
from patchstack.observe.kept import observation_of, record_of
from patchstack.observe.layout import Programs, mounted
from patchstack.observe.observer import RunContext, one_try
from patchstack.observe.protocol import (
    Attempt,
    Complete,
    Invocation,
    Model,
    Observation,
    Observed,
)
from patchstack.observe.station import Station
from patchstack.tasks import task

_HASHING = 3600.0


class Runner:
    """An `Observer` that runs programs on an engine.

    `context` is the context of all runs. It does not change: `within` returns a view of the same runner with a
    different context. `observations` is this machine's cache of observations. `recorded` is the recorded evidence; if
    it is None, only the cache is used. `memory` is the directory that caches the digests of models. `builds` is the
    directory of stored builds. `hardware` describes the machine in one line. With `again`, stored observations are not
    used. With `offline`, no image is built. Volumes are created by the first run and removed by `close`.
    """

    def __init__(
        self,
        engine: Engine,
        programs: Programs,
        *,
        observations: Observations,
        memory: Path,
        context: RunContext,
        hardware: str = "",
        again: bool = False,
        builds: Path | None = None,
        recorded: Recorded | None = None,
        offline: bool = False,
    ) -> None:
        self.observations = observations
        self.recorded = recorded
        self.memory = memory
        self.hardware = hardware
        self.again = again
        self.builds = builds
        self._context = context
        self._station = Station(engine, programs, memory, offline=offline)
        self._held = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the files that the runs left on the engine. Kept files are not removed."""
        self._station.close()
        self._held.close()

    @property
    def context(self) -> RunContext:
        return self._context

    @property
    def engine(self) -> Engine:
        return self._station.engine

    @property
    def files(self) -> Programs:
        return self._station.programs

    @property
    def about(self) -> About:
        return self._station.about

    def within(self, context: RunContext) -> Self:
        """Return a view of this runner with a different context. Closing one of the two closes both."""
        view = copy.copy(self)
        view._context = context
        return view

    def beside(self, build: str | Programs) -> Runner:
        if isinstance(build, Programs):
            programs = build
        else:
            programs = named_programs(build, self.files, builds=self.builds, isolated=self.about.isolated)
        if programs.gpus and not self.files.gpus:
            raise NotInBuild(f"build {shown(build)} uses a GPU, but the build to be judged does not")
        self._station.others[build if isinstance(build, str) else programs.key or str(programs.directory)] = programs
        return self._other(programs)

    def judged_with(self, program: str, judge: Programs) -> Runner:
        with ExitStack() as held:
            programs = held.enter_context(with_program(self.files, program, judge))
            other = self._other(programs)
            other._held = held.pop_all()
        return other

    def _other(self, programs: Programs) -> Runner:
        return Runner(
            self.engine,
            programs,
            observations=self.observations,
            memory=self.memory,
            context=replace(self.context, reference=None, judge=None),
            hardware=self.hardware,
            again=self.again,
            builds=self.builds,
            recorded=self.recorded,
            offline=self._station.offline,
        )

    @property
    def others(self) -> Mapping[str, Programs]:
        """The other builds that `beside` opened, by name, key or directory."""
        return self._station.others

    def build_digest(self) -> str:
        return self._station.digest()

    def programs(self) -> frozenset[str]:
        return self.files.names()

    def has(self, kept: str) -> bool:
        return self.size_of(kept) is not None

    def size_of(self, kept: str) -> int | None:
        """Return the size of a kept file in bytes. Return None if it does not exist."""
        return self._station.size_of(kept)

    def digest_of(self, model: Model) -> str:
        path = Path(model.path).expanduser()
        if not self.about.local:
            with task(f"hashing model {model.name}"):
                return self._digest_there(model)
        try:
            status = path.stat()
        except OSError as error:
            raise ModelMissing(
                f"model {model.name} is not at {path}: {error.strerror}",
                hint="change path: in patchstack.yaml, or use --model",
            ) from error
        name = hashlib.sha256(f"model {path} {status.st_size} {status.st_mtime_ns}".encode()).hexdigest()
        known = recall(self.memory, name)
        if known is None:
            with path.open("rb") as file, task(f"hashing model {model.name}"):
                known = remember(self.memory, name, {"digest": hashlib.file_digest(file, "sha256").hexdigest()})
        return known["digest"]

    def observe(self, invocation: Invocation, *, complete: Complete, tries: int = 3, salt: str = "") -> Observed:
        ingredients = self._ingredients(invocation, salt)
        key = observation_key(ingredients)
        known = self._recalled(key) if not self.again else None
        if known is not None and complete(known) is None and all(self.has(name) for name in invocation.keeps):
            return Observed(observation=known, attempts=(_attempt(invocation, known, None),))
        attempts: list[Attempt] = []
        for number in range(1, max(1, tries) + 1):
            with one_try(number, tries):
                seen = self._station.run(invocation, key, gpu=self.context.gpu)
            complaint = _incomplete(seen, invocation) or complete(seen)
            attempts.append(_attempt(invocation, seen, complaint))
            if complaint is None:
                self._keep(seen, invocation, ingredients)
                return Observed(observation=seen, attempts=tuple(attempts))
        return Observed(observation=None, attempts=tuple(attempts))

    def look(self, invocation: Invocation) -> Observation:
        """Run the invocation, even if its observation is stored. Return the new observation without storing it."""
        key = observation_key(self._ingredients(invocation, ""))
        return self._station.run(invocation, key, gpu=self.context.gpu)

    # The key

    def _ingredients(self, invocation: Invocation, salt: str) -> Ingredients:
        if invocation.program not in self.programs():
            raise NotInBuild(
                f"{invocation.program} is not in {self.files.directory}",
                hint="build it with --target, or add it to targets: of the variant",
            )
        image, without = self.files.image or "host", self._station.without(gpu=self.context.gpu)
        return Ingredients(
            programs=self._station.loaded.by(invocation.program),
            program=invocation.program,
            args=invocation.args,
            env=invocation.env,
            models={model.name: self._checked(model) for model in invocation.models},
            inputs=_digests(invocation),
            keeps=invocation.keeps,
            brings=invocation.brings,
            requests=tuple(one_line([one.path, one.body]) for one in invocation.requests),
            hardware=f"{self.hardware} {self.about.platform} {image}{without}",
            kind=self.context.kind,
            salt=salt,
        )

    def _checked(self, model: Model) -> str:
        digest = self.digest_of(model)
        if model.sha256 is not None and digest != model.sha256:
            raise ModelMissing(
                f"model {model.name} does not match its digest: {model.path} has sha256 {digest}, not {model.sha256}",
                hint="download it again, or correct sha256: in patchstack.yaml",
            )
        return digest

    def _digest_there(self, model: Model) -> str:
        said = bytearray()
        places, mounts = mounted((model,), isolated=self.about.isolated)
        place = places[model.name]
        argv = ("sh", "-c", 'stat -L -c "%s %Y" "$1" && sha256sum "$1"', "patchstack", place)
        limits = Limits(seconds=_HASHING)
        job = Job(what="hash", argv=argv, image=self.files.image, paths=mounts, limits=limits)
        outcome = self.engine.run(job, said.extend)
        words = said.decode("utf-8", "replace").split()
        if not outcome.ok or len(words) < 3:
            raise ModelMissing(f"model {model.name} cannot be read on the engine's machine: {model.path}")
        return words[2]

    # Stored observations

    def _recalled(self, key: str) -> Observation | None:
        record = self.observations.find(key)
        if record is not None:
            made = str(record.facts.get("made", ""))
            return observation_of(record, Source(origin=Origin.RECALLED, made=made))
        found = self.recorded.find(key) if self.recorded is not None else None
        return observation_of(*found) if found is not None else None

    def _keep(self, seen: Observation, invocation: Invocation, ingredients: Ingredients) -> None:
        kept = {name: self.size_of(name) for name in invocation.keeps}
        self.observations.keep(record_of(seen, invocation, ingredients, kept))


def _digests(invocation: Invocation) -> dict[str, str]:
    """Return the digests of all input files of a run, by name.

    The names of a client's files begin with `beside`. A client that only sends requests is omitted, because the key
    contains the requests.
    """
    files = dict(invocation.inputs)
    if invocation.beside is not None and not invocation.requests:
        files |= {f"beside {name}": data for name, data in invocation.beside.files.items()}
        files["beside"] = canonical([*invocation.beside.args, *invocation.beside.flags])
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def _incomplete(seen: Observation, invocation: Invocation) -> str | None:
    """Return why a run cannot be judged, for reasons that apply to any program. Return None if no reason applies."""
    if seen.ending is Ending.TIMED_OUT:
        return f"it took over {invocation.seconds:g} s and was ended"
    if seen.ending is Ending.OUT_OF_MEMORY:
        return "it ran out of memory"
    if seen.overflowed:
        return f"it printed over {invocation.output >> 20} MiB and was ended"
    if seen.code == 128 + 9:
        return "it was killed"
    if seen.lost:
        return "its output could not be written: is the engine's disk full?"
    return None


def _attempt(invocation: Invocation, seen: Observation, complaint: str | None) -> Attempt:
    return Attempt(
        what=invocation.what,
        key=seen.key,
        code=seen.code,
        seconds=seen.seconds,
        complaint=complaint,
        source=seen.source,
    )
