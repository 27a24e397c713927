"""A build's programs on an engine, ready to be run for gates; what they were seen to do is kept."""

from __future__ import annotations

import copy
import hashlib
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from patchstack.builds.inputs.toolchain import recall, remember
from patchstack.canonical import canonical, one_line
from patchstack.causes import JobCannotStart, ModelMissing, NoServersHere, NotInBuild
from patchstack.engine.archive import pack, unpack
from patchstack.engine.protocol import About, Ending, Engine, Job, Limits, Outcome, RunsServers
from patchstack.evidence.key import Ingredients, observation_key
from patchstack.evidence.origin import Origin, Recorded, Source
from patchstack.evidence.store import Observations, Record
from patchstack.observe.beside import ask, listens_at, port_for
from patchstack.observe.borrowed import with_program
from patchstack.observe.from_build import named_programs, shown
from patchstack.observe.layout import Paths, Programs, mounted, remove_leftovers, run_entries, volumes
from patchstack.observe.observer import RunContext, one_try
from patchstack.observe.protocol import (
    OUTPUTS,
    Attempt,
    Beside,
    Complete,
    Invocation,
    Model,
    Observation,
    Observed,
    Reply,
)
from patchstack.observe.server_job import asked_now, brought_files, served, server_command
from patchstack.tasks import doing, task

_OVERFLOW = 153  # 128 + SIGXFSZ: a stream reached the limit on file sizes
_HASHING = 3600.0
_STOPPED_WITHIN = 30.0

# stdout and stderr go to files: an engine gives both as one stream, and a digest is of stdout alone. The limit on what
# is written ends programs that print without end; it is left out where the run makes files that are kept, which may be
# large. Exit 97: the program does not exist.
_RUN = """
run=$1 limit=$2 brings=$3 program=$4
shift 4
cd "$run/work" || exit 98
[ -x "$program" ] || exit 97
(
    [ "$limit" = 0 ] || ulimit -f "$limit"
    exec "$program" "$@" >"$run/out/stdout" 2>"$run/out/stderr" </dev/null
)
echo "$?" >"$run/out/code"
for name in $brings; do [ ! -f "$name" ] || cp "$name" "$run/out/files/"; done
"""


class _Station:
    """What all views of a runner share: the programs on the engine, in volumes that are made at the first run."""

    def __init__(self, engine: Engine, programs: Programs) -> None:
        self.engine = engine
        self.programs = programs
        self.about = engine.about()
        self.volume, self.kept = volumes()
        self.sent = False
        self.loaded = programs.loaded()
        self.others: dict[str, Programs] = {}
        self._digest: str | None = None

    def digest(self) -> str:
        """SHA-256 of the programs, computed once."""
        if self._digest is None:
            self._digest = self.programs.digest()
        return self._digest

    def close(self) -> None:
        if self.sent:
            self.sent = False
            self.engine.remove(self.volume.name)


