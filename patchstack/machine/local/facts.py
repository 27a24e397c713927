"""Collect facts about this machine, in parallel and within a time limit. Nothing is judged and nothing is written."""

from __future__ import annotations

import importlib.util
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchstack.engine.protocol import About, Engine
from patchstack.errors import MissingError, PatchstackError, UsageError
from patchstack.installed import Installed, here
from patchstack.machine.local.toolchain import ROOTS, Tool, find_cuda_tool, find_nvcc, find_tool
from patchstack.process import clean_environment, run
from patchstack.tasks import task

PACKAGES = ("docker", "in_toto_attestation", "elftools")
TOOLS = ("git", "c++", "cmake", "ninja", "ccache")
_SECONDS = 12.0  # more than the limit of a version query
_ENGINE_SECONDS = 20.0  # an engine over ssh may answer slowly
_PROGRAM_SECONDS = 4.0
_GPU_QUERY = "--query-gpu=name,compute_cap,driver_version,memory.total"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReply:
    """The reply of an engine: `about`, or `problem` and `hint` if the engine did not answer."""

    spec: str
    about: About | None = None
    problem: str = ""
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU as nvidia-smi reports it.

    `capability` is the compute capability, such as `12.1`. `memory` includes the unit.
    """

    name: str
    capability: str
    driver: str
    memory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts about this machine. Sizes are in bytes.

    `tools` contains None for a missing tool. `nvcc_problem` is the reason why CUDACXX cannot be used. `packages` shows
    which of `PACKAGES` can be imported. `installed` is how patchstack was installed. `contexts` are the names of
    Docker's contexts. `current` is the URL that `docker` uses, with the setting that selects it. `gpu_problem` is the
    reason why an existing nvidia-smi reports no GPUs. `late` lists the names of the questions that were not answered in
    time.
    """

    tools: Mapping[str, Tool | None]
    nvcc: Tool | None
    nvcc_problem: str
    cuobjdump: Tool | None
    packages: Mapping[str, bool]
    installed: Installed
    engines: tuple[EngineReply, ...]
    contexts: tuple[str, ...]
    current: str
    contexts_problem: str
    buildx: str | None
    podman_socket: str | None
    gpus: tuple[Gpu, ...] | None
    gpu_problem: str
    cache: str
    cache_free: int | None
    engine_free: int | None
    late: tuple[str, ...] = ()


Opener = Callable[[str], Engine]


@task("looking at this machine")
def gather(
    specs: Sequence[str], env: Mapping[str, str], *, cache: Path, open_engine: Opener, roots: Sequence[Path] = ROOTS
) -> Facts:
    """Collect the facts about this machine and about the engines that `specs` name.

    All questions are asked at the same time, so the function takes as long as the slowest answer, at most about 20 s.
    `env` is the environment to search (PATH, CUDACXX, DOCKER_HOST, …). `cache` is the cache directory of patchstack.
    `roots` are the directories in which CUDA toolkits are installed.

    Raises `UsageError` if a spec does not name an engine.
    """
    questions: dict[str, tuple[Callable[[], Any], float]] = {
        name: (lambda name=name: find_tool(name, env), _SECONDS)  # type: ignore[misc]
        for name in TOOLS
    }
    questions |= {
        "nvcc": (lambda: _nvcc(env, roots), _SECONDS),
        "cuobjdump": (lambda: find_cuda_tool("cuobjdump", env, roots), _SECONDS),
        "buildx": (lambda: _buildx(env), _SECONDS),
        "gpus": (lambda: _gpus(env), _SECONDS),
        "contexts": (lambda: _contexts(env), _SECONDS),
        **{
            f"engine {spec}": (lambda spec=spec: _ask(spec, open_engine), _ENGINE_SECONDS)  # type: ignore[misc]
            for spec in specs
        },
    }
    told, late = ask_together(questions)
    nvcc, nvcc_problem = told.get("nvcc", (None, ""))
    names, current, contexts_problem = told.get("contexts", ((), "", ""))
    gpus, gpu_problem = told.get("gpus", (None, "nvidia-smi does not answer"))
    no_answer = f"no answer within {_ENGINE_SECONDS:g} s"
    engines = tuple(told.get(f"engine {spec}", EngineReply(spec=spec, problem=no_answer)) for spec in specs)
    local = any(engine.about is not None and engine.about.local and engine.about.isolated for engine in engines)
    return Facts(
        tools={name: told.get(name) for name in TOOLS},
        nvcc=nvcc,
        nvcc_problem=nvcc_problem,
        cuobjdump=told.get("cuobjdump"),
        packages={name: importlib.util.find_spec(name) is not None for name in PACKAGES},
        installed=here(),
        engines=engines,
        contexts=names,
        current=current,
        contexts_problem=contexts_problem,
        buildx=told.get("buildx"),
        podman_socket=_podman_socket(env),
        gpus=gpus,
        gpu_problem=gpu_problem,
        cache=str(cache),
        cache_free=_free(cache),
        engine_free=_free(Path("/var/lib/docker")) if local and Path("/var/lib/docker").is_dir() else None,
        late=late,
    )


