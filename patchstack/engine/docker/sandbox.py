"""Define the sandbox of a job: a container with no more rights than the job needs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchstack.causes import JobRefused
from patchstack.engine.archive import OWNER
from patchstack.engine.docker.owner import JOB_LABEL, OWNER_LABEL
from patchstack.engine.lifeline import CONTAINER
from patchstack.engine.protocol import EnginePath, Job, checked_volume

HOME = "/tmp"  # noqa: S108  (the container's own)
# noexec is possible because programs write only data to /tmp: compilers, cmake and ccache run nothing from there.
_TMP = "rw,noexec,nosuid,nodev,mode=1777"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DROPPED = ("HOSTNAME", "PWD", "OLDPWD", "SHLVL", "container")
# _KEPT_FROM lists paths of the engine's machine. A container must never see these paths, nor any path below or above
# them. The only exceptions are paths below those in _OPEN.
_OPEN = ("/run/media", "/dev/shm")  # noqa: S108  (where people mount disks, and keep models in memory)
_KEPT_FROM = ("/proc", "/sys", "/dev", "/etc", "/run", "/var/run", "/boot", "/var/lib/docker", "/var/lib/containers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The facts that the sandbox needs.

    `image` is the id of the image. The keys of `image_env` are the names of the image's environment variables. `cpus`
    is the number of the engine's CPUs. `socket` is the path of the engine's socket, or None if it is unknown.
    """

    image: str
    image_env: Mapping[str, str]
    cpus: int
    socket: str | None = None


def check(job: Job, socket: str | None = None) -> None:
    """Raise `UsageError` with all problems if a job cannot run or must not run. `socket` is the engine's socket."""
    problems = []
    if not job.argv:
        problems.append("it has no command")
    if any("\0" in text for text in (*job.argv, *job.env.values(), job.workdir or "")):
        problems.append("its command or environment contains a NUL byte")
    problems += [f"{name!r} is not a variable name" for name in job.env if not _VARIABLE.fullmatch(name)]
    targets = [volume.target for volume in job.volumes] + [path.target for path in job.paths]
    if job.workdir is not None and not job.workdir.startswith("/"):
        problems.append(f"the working directory is not absolute: {job.workdir}")
    for target in targets:
        if not target.startswith("/") or posixpath.normpath(target) != target or target in ("/", HOME):
            problems.append(f"{target!r} cannot be a mount point")
        if targets.count(target) > 1:
            problems.append(f"more than one volume or path is mounted at {target}")
    problems += [why for path in job.paths if (why := _forbidden(path, socket))]
    for volume in job.volumes:
        checked_volume(volume.name)
    if problems:
        raise JobRefused(f"the job {job.what!r} cannot be run", problems=dict.fromkeys(problems))


def _forbidden(path: EnginePath, socket: str | None) -> str | None:
    source = posixpath.normpath(path.source)
    if not path.source.startswith("/") or ".." in path.source.split("/"):
        return f"a path on the engine's machine must be absolute, without '..': {path.source}"
    if source.endswith(".sock") or source == socket:
        return f"a job must not reach the engine itself: {path.source}"
    if any(source.startswith(f"{place}/") for place in _OPEN):
        return None
    for kept in (*_KEPT_FROM, *([socket] if socket else [])):
        if _within(source, kept) or _within(kept, source):
            return f"a job must not see {path.source} of the engine's machine"
    return None


def _within(path: str, parent: str) -> bool:
    return path == parent or path.startswith(parent.rstrip("/") + "/") or parent in ("/", "//")


