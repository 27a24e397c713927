"""Open an engine by the name that a user gives."""

from __future__ import annotations

from pathlib import Path

from patchstack.causes import PackageMissing
from patchstack.engine.docker.endpoint import ON_THE_HOST, resolve
from patchstack.engine.host.engine import HostEngine
from patchstack.engine.protocol import Engine
from patchstack.installed import install_hint


def open_engine(spec: str, *, root: Path) -> Engine:
    """Return the engine that `spec` names. No connection is made yet.

    `spec` is `host`, `docker`, `docker:CONTEXT`, `ssh://USER@HOST[:PORT]`, `unix:///PATH` or `tcp://HOST:PORT`. `root`
    is the directory for the volumes of the host engine. Raises `UsageError` for any other spec and for an unknown
    docker context, `ConfigError` if docker's configuration cannot be read, and `MissingError` if the docker package is
    not installed.
    """
    if spec == "host":
        return HostEngine(root)
    endpoint = resolve(spec)
    try:
        from patchstack.engine.docker.engine import ContainerEngine
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("docker", "requests", "urllib3"):
            raise
        raise PackageMissing(
            f"the engine {spec} needs the docker package, which is not installed",
            hint=f"{install_hint('docker')}; or {ON_THE_HOST}",
        ) from error
    return ContainerEngine(endpoint)
