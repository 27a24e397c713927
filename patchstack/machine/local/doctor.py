"""Check that this machine has everything that `verify` and `build` need.

Each check of a missing part explains how to install that part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from patchstack.engine.protocol import About
from patchstack.errors import Exit
from patchstack.installed import command_for
from patchstack.machine.local.facts import EngineReply, Facts
from patchstack.machine.local.toolchain import Tool

GIT = (2, 32)
CMAKE = (3, 18)
"""The oldest CMake version that supports CUDA architectures."""
CUDA_121 = (12, 9)
"""The first CUDA toolkit with a compiler target for sm_121. Source: CUDA Features Archive, 12.9."""
_ROOM = 10 << 30
_CUDA = "https://developer.nvidia.com/cuda-downloads; images for container builds include the toolkit"
_APT = {"git": "git", "c++": "g++", "cmake": "cmake", "ninja": "ninja-build", "ccache": "ccache"}


class State(StrEnum):
    """The state of a requirement.

    OK means that the requirement is met. MISSING and OPTIONAL mean that something is missing or too old. A MISSING part
    is needed by `verify` or `build`. An OPTIONAL part is needed only by extra features.
    """

    OK = "ok"
    MISSING = "missing"
    OPTIONAL = "optional"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The check of one requirement.

    `found` describes what exists on this machine. `use` is the purpose of the requirement. `get` explains how to
    install what is missing, or is None if nothing is missing. `details` contains single values for scripts.
    """

    group: str
    name: str
    state: State
    found: str
    use: str
    get: str | None = None
    details: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """The results of all checks.

    `verify` is whether `patchstack verify` can run. `builds` lists the specs of the engines that can build.
    """

    checks: tuple[Check, ...]
    verify: bool
    builds: tuple[str, ...]

    @property
    def exit_code(self) -> Exit:
        return Exit.HOLDS if self.verify and self.builds else Exit.MISSING


def checkup_of(facts: Facts) -> Checkup:
    """Check the facts about a machine. The function is pure."""
    git = facts.tools.get("git")
    proofs = all(facts.packages.get(name, False) for name in ("in_toto_attestation", "elftools"))
    able = tuple(engine.spec for engine in facts.engines if _can_build(engine, facts))
    return Checkup(
        checks=(
            _git(git, facts),
            _room(facts),
            *_engines(facts, able),
            *_packages(facts, proofs),
            *_tools(facts, able),
            _nvcc(facts),
            _cuobjdump(facts.cuobjdump, facts),
            *_gpus(facts),
        ),
        verify=git is not None and git.at_least(*GIT),
        builds=able if proofs else (),
    )


def _can_build(engine: EngineReply, facts: Facts) -> bool:
    if engine.about is None:
        return False
    return engine.about.isolated or all(_usable(name, facts.tools.get(name)) for name in ("c++", "cmake", "ninja"))


def _usable(name: str, tool: Tool | None) -> bool:
    return tool is not None and (name != "cmake" or tool.at_least(*CMAKE))


def _git(git: Tool | None, facts: Facts) -> Check:
    use = "all commands, to read repositories and decide which patches apply"
    if git is not None and git.at_least(*GIT):
        return Check(group="verify", name="git", state=State.OK, found=_told(git), use=use, details=_details(git))
    found = f"{_told(git)}; 2.32 or newer is needed" if git else _absent("git", facts)
    return Check(group="verify", name="git", state=State.MISSING, found=found, use=use, get="apt install git")


def _room(facts: Facts) -> Check:
    free = facts.cache_free
    enough = free is not None and free >= _ROOM
    return Check(
        group="verify",
        name="cache",
        state=State.OK if enough else State.OPTIONAL,
        found=f"{_size(free)} free at {facts.cache}" if free is not None else f"{facts.cache}: free space unknown",
        use="fetched repositories, and the builds of the host",
        get=None if enough else "10 GiB are usually enough; set PATCHSTACK_CACHE to use a different disk",
        details={"path": facts.cache, **({"free": free} if free is not None else {})},
    )