def container(job: Job, around: Surroundings, *, nonce: str, owner: str, beside: str | None = None) -> dict[str, Any]:
    """Return the body of the Docker Engine API's `POST /containers/create` for a job with a lifeline.

    `beside` is the name of a running container. The job shares only the loopback interface of that container.
    """
    limits = job.limits
    host: dict[str, Any] = {
        "AutoRemove": True,
        "NetworkMode": "none",
        "IpcMode": "private" if job.gpus else "none",  # jobs on several GPUs need the writable /dev/shm
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "ReadonlyRootfs": True,
        "Privileged": False,
        "Tmpfs": {HOME: f"{_TMP},size={limits.tmp}"},
        "Mounts": _mounts(job),
        "LogConfig": {"Type": "none", "Config": {}},  # no log is needed, because the output is streamed
        "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
    }
    if limits.memory is not None:
        host |= {"Memory": limits.memory, "MemorySwap": limits.memory}
    if limits.cpus is not None:
        host["NanoCpus"] = int(min(limits.cpus, around.cpus) * 1e9)
    if limits.pids is not None:
        host["PidsLimit"] = limits.pids
    if job.gpus:
        host["DeviceRequests"] = [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}]
    dropped = " ".join(_dropped(job, around))
    # The engine refuses these settings for a container that shares the network of another container.
    network: dict[str, Any] = {"Hostname": "patchstack", "NetworkDisabled": True}
    if beside is not None:
        host["NetworkMode"], network = f"container:{beside}", {}
    return {
        "Image": around.image,
        "Entrypoint": ["/bin/sh", "-c", CONTAINER, "patchstack"],
        "Cmd": [nonce, job.workdir or HOME, dropped, *job.argv],
        "Env": [f"{name}={value}" for name, value in ({"HOME": HOME} | dict(job.env)).items()],
        "User": f"{OWNER}:{OWNER}",
        "WorkingDir": "/",  # the engine would create a missing directory, as root
        **network,
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": {JOB_LABEL: job.what, OWNER_LABEL: owner},
        "Tty": False,
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "HostConfig": host,
    }


def _mounts(job: Job) -> list[dict[str, Any]]:
    """Return the mounts for volumes and paths.

    `Binds` is not used: with `Binds`, the engine would create a missing path, and could mistake the name of a volume
    for a path.
    """
    volumes = [
        {
            "Type": "volume",
            "Source": volume.name,
            "Target": volume.target,
            "ReadOnly": volume.read_only,
            "VolumeOptions": {"NoCopy": True},
        }
        for volume in job.volumes
    ]
    paths = [{"Type": "bind", "Source": path.source, "Target": path.target, "ReadOnly": True} for path in job.paths]
    return [*volumes, *paths]


def _dropped(job: Job, around: Surroundings) -> list[str]:
    """Return the names of the variables that the image or the engine sets but the job does not request."""
    own = {"PATH", "HOME", *job.env}
    return [name for name in (*around.image_env, *_DROPPED) if name not in own and _VARIABLE.fullmatch(name)]


def shell_arguments(job: Job, around: Surroundings) -> tuple[str, ...]:
    """Return the arguments of `docker` for an interactive shell in the sandbox of a job.

    The container has no lifeline, because the user ends it.
    """
    body = container(job, around, nonce="", owner="")
    host = body["HostConfig"]
    options = ["run", "--rm", "--interactive", "--tty", "--hostname", body["Hostname"], "--user", body["User"]]
    options += ["--network", "none", "--ipc", host["IpcMode"], "--read-only", "--no-healthcheck"]
    options += [
        "--cap-drop",
        "ALL",
        "--security-opt",
        "no-new-privileges",
        "--ulimit",
        "core=0",
        "--log-driver",
        "none",
    ]
    options += [part for path, how in host["Tmpfs"].items() for part in ("--tmpfs", f"{path}:{how}")]
    for mount in host["Mounts"]:
        fields = [f"type={mount['Type']}", f"source={mount['Source']}", f"target={mount['Target']}"]
        fields += ["readonly"] if mount["ReadOnly"] else []
        fields += ["volume-nocopy"] if mount["Type"] == "volume" else []
        options += ["--mount", ",".join(fields)]
    if "Memory" in host:
        options += ["--memory", str(host["Memory"]), "--memory-swap", str(host["MemorySwap"])]
    if "NanoCpus" in host:
        options += ["--cpus", f"{host['NanoCpus'] / 1e9:g}"]
    if "PidsLimit" in host:
        options += ["--pids-limit", str(host["PidsLimit"])]
    options += ["--gpus", "all"] if job.gpus else []
    options += [part for text in body["Env"] for part in ("--env", text)]
    options += ["--label", f"{JOB_LABEL}=shell", "--workdir", "/", "--entrypoint", "/bin/sh"]
    script = f'unset {" ".join(_dropped(job, around))}; cd "$0"; exec "$(command -v bash || command -v sh)"'
    return (*options, around.image, "-c", script, job.workdir or HOME)