def ask_together(
    questions: Mapping[str, tuple[Callable[[], Any], float]],
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Run each question in its own thread. A question is a function and its time limit in seconds.

    Return the answers by name, and the names of the questions that were not answered in time. A late thread is
    abandoned. It ends with this process at the latest. If a question raises an error, this function raises the same
    error.
    """
    answers: dict[str, Any] = {}
    raised: list[BaseException] = []

    def ask(name: str, question: Callable[[], Any]) -> None:
        try:
            answers[name] = question()
        except BaseException as error:
            raised.append(error)

    began = time.monotonic()
    threads = {
        name: threading.Thread(target=ask, args=(name, question), name=f"doctor: {name}", daemon=True)
        for name, (question, _) in questions.items()
    }
    for thread in threads.values():
        thread.start()
    for name, thread in threads.items():
        thread.join(max(0.0, began + questions[name][1] - time.monotonic()))
    if raised:
        raise raised[0]
    given = dict(answers)
    return given, tuple(name for name in questions if name not in given)


def _ask(spec: str, open_engine: Opener) -> EngineReply:
    try:
        engine = open_engine(spec)
        try:
            return EngineReply(spec=spec, about=engine.about())
        finally:
            engine.close()
    except PatchstackError as error:
        if isinstance(error, UsageError) and spec != "docker":
            # A wrong spec is the user's error. For `docker`, Docker's configuration is wrong, and doctor reports it.
            raise
        return EngineReply(spec=spec, problem=error.message, hint=error.hint)


def _nvcc(env: Mapping[str, str], roots: Sequence[Path]) -> tuple[Tool | None, str]:
    try:
        return find_nvcc(env, roots), ""
    except MissingError as error:
        return None, error.message


def _program(args: Sequence[str], env: Mapping[str, str]) -> str | None:
    """Run a program and return its output. Return None if the program does not exist or fails."""
    place = shutil.which(args[0], path=env.get("PATH"))
    if place is None:
        return None
    kept = {name: env[name] for name in ("PATH", "HOME", "DOCKER_CONFIG", "XDG_RUNTIME_DIR") if name in env}
    try:
        finished = run([place, *args[1:]], env=clean_environment(kept), timeout=_PROGRAM_SECONDS)
    except (MissingError, OSError):
        return None
    return finished.stdout.decode("utf-8", "replace").strip() if finished.ok else None


def _buildx(env: Mapping[str, str]) -> str | None:
    """Return the version of buildx, for example `v0.17.1`. Return None if buildx does not exist."""
    said = _program(["docker", "buildx", "version"], env)
    if not said:
        return None
    return next((word for word in said.split() if word.lstrip("v")[:1].isdigit()), said)


def _gpus(env: Mapping[str, str]) -> tuple[tuple[Gpu, ...] | None, str]:
    if shutil.which("nvidia-smi", path=env.get("PATH")) is None:
        return None, ""
    said = _program(["nvidia-smi", _GPU_QUERY, "--format=csv,noheader"], env)
    if said is None:
        return None, "nvidia-smi exists, but fails: is the driver loaded?"
    return read_gpus(said), ""


def read_gpus(said: str) -> tuple[Gpu, ...]:
    """Return the GPUs from the comma-separated lines of nvidia-smi. Lines with a different format are ignored."""
    rows = [[field.strip() for field in line.split(",")] for line in said.splitlines()]
    return tuple(
        Gpu(name=row[0], capability=row[1], driver=row[2], memory=row[3]) for row in rows if len(row) == 4 and row[0]
    )


def _contexts(env: Mapping[str, str]) -> tuple[tuple[str, ...], str, str]:
    """Return the names of Docker's contexts, the URL in use, and the problem with the configuration.

    The URL is the one that `docker` uses, followed by the setting that selects it. The problem is empty if the
    configuration is valid.
    """
    from patchstack.engine.docker.endpoint import contexts, resolve

    config = Path(env.get("DOCKER_CONFIG") or Path(env.get("HOME") or Path.home()) / ".docker")
    try:
        here = resolve("docker", env)
        return contexts(config), f"{here.url} ({here.source})", ""
    except PatchstackError as error:
        return (), "", error.message


def _podman_socket(env: Mapping[str, str]) -> str | None:
    runtime = env.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    return next(
        (str(path) for root in (runtime, "/run") if (path := Path(root, "podman", "podman.sock")).is_socket()), None
    )


def _free(path: Path) -> int | None:
    """Return the number of free bytes on the disk that contains a path.

    The path need not exist. Return None if the number is unknown.
    """
    for place in (path, *path.absolute().parents):
        try:
            return shutil.disk_usage(place).free
        except OSError:
            continue
    return None
