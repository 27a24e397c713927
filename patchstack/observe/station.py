"""A build's programs on an engine: what is sent, the job of a run, and what the run leaves."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from patchstack.causes import JobCannotStart, NoServersHere
from patchstack.engine.archive import pack, unpack
from patchstack.engine.protocol import Engine, Job, Limits, Outcome, RunsServers
from patchstack.observe.beside import ask, listens_at, port_for
from patchstack.observe.layout import Paths, Programs, mounted, remove_leftovers, run_entries, volumes
from patchstack.observe.protocol import OUTPUTS, Beside, Invocation, Observation
from patchstack.observe.server_job import asked_now, brought_files, served, server_command
from patchstack.tasks import doing

_OVERFLOW = 153  # 128 + SIGXFSZ: a stream reached the limit on file sizes
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


class Station:
    """A build's programs on an engine, in volumes that are made at the first run; all views of a runner share it."""

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
        """Remove what the runs left; kept files stay."""
        if self.sent:
            self.sent = False
            self.engine.remove(self.volume.name)

    def size_of(self, kept: str) -> int | None:
        """The size of a kept file in bytes; None if it does not exist."""
        # Not the head of a stream from the engine: one that is not read to its end keeps the engine busy.
        said = bytearray()
        job = Job(
            what="size",
            argv=("stat", "-L", "-c", "%F %s", f"{self.engine.place(self.kept)}/{kept}"),
            image=self.programs.image,
            platform=self.programs.platform,
            volumes=(self.kept,),
            limits=Limits(seconds=60),
        )
        outcome = self.engine.run(job, said.extend)
        kind, _, size = said.decode("utf-8", "replace").strip().rpartition(" ")
        return int(size) if outcome.ok and kind.startswith("regular") and size.isdigit() else None

    def without(self, *, gpu: bool) -> str:
        """Return what the key of an observation says if a build that uses GPUs gets none."""
        return " without GPUs" if self.programs.gpus and not gpu else ""

    def run(self, invocation: Invocation, key: str, *, gpu: bool) -> Observation:
        """Run an invocation and return what it gave, under that key. `gpu`: programs that use GPUs get them."""
        doing(f"{invocation.what}, sending")
        if invocation.beside is not None:
            return self._measured(invocation, invocation.beside, key, gpu=gpu)
        paths = self._prepared(invocation)
        doing(invocation.what)
        said = _ServerTalk(invocation).hear if invocation.requests else (lambda _: None)
        outcome = self.engine.run(self._job(invocation, paths, gpu=gpu), said)
        with tempfile.TemporaryDirectory(prefix="patchstack-") as directory:
            found = Path(directory)
            unpack(self.engine.get(self.volume.name, "run/out", image=self.programs.image), found, OUTPUTS)
            return self._seen(invocation, key, outcome, found / "out")

    def _measured(self, invocation: Invocation, beside: Beside, key: str, *, gpu: bool) -> Observation:
        """Run the program as a server, and the one that asks it beside it."""
        paths = self._prepared(invocation)
        engine, isolated = self.engine, self.about.isolated
        if not isinstance(engine, RunsServers):
            raise NoServersHere(f"the engine {self.about.spec} runs no servers")
        began = time.monotonic()
        with engine.start(self._server_job(invocation, beside, paths, gpu=gpu), lambda _: None) as server:
            address = listens_at(server, isolated=isolated, seconds=invocation.seconds)
            asked = None
            if address is not None:
                asked = ask(
                    engine,
                    beside,
                    address,
                    lambda line: doing(f"{invocation.what}, {line[:60]}"),
                    server=server,
                    image=beside.image or self.programs.image,
                    seconds=invocation.seconds,
                )
            alive = server.wait(0) is None
            outcome = server.stop(_STOPPED_WITHIN)
        with tempfile.TemporaryDirectory(prefix="patchstack-") as directory:
            unpack(engine.get(self.volume.name, "run/out", image=self.programs.image), Path(directory), OUTPUTS)
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

    def _server_job(self, invocation: Invocation, beside: Beside, paths: Paths, *, gpu: bool) -> Job:
        port = port_for(isolated=self.about.isolated)
        told = tuple(text.replace("{port}", port) for text in beside.flags)
        job = self._job(replace(invocation, beside=None), paths, gpu=gpu)
        arguments = (paths.resolve(text, invocation) for text in invocation.args)
        script = 'exec "$@" >"$0" 2>&1 </dev/null'
        server = (f"{paths.bin}/{invocation.program}", *arguments, *told)
        argv = ("sh", "-c", script, f"{paths.run}/out/log", *server)
        return replace(job, argv=argv, limits=replace(job.limits, seconds=None))

    def _prepared(self, invocation: Invocation) -> Paths:
        """Send what is needed, and say where it is."""
        image = self.programs.image
        if not self.sent:
            self.sent = True
            remove_leftovers(self.engine)
            if self.about.isolated:
                self.engine.put(self.volume.name, pack(self.programs.entries()), image=image)
            self.engine.put(self.kept.name, pack(()), image=image)
        self._emptied()
        self.engine.put(self.volume.name, pack(run_entries(invocation)), image=image)
        place, kept = self.engine.place(self.volume), self.engine.place(self.kept)
        places, mounts = mounted(invocation.models, isolated=self.about.isolated)
        own = f"{place}/bin" if self.about.isolated else str(self.programs.directory.resolve())
        return Paths(bin=own, run=f"{place}/run", kept=kept, models=places, mounts=mounts)

    def _emptied(self) -> None:
        """Remove what an earlier run left."""
        job = Job(
            what="clear",
            argv=("rm", "-rf", f"{self.engine.place(self.volume)}/run"),
            image=self.programs.image,
            platform=self.programs.platform,
            volumes=(self.volume,),
            limits=Limits(seconds=60),
        )
        if self.volume.name in self.engine.volumes():
            self.engine.run(job, lambda _: None)

    def _job(self, invocation: Invocation, paths: Paths, *, gpu: bool) -> Job:
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
        hidden = {"CUDA_VISIBLE_DEVICES": "-1"} if self.without(gpu=gpu) else {}
        env = {"LC_ALL": "C", "LD_LIBRARY_PATH": self.programs.library_path or "", **hidden, **invocation.env}
        return Job(
            what=invocation.what,
            argv=argv,
            image=self.programs.image,
            platform=self.programs.platform,
            workdir=paths.work,
            env={name: value for name, value in env.items() if value or name in invocation.env},
            volumes=(self.volume, self.kept),
            paths=(*self.programs.paths, *paths.mounts),
            gpus=self.programs.gpus and gpu,
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
            raise JobCannotStart(f"{invocation.program} cannot be executed in {self.programs.directory}")
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
