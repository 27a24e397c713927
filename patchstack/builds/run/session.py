"""Run a build on an engine: send the tree, configure, compile, fetch the result, and remove the volume."""

from __future__ import annotations

import contextlib
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from patchstack.builds.inputs.key import Key, Toolchain
from patchstack.builds.inputs.plan import Plan
from patchstack.builds.inputs.source import Source
from patchstack.builds.inputs.toolchain import IMAGE_TOOLKIT, toolkit_paths, toolkit_place
from patchstack.builds.proofs.device import Disassembler, find_cuobjdump
from patchstack.builds.record.store import LOG, Store
from patchstack.builds.run.recipe import EPOCH, Layout, build_command, configure_command, environment
from patchstack.causes import BuildPlanRefused, ProgramMissing, VariantUnusable
from patchstack.engine.archive import Bounds, Entry, pack, unpack
from patchstack.engine.leftovers import sweep, volume_name
from patchstack.engine.protocol import Ending, Engine, Job, Limits, Outcome, Volume
from patchstack.errors import ConfigError, Exit, MissingError, PatchstackError
from patchstack.process import Finished

_WORK_VOLUMES = "patchstack-work-[0-9a-f]{12}"


def work_name(key: Key, word: str) -> str:
    """Return the name of a new volume of this process. The name contains `word` and the short key."""
    return volume_name(f"patchstack-{word}-{key.short}")


_WORK, _CACHE = "/patchstack/work", "/patchstack/ccache"
BINARIES = Bounds(size=32 << 30, entries=20_000)
"""The limits on the files that are fetched from a build: programs, libraries, and object files of FP4 kernels."""
STATISTICS = Bounds(size=1 << 20, entries=1)
"""The limits on the statistics of ccache."""
_MISSING_TOOLS = 96
_NOTHING_IN_BIN = 97
_SHOWN = 8
_UNUSED = re.compile(r"Manually-specified variables were not used by the project:\n\s*\n((?:\s+\S+\n)+)")


class NotJudged(PatchstackError):
    """A build ended without a result.

    It reached its time limit, ran out of memory, or failed with an error that patchstack does not recognise.
    """

    code = "PS0607"
    exit_code = Exit.INVALID


class Watch(Protocol):
    """The interface of an observer of a build."""

    def phase(self, name: str) -> None:
        """Report that a part of the work starts: send, configure, compile, fetch or prove."""
        ...

    def output(self, chunk: bytes) -> None:
        """Report output of the commands."""
        ...

    def talk(self, text: str) -> None:
        """Show a message to the user."""
        ...


@dataclass(slots=True, kw_only=True)
class SessionResult:
    """The result of the commands.

    `outcome` is the outcome of the last command. `log` is the file with the output of all commands. `seconds` contains
    the wall time of each part. `ccache` is the statistics log of ccache.
    """

    outcome: Outcome
    log: Path
    seconds: dict[str, float] = field(default_factory=dict)
    ccache: bytes = b""
    started: datetime = field(default_factory=lambda: datetime.now(UTC))


