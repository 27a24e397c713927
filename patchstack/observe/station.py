"""Run the programs of a build on an engine: send the files, run the job, and collect the results."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from patchstack.causes import JobCannotStart, NoServersHere, ServingFailed
from patchstack.engine.archive import pack, unpack
from patchstack.engine.protocol import Engine, Job, Limits, Outcome, Running, RunsServers
from patchstack.observe.beside import ClientResult, ask, listens_at, port_for
from patchstack.observe.client_image import client_image
from patchstack.observe.layout import Paths, Programs, mounted, remove_leftovers, run_entries, volumes
from patchstack.observe.protocol import OUTPUTS, Beside, Invocation, Observation
from patchstack.observe.served import ServerRun, answered, file_limit, measured
from patchstack.tasks import doing

_OVERFLOW = 153  # 128 + SIGXFSZ: a stream reached the limit on file sizes
_STOPPED_WITHIN = 30.0
_DYING = 0.3

# stdout and stderr are written to files, because an engine returns both as one stream, but gates read them separately.
# The limit on file sizes ends programs that print forever. It is not set if the run creates kept files, which may be
# large. The exit code 97 means that the program cannot be executed.
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

# A server's output is written to files, too. `$1` limits their size (`unlimited` for a server that a client measures).
# Core dumps are disabled.
_SERVE = """
ulimit -c 0
ulimit -f "$1"
shift
exec "$@" >"$0/stdout" 2>"$0/stderr" </dev/null
"""


class Station:
    """Runs the programs of a build on an engine, in volumes that the first run creates.

    All views of a runner share one station. `memory` is a directory that records which images have Python.
    """

    def __init__(self, engine: Engine, programs: Programs, memory: Path, *, offline: bool = False) -> None:
        self.engine = engine
        self.programs = programs
        self.memory = memory
        self.offline = offline
        self.about = engine.about()
        self.volume, self.kept = volumes()
        self.sent = False
        self.loaded = programs.loaded()
        self.others: dict[str, Programs] = {}
        self._digest: str | None = None

    def digest(self) -> str:
        """Return the digest of the programs. It is computed once."""
        if self._digest is None:
            self._digest = self.programs.digest()
        return self._digest

    def close(self) -> None:
        """Remove the files that the runs left. Kept files are not removed."""
        if self.sent:
            self.sent = False
            self.engine.remove(self.volume.name)

    def size_of(self, kept: str) -> int | None:
        """Return the size of a kept file in bytes. Return None if it does not exist."""
        # A job runs `stat`, because reading only the beginning of a stream from the engine would keep the engine busy.
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
        """Return the part of an observation's key that describes hidden GPUs.

        It is empty unless GPUs are hidden from a build that uses them.
        """
        return " without GPUs" if self.programs.gpus and not gpu else ""

    def run(self, invocation: Invocation, key: str, *, gpu: bool) -> Observation:
        """Run an invocation, and return its observation under this key.

        If `gpu` is false, GPUs are hidden from the program.
        """
        doing(f"{invocation.what}, sending")
        if invocation.beside is not None:
            ran = self._served(invocation, invocation.beside, gpu=gpu)
            return answered(ran, invocation, key) if invocation.requests else measured(ran, key)
        paths = self._prepared(invocation)
        doing(invocation.what)
        outcome = self.engine.run(self._job(invocation, paths, gpu=gpu), lambda _: None)
        with tempfile.TemporaryDirectory(prefix="patchstack-") as directory:
            found = Path(directory)
            unpack(self.engine.get(self.volume.name, "run/out", image=self.programs.image), found, OUTPUTS)
            return self._seen(invocation, key, outcome, found / "out")

    def _served(self, invocation: Invocation, beside: Beside, *, gpu: bool) -> ServerRun:
        """Run the program as a server, together with its client."""
        paths = self._prepared(invocation)
        engine = self.engine
        if not isinstance(engine, RunsServers):
            raise NoServersHere(f"the engine {self.about.spec} cannot run servers")
        image = client_image(engine, self.about, beside, self.programs, self.memory, offline=self.offline)
        began = time.monotonic()
        with engine.start(self._server_job(invocation, beside, paths, gpu=gpu), lambda _: None) as server:
            client = self._client(invocation, beside, engine, server, image)
            # If a request crashes the server, its connection closes shortly before the server ends.
            alive = server.wait(0 if client is None or client.outcome.ok else _DYING) is None
            outcome = server.stop(_STOPPED_WITHIN)
        with tempfile.TemporaryDirectory(prefix="patchstack-") as directory:
            unpack(engine.get(self.volume.name, "run/out", image=self.programs.image), Path(directory), OUTPUTS)
            stdout, stderr = (
                path.read_bytes()[-invocation.output :] if path.is_file() else b""
                for path in (Path(directory, "out", "stdout"), Path(directory, "out", "stderr"))
            )
        return ServerRun(
            client=client,
            alive=alive,
            outcome=outcome,
            stdout=stdout,
            stderr=stderr,
            seconds=time.monotonic() - began,
        )

    def _client(
        self, invocation: Invocation, beside: Beside, engine: Engine, server: Running, image: str | None
    ) -> ClientResult | None:
        """Run the client. Return None if the server ended before it listened.

        If the server does not listen in time, return None for a client that only sends requests, and otherwise raise
        `ServingFailed`.
        """
        seconds = invocation.seconds / 2 if invocation.requests else invocation.seconds
        address = listens_at(server, isolated=self.about.isolated, seconds=seconds)
        if address is not None:
            return ask(
                engine,
                beside,
                address,
                lambda line: doing(f"{invocation.what}, {_shown(line, invocation)}"),
                server=server,
                image=image,
                seconds=invocation.seconds,
            )
        if not invocation.requests and server.wait(0) is None:
            raise ServingFailed(
                f"the server did not listen within {seconds:g} s", hint="run the server without patchstack to see why"
            )
        return None

    def _server_job(self, invocation: Invocation, beside: Beside, paths: Paths, *, gpu: bool) -> Job:
        port = port_for(isolated=self.about.isolated)
        told = tuple(text.replace("{port}", port) for text in beside.flags)
        job = self._job(invocation, paths, gpu=gpu)
        arguments = (paths.resolve(text, invocation) for text in invocation.args)
        limit = str(file_limit(invocation.output) // 512) if invocation.requests else "unlimited"
        server = (f"{paths.bin}/{invocation.program}", *arguments, *told)
        argv = ("sh", "-c", _SERVE, f"{paths.run}/out", limit, *server)
        return replace(job, argv=argv, limits=replace(job.limits, seconds=None))

    def _prepared(self, invocation: Invocation) -> Paths:
        """Send the files of the run to the engine, and return the paths as the job sees them."""
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
        """Remove the files of the previous run."""
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


def _shown(line: str, invocation: Invocation) -> str:
    """Return a line of the client as text for the progress display."""
    word, _, number = line.partition(" ")
    if invocation.requests and word == "asking" and number.isdigit():
        return f"request {number} of {len(invocation.requests)}"
    return line[:60]
