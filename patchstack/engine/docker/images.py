"""Build images with buildx if it is installed, and otherwise with the engine's own builder."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker.errors

from patchstack.causes import ImageNotBuilt
from patchstack.engine.docker.connection import Connection
from patchstack.engine.docker.endpoint import Endpoint
from patchstack.engine.docker.faults import NO_SPACE, base_unavailable, refusal
from patchstack.engine.protocol import About, ImageMissing, Output
from patchstack.errors import PatchstackError
from patchstack.process import PIPE, clean_environment, run, start

_INSTRUCTION = re.compile(r"^\s*(ARG|FROM)\s+(.+)$", re.IGNORECASE)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:(:[-+])([^}]*))?\})")


def base_image(text: str, args: Mapping[str, str]) -> str | None:
    """Return the name of the base image of a Dockerfile. Return None for `scratch` or a file without FROM.

    The base image is the base of the last stage. If a stage is based on another stage, the base of that stage is used.
    `args` are the build arguments. FROM may use arguments that are declared before the first FROM (Dockerfile
    reference, "Understand how ARG and FROM interact").
    """
    values: dict[str, str] = {}
    stages: dict[str, str] = {}
    last = ""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if (found := _INSTRUCTION.match(line)) is None:
            continue
        if found[1].upper() == "ARG":
            name, _, default = found[2].strip().partition("=")
            if not last:
                values[name] = args.get(name, default.strip("\"'"))
            continue
        words = [word for word in found[2].split() if not word.startswith("--")]
        named = _VARIABLE.sub(lambda variable: _value(variable, values), words[0]) if words else ""
        last = stages.get(named.lower(), named)
        if len(words) == 3 and words[1].upper() == "AS":
            stages[words[2].lower()] = last
    return None if last in ("", "scratch") else last


def _value(variable: re.Match[str], values: Mapping[str, str]) -> str:
    value = values.get(variable[1] or variable[2], "")
    if variable[3] == ":-":
        return value or variable[4]
    if variable[3] == ":+":
        return variable[4] if value else ""
    return value


BASE_LABEL = "patchstack.base"
BASE_DIGEST_LABEL = "patchstack.base.digest"
_SHOWN = 12  # how many lines of a failed step an error shows
_RAWJSON_SINCE = (0, 13)  # the first buildx version with --progress=rawjson
_COLOUR = re.compile(r"\x1b\[\d*m")
_DOCKER_VARIABLES = ("DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "BUILDX_CONFIG", "XDG_RUNTIME_DIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The parameters of an image build. `ContainerEngine.build_image` describes them."""

    directory: Path
    tag: str
    platform: str
    args: Mapping[str, str]
    network: str | None
    endpoint: Endpoint


@dataclass(slots=True, kw_only=True)
class Progress:
    """The progress of a build.

    `lines` contains the last lines of the current step. `error` is the reason why the build failed, or an empty string.
    """

    step: str = ""
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_SHOWN))
    error: str = ""

    def begin(self, step: str) -> bytes:
        self.step = step
        self.lines.clear()
        return f"{step}\n".encode()

    def text(self, data: bytes) -> bytes:
        self.lines.extend(line for line in data.decode("utf-8", "replace").splitlines() if line.strip())
        return data


def build(connection: Connection, plan: Plan, about: About, output: Output) -> None:
    """Build an image on the engine, tag it, and label it with its base image.

    Raises the errors of `ContainerEngine.build_image`.
    """
    recipe = plan.directory / "Dockerfile"
    try:
        text = recipe.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ImageNotBuilt(f"cannot read the Dockerfile for {plan.tag}: {recipe}: {error}") from error
    base = base_image(text, plan.args)
    labels = _labels(connection, base)
    progress = Progress()
    if about.kind == "docker" and (docker_program := _buildx()):
        _with_buildx(docker_program, plan, labels, progress, output)
    else:
        _with_the_engine(connection, plan, about, labels, progress, output)
    if progress.error:
        raise failure(plan.tag, base, progress)


def _labels(connection: Connection, base: str | None) -> dict[str, str]:
    """Return the labels with the base image's name and digest. The digest is omitted if it is unknown."""
    if base is None:
        return {}
    labels = {BASE_LABEL: base}
    api = connection.api
    with connection.faults.translated(f"inspect the base image {base}"):
        if "@" in base:
            labels[BASE_DIGEST_LABEL] = base.partition("@")[2]
            return labels
        try:
            digests = api.inspect_image(base).get("RepoDigests") or ()
        except docker.errors.NotFound:
            with contextlib.suppress(docker.errors.APIError):  # the build that follows reports registry errors
                digests = (f"@{api.inspect_distribution(base)['Descriptor']['digest']}",)
                labels[BASE_DIGEST_LABEL] = digests[0].partition("@")[2]
            return labels
    if digests:
        labels[BASE_DIGEST_LABEL] = str(digests[0]).partition("@")[2]
    return labels