class Session:
    """A build on an engine. Its work volume is removed at the end, unless it is kept."""

    def __init__(
        self, engine: Engine, plan: Plan, toolchain: Toolchain, key: Key, watch: Watch, draft: Path, *, keep: bool
    ) -> None:
        self.engine = engine
        self.plan = plan
        self.toolchain = toolchain
        self.key = key
        self.watch = watch
        self.draft = draft
        self.keep = keep
        on_host = not plan.engine.isolated
        name = "work" if on_host else work_name(key, "kept" if keep else "work")
        self.work = Volume(name=name, target=_WORK)
        self.cache = Volume(name=f"patchstack-ccache-{plan.platform.value.replace('/', '-')}", target=_CACHE)
        work, cache = engine.place(self.work), engine.place(self.cache)
        self.layout = Layout(
            source=f"{work}/src",
            build=f"{work}/build",
            out=f"{work}/out",
            ccache=cache,
            toolkit=toolkit_place(plan),
        )
        self.seconds: dict[str, float] = {}
        self.ran = False

    @property
    def image(self) -> str | None:
        return self.toolchain.image_digest

    def send(self, source: Source) -> None:
        """Write the tree to the work volume, and create the volume of ccache if it is missing."""
        with self.timed("send"):
            self.engine.remove(self.work.name)
            files = _below("src", source)
            self.engine.put(self.work.name, pack(files, mtime=EPOCH), image=self.image)
            if self.plan.ccache.value:
                self.engine.put(self.cache.name, pack(()), image=self.image)

    def job(self, what: str, argv: tuple[str, ...], *, seconds: float | None = None, compiling: bool = True) -> Job:
        """Return a job of this build. `seconds` replaces the plan's time limit.

        A job that is not `compiling` runs a program of the build.
        """
        limits = Limits(
            memory=self.plan.memory.value,
            cpus=self.plan.cpus.value,
            seconds=seconds or self.plan.seconds.value,
            tmp=1 << 30,
        )
        running = {"LC_ALL": "C"}
        if self.layout.toolkit is not None:  # without LD_LIBRARY_PATH, programs do not find its libraries
            running["LD_LIBRARY_PATH"] = f"{self.layout.toolkit}/lib64"
        return Job(
            what=what,
            argv=argv,
            image=self.image,
            platform=self.plan.platform.value,
            env=environment(self.plan, self.layout) if compiling else running,
            workdir=self.layout.source,
            volumes=(self.work, self.cache) if compiling and self.plan.ccache.value else (self.work,),
            paths=toolkit_paths(self.plan),
            limits=limits,
        )

    def compile(self) -> SessionResult:
        """Configure and build. The output is written to the log in the draft.

        A compiler error is a result, not an exception. Raises `NotJudged` if the build ended without a result,
        `MissingError` for missing tools, `ConfigError` if nothing is in `bin`, and `UsageError` for a definition that
        CMake did not use.
        """
        log = self.draft / LOG
        with log.open("wb") as out:
            with self.timed("configure"):
                outcome = self._run("configure", configure_command(self.plan, self.layout, self.key.hex), out)
            self._complain(outcome, log)
            self._refuse_unused(log)
            if outcome.ok:
                with self.timed("compile"):
                    outcome = self._run("build", build_command(self.plan, self.layout), out)
                self._complain(outcome, log)
        return SessionResult(outcome=outcome, log=log, seconds=self.seconds)

    def fetch(self, made: SessionResult) -> None:
        """Copy the results into the draft."""
        with self.timed("fetch"):
            for part in ("bin", "objects"):
                unpack(self.engine.get(self.work.name, f"out/{part}", image=self.image), self.draft, BINARIES)
            if self.plan.ccache.value:
                with contextlib.suppress(MissingError):
                    unpack(self.engine.get(self.work.name, "out.ccache", image=self.image), self.draft, STATISTICS)
                    made.ccache = (self.draft / "out.ccache").read_bytes()
                    (self.draft / "out.ccache").unlink()

    def try_out(self, program: str, *arguments: str) -> tuple[int, bytes]:
        """Run a program of the build on the build's engine. Return its exit code and output."""
        said = bytearray()
        job = self.job("try", (f"{self.layout.out}/bin/{program}", *arguments), seconds=60, compiling=False)
        outcome = self.engine.run(job, said.extend)
        return outcome.code, bytes(said)

    def disassembler(self) -> Disassembler | None:
        """Return cuobjdump of this machine, or of the build's toolkit. Return None if neither exists.

        cuobjdump of the toolkit runs on the build's engine.
        """
        found = find_cuobjdump()
        if found is not None or not self.plan.cuda:
            return found
        program = f"{self.layout.toolkit or IMAGE_TOOLKIT}/bin/cuobjdump"
        there = self.engine.run(self.job("cuobjdump", ("test", "-x", program), compiling=False), lambda _: None)
        if not there.ok:
            return None

        def dump(options: tuple[str, ...], file: Path) -> Finished:
            said = bytearray()
            argv = (program, *options, f"{self.layout.out}/{file.relative_to(self.draft)}")
            outcome = self.engine.run(self.job("cuobjdump", argv, seconds=600, compiling=False), said.extend)
            return Finished(args=argv, code=outcome.code, stdout=bytes(said), stderr=b"")

        return dump

    def close(self) -> None:
        """Remove the work volume. If the user asked to keep it, show the command that inspects it instead."""
        if self.keep and self.ran:
            line = shlex.join(self.engine.shell(self.job("shell", ("sh",))))
            gone = f"; run 'docker volume rm {self.work.name}' to remove it" if self.plan.engine.isolated else ""
            self.watch.talk(f"the build is kept in volume {self.work.name}{gone}; to inspect it, run:\n  {line}")
        else:
            self.engine.remove(self.work.name)

    def _run(self, what: str, argv: tuple[str, ...], log: BinaryIO) -> Outcome:
        self.ran = True

        def output(chunk: bytes) -> None:
            log.write(chunk)
            self.watch.output(chunk)

        outcome = self.engine.run(self.job(what, argv), output)
        log.flush()
        return outcome

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Report a part of the build to the observer, and record its wall time in seconds."""
        self.watch.phase(name)
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - start, 3)

    def _complain(self, outcome: Outcome, log: Path) -> None:
        """Raise an error if the outcome proves nothing about the source.

        Possible reasons are a time limit, lack of memory, missing tools, and a build that left no files in `bin`.
        """
        if outcome.ending is Ending.TIMED_OUT:
            limit = self.plan.seconds
            raise NotJudged(
                f"the build took over {limit.value:g} s ({limit.origin}) and was stopped",
                hint="use --time 8h to allow more time; files in ccache are not compiled again",
            )
        if outcome.ending is Ending.OUT_OF_MEMORY:
            raise out_of_memory(self.plan)
        if outcome.code == _MISSING_TOOLS:
            tail = log.read_text(errors="replace").partition("patchstack: missing tools:")[2].split("\n")[0].split()
            where = f"image {self.plan.image.value}" if self.plan.image else "this machine"
            raise ProgramMissing(
                f"{where} lacks {', '.join(tail)}",
                hint="run 'patchstack doctor' to see how to install them, or use --no-ccache to build without ccache",
            )

        if outcome.code == _NOTHING_IN_BIN:
            raise _nothing_in_bin(self.plan, log)

    def _refuse_unused(self, log: Path) -> None:
        """Raise `UsageError` for a definition of the user that CMake did not use.

        Without this error, the user would believe that the definition had an effect.
        """
        match = _UNUSED.search(log.read_text(errors="replace").replace("\r", ""))
        unused = match.group(1).split() if match else []
        by_hand = [name for name in unused if name in self.plan.cmake and self.plan.cmake[name].origin == "--define"]
        if by_hand:
            raise BuildPlanRefused(
                f"CMake did not use {', '.join(by_hand)}",
                hint="use --compile-define to pass a definition to the compilers instead",
            )


@contextlib.contextmanager
def open_session(
    engine: Engine,
    plan: Plan,
    toolchain: Toolchain,
    key: Key,
    store: Store,
    watch: Watch,
    *,
    keep: bool = False,
) -> Iterator[Session]:
    """Open a session in a new draft of the store.

    On the host, only one build runs at a time, because all builds use the same work directory. This gives every build
    the same paths.
    """
    with contextlib.ExitStack() as stack:
        if not plan.engine.isolated:
            stack.enter_context(
                store.alone("host", lambda who: watch.talk(f"waiting for another build on this host ({who})"))
            )
        else:
            sweep(engine, _WORK_VOLUMES)
        draft = stack.enter_context(store.draft(key.hex))
        session = Session(engine, plan, toolchain, key, watch, draft, keep=keep)
        try:
            yield session
        finally:
            with _errors_before(PatchstackError):
                session.close()


def _nothing_in_bin(plan: Plan, log: Path) -> ConfigError:
    """Return the error for a build that succeeded, but left no programs in the expected directory."""
    told = log.read_text(errors="replace").partition("patchstack: nothing in bin:")[2].replace("\r", "").split("\n")
    found = sorted(line.removeprefix("./") for line in told if line.startswith("./"))
    more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    return VariantUnusable(
        f"the build of {', '.join(plan.targets.value)} left no files in bin/ of CMake's build directory",
        problems=[f"found elsewhere: {path}" for path in found[:_SHOWN]] + more or ["no program or library anywhere"],
        hint=f"set cmake: {{CMAKE_RUNTIME_OUTPUT_DIRECTORY: bin, CMAKE_LIBRARY_OUTPUT_DIRECTORY: bin}} in variant "
        f"{plan.variant} (or use --define NAME=bin), or set them to ${{CMAKE_BINARY_DIR}}/bin in CMakeLists.txt",
    )


def out_of_memory(plan: Plan) -> NotJudged:
    """Return the error for a build that ran out of memory."""
    memory = plan.memory.value
    limit = f" of {memory >> 20} MiB ({plan.memory.origin})" if memory else ""
    jobs = plan.jobs.value
    ways = [f"use --jobs {jobs // 2} to need less memory"] if jobs > 1 else []
    ways += ["use --memory to allow more"] if memory else []
    return NotJudged(
        f"the build ran out of memory{limit} with {jobs} {'job' if jobs == 1 else 'jobs'}",
        hint="; ".join(ways) or "use an engine with more memory",
    )


@contextlib.contextmanager
def _errors_before(kind: type[Exception]) -> Iterator[None]:
    """Suppress errors of the clean-up if another exception is already being raised."""
    import sys

    underway = sys.exc_info()[0] is not None
    try:
        yield
    except kind:
        if not underway:
            raise


def _below(directory: str, source: Source) -> Iterator[Entry]:
    yield Entry(path=directory)
    for entry in source.entries():
        yield Entry(path=f"{directory}/{entry.path}", data=entry.data, link=entry.link, executable=entry.executable)