class Runner:
    """Runs a build's programs on an engine and keeps what they did: an `Observer`.

    `context` is what the runs have in common; it is never changed: `within` gives a view of the same runner with
    a different one. Volumes are made at the first run and removed by `close`. `observations` is this machine's cache of
    observations, `recorded` the recorded evidence that counts as well (None: none does), `memory` where digests of
    models are kept, `builds` where other builds are. `hardware` is the machine, in one line.
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
    ) -> None:
        self.observations = observations
        self.recorded = recorded
        self.memory = memory
        self.hardware = hardware
        self.again = again
        self.builds = builds
        self._context = context
        self._station = _Station(engine, programs)
        self._held = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove what the runs left on the engine; kept files stay."""
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
        """This runner, with another context for what is run through it. Closing one closes both."""
        view = copy.copy(self)
        view._context = context
        return view

    def beside(self, build: str | Programs) -> Runner:
        if isinstance(build, Programs):
            programs = build
        else:
            programs = named_programs(build, self.files, builds=self.builds, isolated=self.about.isolated)
        if programs.gpus and not self.files.gpus:
            raise NotInBuild(f"build {shown(build)} uses a GPU, and the one to be judged does not")
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
        )

    @property
    def others(self) -> Mapping[str, Programs]:
        """The other builds that were asked for through this runner, by how they were named."""
        return self._station.others

    def build_digest(self) -> str:
        return self._station.digest()

    def programs(self) -> frozenset[str]:
        return self.files.names()

    def has(self, kept: str) -> bool:
        return self.size_of(kept) is not None

    def size_of(self, kept: str) -> int | None:
        """The size of a kept file in bytes; None if it does not exist."""
        # Not the head of a stream from the engine: one that is not read to its end keeps the engine busy.
        said = bytearray()
        job = Job(
            what="size",
            argv=("stat", "-L", "-c", "%F %s", f"{self.engine.place(self._station.kept)}/{kept}"),
            image=self.files.image,
            platform=self.files.platform,
            volumes=(self._station.kept,),
            limits=Limits(seconds=60),
        )
        outcome = self.engine.run(job, said.extend)
        kind, _, size = said.decode("utf-8", "replace").strip().rpartition(" ")
        return int(size) if outcome.ok and kind.startswith("regular") and size.isdigit() else None

    def digest_of(self, model: Model) -> str:
        path = Path(model.path).expanduser()
        if not self.about.local:
            with task(f"hashing model {model.name}"):
                return self._digest_there(model)
        try:
            status = path.stat()
        except OSError as error:
            raise ModelMissing(
                f"model {model.name} is not at {path}: {error.strerror}", hint="path: in patchstack.yaml, or --model"
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
                seen = self._run(invocation, key)
            complaint = _incomplete(seen, invocation) or complete(seen)
            attempts.append(_attempt(invocation, seen, complaint))
            if complaint is None:
                self._keep(seen, invocation, ingredients)
                return Observed(observation=seen, attempts=tuple(attempts))
        return Observed(observation=None, attempts=tuple(attempts))

    def look(self, invocation: Invocation) -> Observation:
        """What the invocation gives now. It is run in any case, and not kept."""
        return self._run(invocation, observation_key(self._ingredients(invocation, "")))

    @property
    def _without(self) -> str:
        """What the key of an observation says where a build that uses GPUs gets none."""
        return " without GPUs" if self.files.gpus and not self.context.gpu else ""

    # The key

    def _ingredients(self, invocation: Invocation, salt: str) -> Ingredients:
        if invocation.program not in self.programs():
            raise NotInBuild(
                f"{invocation.program} is not in {self.files.directory}",
                hint="build it: --target, or targets: of the variant",
            )
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
            hardware=f"{self.hardware} {self.about.platform} {self.files.image or 'host'}{self._without}",
            kind=self.context.kind,
            salt=salt,
        )

    def _checked(self, model: Model) -> str:
        digest = self.digest_of(model)
        if model.sha256 is not None and digest != model.sha256:
            raise ModelMissing(
                f"model {model.name} is not the one of its digest: {model.path} is sha256 {digest}, not {model.sha256}",
                hint="fetch it again, or correct sha256: in patchstack.yaml",
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

    # What is known

    def _recalled(self, key: str) -> Observation | None:
        record = self.observations.find(key)
        if record is not None:
            made = str(record.facts.get("made", ""))
            return observation_of(record, Source(origin=Origin.RECALLED, made=made))
        found = self.recorded.find(key) if self.recorded is not None else None
        return observation_of(*found) if found is not None else None

    def _keep(self, seen: Observation, invocation: Invocation, ingredients: Ingredients) -> None:
        facts: dict[str, Any] = {
            "ending": str(seen.ending),
            "code": seen.code,
            "seconds": round(seen.seconds, 3),
            "overflowed": seen.overflowed,
            "replies": [reply.status for reply in seen.replies],
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "what": invocation.what,
            "kept": {name: self.size_of(name) for name in invocation.keeps},
        }
        blobs = {"stdout": seen.stdout, "stderr": seen.stderr}
        blobs |= {f"reply-{number}": reply.body for number, reply in enumerate(seen.replies)}
        blobs |= {f"file:{name}": data for name, data in seen.files.items()}
        self.observations.keep(Record(key=seen.key, ingredients=ingredients.document(), facts=facts, blobs=blobs))

    # Running

    def _run(self, invocation: Invocation, key: str) -> Observation:
        doing(f"{invocation.what}, sending")
        if invocation.beside is not None:
            return self._measured(invocation, invocation.beside, key)
        paths = self._prepared(invocation)
        doing(invocation.what)
        said = _ServerTalk(invocation).hear if invocation.requests else (lambda _: None)
        outcome = self.engine.run(self._job(invocation, paths), said)
        with tempfile.TemporaryDirectory(prefix="patchstack-") as directory:
            found = Path(directory)
            unpack(self.engine.get(self._station.volume.name, "run/out", image=self.files.image), found, OUTPUTS)
            return self._seen(invocation, key, outcome, found / "out")

    def _measured(self, invocation: Invocation, beside: Beside, key: str) -> Observation:
        """Run the program as a server, and the one that asks it beside it."""
        paths = self._prepared(invocation)
        engine, isolated = self.engine, self.about.isolated
        if not isinstance(engine, RunsServers):
            raise NoServersHere(f"the engine {self.about.spec} runs no servers")
        began = time.monotonic()
        with engine.start(self._server_job(invocation, beside, paths), lambda _: None) as server:
            address = listens_at(server, isolated=isolated, seconds=invocation.seconds)
            asked = None
            if address is not None:
                asked = ask(
                    engine,
                    beside,
                    address,
                    lambda line: doing(f"{invocation.what}, {line[:60]}"),
                    server=server,
                    image=beside.image or self.files.image,
                    seconds=invocation.seconds,
                )
            alive = server.wait(0) is None
            outcome = server.stop(_STOPPED_WITHIN)
        with tempfile.TemporaryDirectory(prefix="patchstack-") as directory:
            unpack(engine.get(self._station.volume.name, "run/out", image=self.files.image), Path(directory), OUTPUTS)
            log = Path(directory, "out", "log")
            stderr = log.read_bytes()[-invocation.output :] if log.is_file() else b""
        seconds = time.monotonic() - began
        if asked is None:
            return Observation(
                key=key, ending=outcome.ending, code=outcome.code or 1, stdout=b"", stderr=stderr, seconds=seconds
            )
        files = {**asked.files, "said": asked.said.encode(), "stopped": b"1" if asked.stopped else b""}
        # A server that was told to end, and did, has done nothing wrong.
        code = 0 if alive and outcome.code in (0, 128 + 15, 128 + 9) else outcome.code
        ending = asked.outcome.ending
        return Observation(key=key, ending=ending, code=code, stdout=b"", stderr=stderr, seconds=seconds, files=files)

    def _server_job(self, invocation: Invocation, beside: Beside, paths: Paths) -> Job:
        port = port_for(isolated=self.about.isolated)
        told = tuple(text.replace("{port}", port) for text in beside.flags)
        job = self._job(replace(invocation, beside=None), paths)
        arguments = (paths.resolve(text, invocation) for text in invocation.args)
        script = 'exec "$@" >"$0" 2>&1 </dev/null'
        server = (f"{paths.bin}/{invocation.program}", *arguments, *told)
        argv = ("sh", "-c", script, f"{paths.run}/out/log", *server)
        return replace(job, argv=argv, limits=replace(job.limits, seconds=None))

    def _prepared(self, invocation: Invocation) -> Paths:
        """Send what is needed, and say where it is."""
        image = self.files.image
        if not self._station.sent:
            self._station.sent = True
            remove_leftovers(self.engine)
            if self.about.isolated:
                self.engine.put(self._station.volume.name, pack(self.files.entries()), image=image)
            self.engine.put(self._station.kept.name, pack(()), image=image)
        self._emptied()
        self.engine.put(self._station.volume.name, pack(run_entries(invocation)), image=image)
        place, kept = self.engine.place(self._station.volume), self.engine.place(self._station.kept)
        places, mounts = mounted(invocation.models, isolated=self.about.isolated)
        own = f"{place}/bin" if self.about.isolated else str(self.files.directory.resolve())
        return Paths(bin=own, run=f"{place}/run", kept=kept, models=places, mounts=mounts)

    def _emptied(self) -> None:
        """Remove what an earlier run left."""
        job = Job(
            what="clear",
            argv=("rm", "-rf", f"{self.engine.place(self._station.volume)}/run"),
            image=self.files.image,
            platform=self.files.platform,
            volumes=(self._station.volume,),
            limits=Limits(seconds=60),
        )
        if self._station.volume.name in self.engine.volumes():
            self.engine.run(job, lambda _: None)

    def _job(self, invocation: Invocation, paths: Paths) -> Job:
        arguments = [paths.resolve(text, invocation) for text in invocation.args]
        program = f"{paths.bin}/{invocation.program}"
        if invocation.requests:
            argv = server_command(
                (program, *arguments),
                directory=f"{paths.run}/out",
                count=len(invocation.requests),
                ready=invocation.seconds / 2,
                each=invocation.seconds / 2,
                output=invocation.output,
            )
        else:
            limit = 0 if invocation.keeps else max(1, invocation.output // 512)
            brings = " ".join(invocation.brings)
            argv = ("sh", "-c", _RUN, "patchstack", paths.run, str(limit), brings, program, *arguments)
        hidden = {"CUDA_VISIBLE_DEVICES": "-1"} if self._without else {}
        env = {"LC_ALL": "C", "LD_LIBRARY_PATH": self.files.library_path or "", **hidden, **invocation.env}
        return Job(
            what=invocation.what,
            argv=argv,
            image=self.files.image,
            platform=self.files.platform,
            workdir=paths.work,
            env={name: value for name, value in env.items() if value or name in invocation.env},
            volumes=(self._station.volume, self._station.kept),
            paths=(*self.files.paths, *paths.mounts),
            gpus=self.files.gpus and self.context.gpu,
            limits=Limits(seconds=invocation.seconds, tmp=1 << 30),
        )

    def _seen(self, invocation: Invocation, key: str, outcome: Outcome, found: Path) -> Observation:
        def content(path: Path) -> bytes:
            return path.read_bytes() if path.is_file() else b""

        if invocation.requests:
            return self._served(invocation, key, outcome, found)
        said = content(found / "code").strip()
        code = int(said) if said.isdigit() else outcome.code
        if code == 97 and not said:
            raise JobCannotStart(f"{invocation.program} cannot be executed in {self.files.directory}")
        return Observation(
            key=key,
            ending=outcome.ending,
            code=code,
            stdout=content(found / "stdout"),
            stderr=content(found / "stderr"),
            seconds=outcome.seconds,
            overflowed=code == _OVERFLOW,
            lost=not said,
            files={name: content(found / "files" / name) for name in invocation.brings},
        )

    def _served(self, invocation: Invocation, key: str, outcome: Outcome, found: Path) -> Observation:
        """What a server gave. How serving went is in `files` under `service`."""
        count = len(invocation.requests)
        files = {name: path.read_bytes() for name in brought_files(count) if (path := found / name).is_file()}
        came = served(outcome.code, files, count=count, output=invocation.output)
        return Observation(
            key=key,
            ending=outcome.ending,
            code=came.code if came.code is not None else outcome.code,
            stdout=came.stdout,
            stderr=came.stderr,
            seconds=outcome.seconds,
            overflowed=came.overflowed,
            replies=came.replies,
            files={"service": came.service.encode()},
        )


class _ServerTalk:
    """What a job says of its server while it runs (see `server_job`), told to the open task."""

    def __init__(self, invocation: Invocation) -> None:
        self._what, self._count = invocation.what, len(invocation.requests)
        self._said = bytearray()
        doing(f"{self._what}, starting")

    def hear(self, chunk: bytes) -> None:
        """Read what the job said next."""
        *lines, rest = (self._said + chunk[-4096:]).split(b"\n")
        self._said = bytearray(rest[-64:])
        for line in lines:
            if asked := asked_now(bytes(line)):
                doing(f"{self._what}, request {asked} of {self._count}")


def _digests(invocation: Invocation) -> dict[str, str]:
    """The digests of all files that a run is given, by their names; those of a program beside it are told apart."""
    files = dict(invocation.inputs)
    if invocation.beside is not None:
        files |= {f"beside {name}": data for name, data in invocation.beside.files.items()}
        files["beside"] = canonical([*invocation.beside.args, *invocation.beside.flags])
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def observation_of(record: Record, source: Source) -> Observation | None:
    """Return the observation that a record keeps; None if it does not hold one."""
    facts, blobs = record.facts, record.blobs
    try:
        return Observation(
            key=record.key,
            ending=Ending(facts["ending"]),
            code=int(facts["code"]),
            stdout=blobs["stdout"],
            stderr=blobs["stderr"],
            seconds=float(facts["seconds"]),
            overflowed=bool(facts["overflowed"]),
            replies=tuple(
                Reply(status=int(status), body=blobs[f"reply-{number}"])
                for number, status in enumerate(facts["replies"])
            ),
            files={name.removeprefix("file:"): blob for name, blob in blobs.items() if name.startswith("file:")},
            source=source,
        )
    except (KeyError, ValueError, TypeError):
        return None


def _incomplete(seen: Observation, invocation: Invocation) -> str | None:
    """Why a run cannot be judged, whatever was run."""
    if seen.ending is Ending.TIMED_OUT:
        return f"it took over {invocation.seconds:g} s and was ended"
    if seen.ending is Ending.OUT_OF_MEMORY:
        return "it ran out of memory"
    if seen.overflowed:
        return f"it printed over {invocation.output >> 20} MiB and was ended"
    if seen.code == 128 + 9:
        return "it was killed"
    if seen.lost:
        return "what it gave could not be written down: is the engine's disk full?"
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
