"""Use a Docker engine on this or another machine.

A job runs in a sandboxed container. A volume is a Docker volume.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import docker.errors

from patchstack.causes import EngineRefused, GpuNotGiven, JobRefused, ProgramMissing
from patchstack.engine.docker import containers, images, sandbox
from patchstack.engine.docker.connection import Connection
from patchstack.engine.docker.endpoint import Endpoint
from patchstack.engine.docker.owner import VOLUME_LABEL, own_label
from patchstack.engine.docker.running import ContainerJob, running
from patchstack.engine.protocol import (
    About,
    Image,
    ImageMissing,
    Job,
    Outcome,
    Output,
    PlatformUnsupported,
    Running,
    Volume,
    checked_volume,
)

_BLOCK = 1 << 20


class ContainerEngine:
    """An engine at an endpoint: Docker, or podman with its Docker socket.

    It connects at its first use. Then it removes the containers of ended processes of this machine.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._connection: Connection | None = None
        self._about: About | None = None

    # The engine and its images

    def about(self) -> About:
        connection = self._connected()
        with connection.faults.translated("describe itself"):
            version, info = connection.api.version(), connection.api.info()
        parts = " ".join(str(part.get("Name")) for part in version.get("Components") or ()).lower()
        self._about = About(
            spec=self.endpoint.spec,
            kind="podman" if "podman" in parts else "docker",
            endpoint=self.endpoint.url,
            version=str(version.get("Version", "")),
            platform=f"{version.get('Os', 'linux')}/{version.get('Arch', '')}",
            cpus=int(info.get("NCPU") or 1),
            memory=int(info.get("MemTotal") or 0),
            local=self.endpoint.socket is not None and info.get("Name") == os.uname().nodename,
            isolated=True,
        )
        return self._about

    def image(self, reference: str, *, platform: str) -> Image | None:
        found = self._image(reference)
        if not _matches(found.platform, platform):
            raise PlatformUnsupported(
                f"the image {reference} at {self.endpoint.url} is for {found.platform}, not for {platform}",
                hint=f"run '{self._docker()} pull --platform {platform} {reference}', or build it for {platform}",
            )
        return found

    def _image(self, reference: str) -> Image:
        connection = self._connected()
        with connection.faults.translated(f"inspect the image {reference}"):
            try:
                found = connection.api.inspect_image(reference)
            except docker.errors.NotFound as error:
                raise ImageMissing(
                    f"the engine at {self.endpoint.url} has no image {reference}",
                    hint=f"run '{self._docker()} pull {reference}', or build it there",
                ) from error
        return _image(reference, found)

    # Volumes

    def place(self, volume: Volume) -> str:
        return volume.target

    def volumes(self) -> tuple[str, ...]:
        connection = self._connected()
        with connection.faults.translated("list its volumes"):
            found = connection.api.volumes(filters={"label": VOLUME_LABEL})
        return tuple(sorted(volume["Name"] for volume in found["Volumes"] or ()))

    def remove(self, volume: str) -> None:
        """See the protocol. Raises `UsageError` if the volume is in use, or if patchstack did not create it."""
        connection = self._connected()
        with connection.faults.translated(f"remove the volume {volume}"):
            try:
                found = connection.api.inspect_volume(checked_volume(volume))
                if VOLUME_LABEL not in (found.get("Labels") or {}):
                    raise JobRefused(
                        f"cannot remove the volume {volume} at {self.endpoint.url}: patchstack did not create it",
                        hint=f"run '{self._docker()} volume rm {volume}' to remove it",
                    )
                connection.api.remove_volume(volume)
            except docker.errors.NotFound:
                return

    def put(self, volume: str, archive: Iterable[bytes], *, image: str | None = None) -> None:
        given = _Given(archive)
        doing = f"write files into the volume {volume}"
        connection = self._connected()
        self._make(volume, image, doing)
        with containers.carrier(connection, self._needed(image, doing), volume, doing) as carrying:
            try:
                with connection.faults.translated(doing):
                    containers.give_to_owner(connection.api, carrying)
                    connection.api.put_archive(carrying, containers.MOUNTED, given)
            finally:
                if given.error is not None:
                    raise given.error

    def get(self, volume: str, path: str, *, image: str | None = None) -> Iterator[bytes]:
        if path.startswith("/") or ".." in path.split("/"):
            raise JobRefused(f"{path!r} is not a path below a volume")
        stream = self._get(volume, path, image)
        return chain([next(stream, b"")], stream)  # a missing path must raise at the call, not at the first read

    def _get(self, volume: str, path: str, image: str | None) -> Iterator[bytes]:
        doing = f"read {path} from the volume {volume}"
        connection = self._connected()
        with connection.faults.translated(doing):
            try:
                connection.api.inspect_volume(checked_volume(volume))
            except docker.errors.NotFound as error:
                raise EngineRefused(f"cannot {doing}: the volume does not exist at {self.endpoint.url}") from error
        needed = self._needed(image, doing)
        with containers.carrier(connection, needed, volume, doing) as carrying, contextlib.ExitStack() as held:
            with connection.faults.translated(doing):
                sent = containers.archive(connection.api, carrying, f"{containers.MOUNTED}/{path}", _BLOCK)
                try:
                    blocks = held.enter_context(sent)
                except docker.errors.NotFound as error:
                    raise EngineRefused(f"{path} does not exist in the volume {volume}") from error
            while True:
                with connection.faults.translated(doing):
                    block = next(blocks, None)
                if block is None:
                    return
                yield block

    def _make(self, volume: str, image: str | None, doing: str) -> None:
        """Create a volume that belongs to the user of jobs. Do nothing if the volume exists."""
        connection = self._connected()
        with connection.faults.translated(doing):
            try:
                connection.api.inspect_volume(checked_volume(volume))
            except docker.errors.NotFound:
                connection.api.create_volume(volume, labels={VOLUME_LABEL: "1"})
            else:
                return
        with (
            containers.carrier(connection, self._needed(image, doing), volume, doing) as carrying,
            connection.faults.translated(doing),
        ):
            containers.give_to_owner(connection.api, carrying)

    def _needed(self, image: str | None, doing: str) -> str:
        if image is None:
            raise JobRefused(f"a container engine cannot {doing} without an image")
        return self._image(image).digest

    # Jobs

    def run(self, job: Job, output: Output) -> Outcome:
        """See the protocol.

        Raises `MissingError` if the image lacks the program, or if the engine's machine lacks one of the job's paths.
        """
        body, nonce = self._body(job)
        return containers.run(self._connected(), job, body, nonce, output)

    @contextlib.contextmanager
    def start(self, job: Job, output: Output, *, beside: Running | None = None) -> Iterator[Running]:
        """See the protocol. The job's output is delivered only while the caller waits for the job."""
        if beside is not None and not isinstance(beside, ContainerJob):
            raise JobRefused(f"{job.what} cannot run next to a job of a different engine")
        body, nonce = self._body(job, beside=beside.name if beside is not None else None)
        with running(self._connected(), job, body, nonce, output) as one:
            yield one

    def _body(self, job: Job, *, beside: str | None = None) -> tuple[dict[str, Any], str]:
        """Create the volumes of a job. Return the request body for its container, and the nonce of its trailer."""
        around = self._surroundings(job)
        self._connected()
        for volume in job.volumes:
            self._make(volume.name, job.image, f"create the volume {volume.name}")
        nonce = secrets.token_hex(8)
        return sandbox.container(job, around, nonce=nonce, owner=own_label(), beside=beside), nonce

    def shell(self, job: Job) -> tuple[str, ...]:
        if shutil.which("docker") is None:
            raise ProgramMissing(
                "a shell needs the docker program, which is not installed", hint="run 'apt-get install docker-cli'"
            )
        return ("docker", *self.endpoint.docker_arguments(), *sandbox.shell_arguments(job, self._surroundings(job)))

    def _surroundings(self, job: Job) -> sandbox.Surroundings:
        """Check a job, and collect the facts that its sandbox needs."""
        sandbox.check(job, self.endpoint.socket)
        if job.image is None:
            raise JobRefused(f"the job {job.what!r} has no image, but a container engine needs one")
        about = self._about or self.about()
        if job.gpus and about.kind == "podman":
            raise GpuNotGiven(
                f"{job.what} needs a GPU, and podman's Docker socket cannot give a GPU to a container",
                hint="use a Docker engine with the nvidia-container-toolkit, or --engine host",
            )
        if about.local:
            for path in job.paths:
                if not Path(path.source).exists():
                    raise GpuNotGiven(f"{job.what} cannot start: {path.source} does not exist on the engine's machine")
            followed = tuple(replace(path, source=os.path.realpath(path.source)) for path in job.paths)
            sandbox.check(replace(job, paths=followed), self.endpoint.socket)
        image = self.image(job.image, platform=job.platform) if job.platform else self._image(job.image)
        assert image is not None
        connection = self._connected()
        with connection.faults.translated(f"inspect the image {job.image}"):
            config = connection.api.inspect_image(image.digest).get("Config") or {}
        names = {text.partition("=")[0] for text in config.get("Env") or ()}
        return sandbox.Surroundings(image=image.digest, image_env=dict.fromkeys(names, ""), cpus=about.cpus)

    # Image builds

    def build_image(
        self,
        directory: Path,
        *,
        tag: str,
        platform: str,
        args: Mapping[str, str],
        output: Output,
        network: str | None = None,
    ) -> Image:
        """Build the image of a directory's Dockerfile on the engine and tag it.

        The image is built with buildx if buildx is installed, and otherwise with the engine's own builder.

        `args` are the build arguments. `network` is the network that the steps use (`host`, `none`). The label
        `patchstack.base` of the image is the name of its base image. The label `patchstack.base.digest` is the digest
        of the base image, if a registry knows the digest. Raises `ImageMissing` if the base is not available. Raises
        `PatchstackError` with the step and its last lines if a step fails.
        """
        plan = images.Plan(
            directory=directory, tag=tag, platform=platform, args=dict(args), network=network, endpoint=self.endpoint
        )
        about = self._about or self.about()
        images.build(self._connected(), plan, about, output)
        image = self.image(tag, platform=platform)
        assert image is not None
        return image

    # The connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> Connection:
        if self._connection is None:
            connection = Connection(self.endpoint)
            with connection.faults.translated("list its containers"):
                containers.sweep(connection.api)
            self._connection = connection
        return self._connection

    def _docker(self) -> str:
        return " ".join(("docker", *self.endpoint.docker_arguments()))


class _Given:
    """The caller's stream. An error of this stream is stored in `error`.

    This way, the error is not reported as an engine error.
    """

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            for block in self._blocks:
                if block:  # an empty block would end the request
                    yield block
        except GeneratorExit:
            raise
        except BaseException as error:
            self.error = error
            raise


def _image(reference: str, found: dict[str, Any]) -> Image:
    platform = "/".join(part for part in (found.get("Os"), found.get("Architecture"), found.get("Variant")) if part)
    return Image(
        reference=reference,
        digest=str(found["Id"]),
        platform=platform,
        labels=dict((found.get("Config") or {}).get("Labels") or {}),
        size=int(found.get("Size") or 0),
    )


def _matches(found: str, wanted: str) -> bool:
    """Return whether an image for the platform `found` can be used for `wanted`.

    Variants are compared only if both platforms have one.
    """
    return all(one == other for one, other in zip(found.split("/"), wanted.split("/"), strict=False))