def failure(tag: str, base: str | None, progress: Progress) -> PatchstackError:
    """Return the error for an image that could not be built, from the builder's messages in `progress`."""
    words = progress.error.strip()
    if any(sign in words.lower() for sign in NO_SPACE):
        return refusal(500, words, f"build the image {tag}")
    why = base_unavailable(words)
    if why is not None:
        return ImageMissing(
            f"the image {tag} cannot be built: its base {base} is not on the engine, and {why}: {words}",
            hint=f"connect the engine to the network, or load the base on it: run 'docker save {base} | docker load'",
        )
    at = f" at {progress.step}" if progress.step else ""
    return ImageNotBuilt(f"the build of the image {tag} failed{at}: {words}", problems=progress.lines)


def _with_the_engine(
    connection: Connection, plan: Plan, about: About, labels: dict[str, str], progress: Progress, output: Output
) -> None:
    """Build the image with the engine's own builder, through the SDK. A failure is stored in `progress`."""
    with connection.faults.translated(f"build the image {plan.tag}"):
        stream = connection.api.build(
            path=str(plan.directory),
            tag=plan.tag,
            buildargs=dict(plan.args),
            labels=labels,
            network_mode=plan.network,
            platform=plan.platform if plan.platform != about.platform else None,
            rm=True,
            forcerm=True,
            decode=True,
            timeout=None,
        )
    events = iter(stream)
    while True:
        with connection.faults.translated(f"build the image {plan.tag}"):
            event = next(events, None)
        if event is None:
            return
        if shown := engine_event(event, progress):
            output(shown)


def engine_event(event: dict[str, Any], progress: Progress) -> bytes:
    """Store one message of the engine's builder in `progress`. Return the text to show."""
    if "error" in event:
        progress.error = str(event["error"])
        return b""
    text = _COLOUR.sub("", str(event.get("stream") or ""))
    if text.startswith("Step "):
        return progress.begin(text.strip())
    if text.startswith((" ---> ", "Removing intermediate container")) or not text.strip():
        return b""
    return progress.text(text.encode())


def _buildx() -> str | None:
    """Return the path of the docker program if its buildx supports `--progress=rawjson`. Otherwise return None."""
    if (program := shutil.which("docker")) is None:
        return None
    told = run([program, "buildx", "version"], env=_environment(), timeout=30)
    found = re.search(rb"\b(\d+)\.(\d+)", told.stdout)
    return program if told.ok and found and (int(found[1]), int(found[2])) >= _RAWJSON_SINCE else None


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _DOCKER_VARIABLES if name in os.environ}
    return clean_environment(kept, network=True)


def _with_buildx(program: str, plan: Plan, labels: dict[str, str], progress: Progress, output: Output) -> None:
    with tempfile.TemporaryDirectory(prefix="patchstack-") as scratch:
        args = [program, *plan.endpoint.docker_arguments(), "buildx", "build", "--progress=rawjson", "--load"]
        args += ["--metadata-file", f"{scratch}/metadata.json", "--platform", plan.platform, "--tag", plan.tag]
        args += [f"--build-arg={name}={value}" for name, value in plan.args.items()]
        args += [f"--label={name}={value}" for name, value in labels.items()]
        args += [f"--network={plan.network}"] if plan.network else []
        seen: dict[str, str] = {}
        said = ""
        child = start([*args, str(plan.directory)], env=_environment(), stderr=PIPE)
        try:
            for event in events(child.stderr):
                if isinstance(event, str):
                    said = event.strip() or said
                elif shown := buildx_event(event, progress, seen):
                    output(shown)
            code = child.wait()
        finally:
            child.end_group()
        if code:
            reason = said.removeprefix("ERROR: ").removeprefix("failed to solve: ")
            progress.error = reason or progress.error or f"docker buildx build exited with {code}"


def events(lines: Iterable[bytes]) -> Iterator[dict[str, Any] | str]:
    """Yield each JSON document in the output of buildx with `--progress=rawjson`.

    Other lines are yielded as text. A document may span several lines (buildx 0.13).
    """
    document = ""
    for raw in lines:
        line = raw.decode("utf-8", "replace")
        if not document and not line.startswith("{"):
            yield line
            continue
        document += line
        if line.startswith("}") or document == line:
            with contextlib.suppress(ValueError):
                found = json.loads(document)
                document = ""
                if isinstance(found, dict):
                    yield found
    if document:
        yield document


def buildx_event(event: dict[str, Any], progress: Progress, seen: dict[str, str]) -> bytes:
    """Store one message of BuildKit (a `SolveStatus`) in `progress`. Return the text to show.

    `seen` maps the digests of the started steps to their names.
    """
    shown = b""
    for vertex in event.get("vertexes") or ():
        digest, name = str(vertex.get("digest")), str(vertex.get("name") or "")
        if vertex.get("started") and digest not in seen:
            seen[digest] = name
            if not name.startswith("[internal]"):
                shown += progress.begin(name + (" (cached)" if vertex.get("cached") else ""))
        if vertex.get("error"):
            progress.step, progress.error = name, str(vertex["error"])
    for log in event.get("logs") or ():
        with contextlib.suppress(ValueError):
            shown += progress.text(base64.b64decode(log.get("data") or ""))
    return shown