def _engines(facts: Facts, able: tuple[str, ...]) -> Iterator[Check]:
    for engine in facts.engines:
        yield _engine(engine, facts, able)
    named = bool(facts.contexts)
    yield Check(
        group="engines",
        name="docker contexts",
        state=State.OK if named else State.OPTIONAL,
        found=f"{', '.join(facts.contexts)}; docker uses {facts.current}" if named else facts.contexts_problem,
        use="other engines: --engine docker:CONTEXT",
        get=None if named else "run 'docker context ls', and correct Docker's configuration",
    )
    yield Check(
        group="engines",
        name="buildx",
        state=State.OK if facts.buildx else State.OPTIONAL,
        found=facts.buildx or _absent("buildx", facts),
        use="images for other platforms (without buildx, the engine's own builder is used)",
        get=None if facts.buildx else "apt install docker-buildx (docker-buildx-plugin in Docker's own packages)",
    )
    yield Check(
        group="engines",
        name="podman",
        state=State.OK if facts.podman_socket else State.OPTIONAL,
        found=facts.podman_socket or "no socket",
        use="builds without Docker: --engine unix://SOCKET",
        get=None if facts.podman_socket else "systemctl --user enable --now podman.socket",
    )


def _engine(engine: EngineReply, facts: Facts, able: tuple[str, ...]) -> Check:
    use = "builds, in a sandbox" if engine.spec != "host" else "builds on this machine, without a sandbox"
    about = engine.about
    if about is None:
        return Check(
            group="engines",
            name=engine.spec,
            state=State.OPTIONAL if able else State.MISSING,
            found=engine.problem,
            use=use,
            get=engine.hint or "apt install docker.io, or name another engine with --engine",
        )
    if engine.spec not in able:
        lacking = [name for name in ("c++", "cmake", "ninja") if not _usable(name, facts.tools.get(name))]
        return Check(
            group="engines",
            name=engine.spec,
            state=State.OPTIONAL if able else State.MISSING,
            found=f"{_about(about)}; {', '.join(lacking)} missing or too old",
            use=use,
            get="apt install " + " ".join(_APT[name] for name in lacking),
            details=_about_details(about, None),
        )
    free = facts.engine_free if about.local and about.isolated else None
    room = f", {_size(free)} free" if free is not None else ""
    return Check(
        group="engines",
        name=engine.spec,
        state=State.OK,
        found=_about(about) + room,
        use=use,
        details=_about_details(about, free),
    )


def _packages(facts: Facts, proofs: bool) -> Iterator[Check]:
    docker = facts.packages.get("docker", False)
    yield Check(
        group="packages",
        name="patchstack[docker]",
        state=State.OK if docker else State.OPTIONAL,
        found="installed" if docker else "not installed",
        use="builds in containers",
        get=None if docker else command_for(facts.installed, ("docker",)),
    )
    yield Check(
        group="packages",
        name="patchstack[build]",
        state=State.OK if proofs else State.MISSING,
        found="installed" if proofs else "not installed",
        use="proofs and provenance of every build",
        get=None if proofs else command_for(facts.installed, ("build",)),
    )


def _tools(facts: Facts, able: tuple[str, ...]) -> Iterator[Check]:
    container = any(engine.about is not None and engine.about.isolated for engine in facts.engines)
    absent = State.OPTIONAL if container and able else State.MISSING
    for name, use in (
        ("c++", "builds on this machine (--engine host)"),
        ("cmake", "builds on this machine (--engine host)"),
        ("ninja", "builds on this machine (--engine host)"),
        ("ccache", "faster repeated builds on this machine"),
    ):
        tool = facts.tools.get(name)
        if tool is not None and _usable(name, tool):
            yield Check(group="host", name=name, state=State.OK, found=_told(tool), use=use, details=_details(tool))
            continue
        yield Check(
            group="host",
            name=name,
            state=State.OPTIONAL if name == "ccache" else absent,
            found=f"{_told(tool)}; 3.18 or newer is needed" if tool else _absent(name, facts),
            use=use,
            get=f"apt install {_APT[name]}",
        )


def _nvcc(facts: Facts) -> Check:
    use = "CUDA builds on this machine (--engine host, or --toolkit)"
    tool = facts.nvcc
    if tool is None:
        found = facts.nvcc_problem or _absent("nvcc", facts)
        get = "unset CUDACXX, or set it to a toolkit's bin/nvcc" if facts.nvcc_problem else _CUDA
        return Check(group="host", name="nvcc", state=State.OPTIONAL, found=found, use=use, get=get)
    if not tool.at_least(*CUDA_121):
        found = f"{_told(tool)}; too old for sm_121, which needs CUDA 12.9"
        return Check(
            group="host", name="nvcc", state=State.OPTIONAL, found=found, use=use, get=_CUDA, details=_details(tool)
        )
    found = f"{_told(tool)}; supports sm_121"
    return Check(group="host", name="nvcc", state=State.OK, found=found, use=use, details=_details(tool))


def _cuobjdump(tool: Tool | None, facts: Facts) -> Check:
    return Check(
        group="host",
        name="cuobjdump",
        state=State.OK if tool else State.OPTIONAL,
        found=_told(tool) if tool else _absent("cuobjdump", facts),
        use="proofs of the GPUs that CUDA binaries support",
        get=None if tool else command_for(facts.installed, ("cuda",)),
        details=_details(tool) if tool else {},
    )


def _gpus(facts: Facts) -> Iterator[Check]:
    use = "running CUDA builds here"
    if not facts.gpus:
        found = facts.gpu_problem or (
            "nvidia-smi lists no GPUs" if facts.gpus is not None else "nvidia-smi was not found"
        )
        get = "if this machine has a GPU, install NVIDIA's driver: https://www.nvidia.com/drivers"
        yield Check(group="gpu", name="gpu", state=State.OPTIONAL, found=found, use=use, get=get)
        return
    for number, gpu in enumerate(facts.gpus):
        yield Check(
            group="gpu",
            name=f"gpu {number}",
            state=State.OK,
            found=f"{gpu.name}, compute capability {gpu.capability}, driver {gpu.driver}, {gpu.memory}",
            use=use,
            details={"name": gpu.name, "capability": gpu.capability, "driver": gpu.driver, "memory": gpu.memory},
        )


def _absent(name: str, facts: Facts) -> str:
    """Return the reason why a tool is missing.

    The tool was not found, or it did not answer in time (for example, because a daemon hangs).
    """
    return "no answer in time" if name in facts.late else "not found"


def _told(tool: Tool) -> str:
    by = "" if tool.found_by == "PATH" or str(tool.path).startswith(tool.found_by) else f", by {tool.found_by}"
    return f"{tool.version or 'of an unknown version'} ({tool.path}{by})"


def _details(tool: Tool) -> dict[str, str | int]:
    return {"path": str(tool.path), "version": tool.version, "found_by": tool.found_by}


def _about(about: About) -> str:
    kind = "" if about.kind == "host" else f"{about.kind} "
    cpus = "1 CPU" if about.cpus == 1 else f"{about.cpus} CPUs"
    return f"{kind}{about.version} at {about.endpoint}: {about.platform}, {cpus}, {_size(about.memory)}"


def _about_details(about: About, free: int | None) -> dict[str, str | int]:
    told: dict[str, str | int] = {
        "kind": about.kind,
        "endpoint": about.endpoint,
        "version": about.version,
        "platform": about.platform,
        "cpus": about.cpus,
        "memory": about.memory,
    }
    return told if free is None else {**told, "free": free}


def _size(count: int | None) -> str:
    return "an unknown size" if count is None else f"{count / (1 << 30):.1f} GiB"
