"""Translate the errors of docker, requests and sockets into patchstack's errors."""

from __future__ import annotations

import errno
import http.client
import os
import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import docker.errors
import requests
import urllib3.exceptions

from patchstack.causes import EngineRefused, GpuNotGiven, JobRefused
from patchstack.engine.docker.endpoint import ON_THE_HOST, Endpoint
from patchstack.engine.protocol import EngineLost, EngineUnavailable, ImageMissing, OutOfSpace, PlatformUnsupported
from patchstack.errors import PatchstackError

FOREIGN = (
    docker.errors.DockerException,
    docker.errors.StreamParseError,
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    http.client.HTTPException,
    OSError,
)
NO_SPACE = ("no space left on device", "disk quota exceeded")
_UNREACHED = (
    "no such host",
    "dial tcp",
    "i/o timeout",
    "connection refused",
    "network is unreachable",
    "tls handshake",
)
_UNKNOWN = ("pull access denied", "manifest unknown", "not found", "repository does not exist", "unauthorized")


class Faults:
    """Translates the errors of one endpoint. `complaint` returns the messages of the connection's program (ssh).

    `answered` is set after the engine's first answer. A broken connection means `EngineUnavailable` before this answer,
    and `EngineLost` after this answer.
    """

    def __init__(self, endpoint: Endpoint, complaint: Callable[[], str] = lambda: "") -> None:
        self._endpoint = endpoint
        self._complaint = complaint
        self.answered = False

    def last_words(self) -> str:
        """Return the last message of the connection's program, or an empty string."""
        return _last(self._complaint())

    @contextmanager
    def translated(self, doing: str) -> Iterator[None]:
        """Translate every library error that the body raises.

        `doing` is a verb phrase that completes "the engine cannot …".
        """
        try:
            yield
        except FOREIGN as error:
            raise self.translation(error, doing) from error

    def translation(self, error: BaseException, doing: str) -> PatchstackError:
        for link in _chain(error):
            if isinstance(link, PatchstackError):
                return link
        for link in _chain(error):
            if isinstance(link, docker.errors.APIError) and link.response is not None:
                return refusal(link.response.status_code, str(link.explanation or link), doing)
        for link in _chain(error):
            if isinstance(link, OSError) and (link.filename or "in context" in str(link)):
                return EngineRefused(f"cannot {doing}: {link}")  # this error is about a local file, not the connection
        if self.answered:
            words = self.last_words()
            return EngineLost(
                f"the connection to the engine at {self._endpoint.url} was lost, so the engine could not {doing}"
                + (f": {words}" if words else ""),
                hint="run 'patchstack doctor' to check that the engine can be reached, then run the command again",
            )
        return unavailable(self._endpoint, error, self._complaint())


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all errors that it wraps.

    Wrapped errors are in the cause, the context, the `reason` and the arguments of an error. urllib3 and requests use
    arguments to wrap errors.
    """
    seen: set[int] = set()
    pending: list[object] = [error]
    while pending:
        link = pending.pop(0)
        if not isinstance(link, BaseException) or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        pending += [link.__cause__, link.__context__, getattr(link, "reason", None), *link.args]


def _last(words: str) -> str:
    return words.strip().splitlines()[-1].strip() if words.strip() else ""


def refusal(status: int, words: str, doing: str) -> PatchstackError:
    """Return the error for a request that the engine refused.

    `status` is the HTTP status, and `words` is the message of the engine.
    """
    low = words.lower()
    if any(sign in low for sign in NO_SPACE):
        return OutOfSpace(
            f"the engine cannot {doing}: its disk is full: {words}",
            hint="free disk space on the engine's machine: run 'patchstack build --gc' or 'docker image prune'",
        )
    if "exec format error" in low or "does not match the specified platform" in low:
        return PlatformUnsupported(f"the engine cannot {doing}: {words}")
    if "could not select device driver" in low:
        return GpuNotGiven(
            "the engine has no GPU runtime, so containers cannot use a GPU",
            hint="install the nvidia-container-toolkit on the engine's machine, then restart docker there",
        )
    if found := re.search(r"bind source path does not exist: (\S+)", words):
        return GpuNotGiven(f"the engine cannot {doing}: {found[1]} does not exist on its machine")
    if "no such image" in low:
        return ImageMissing(f"the engine cannot {doing}: {words}", hint="run 'docker pull IMAGE', or build the image")
    if re.search(r'exec: \\*"/bin/sh\\*"', low) and ("no such file" in low or "not found" in low):
        return JobRefused("the image has no /bin/sh, which every job needs")
    if "volume is in use" in low:
        return JobRefused(f"the engine cannot {doing}: a container still uses the volume: {words}")
    if 400 <= status < 500 and status != 404:
        return JobRefused(f"the engine refuses to {doing}: {words}")
    return EngineRefused(f"the engine cannot {doing}: {words}")


def base_unavailable(words: str) -> str | None:
    """Return the reason why a base image is not available, as a phrase.

    Returns None if the builder's message has a different cause.
    """
    low = words.lower()
    if any(sign in low for sign in _UNREACHED) and ("registry" in low or "/v2/" in low or "lookup" in low):
        return "its registry cannot be reached"
    if any(sign in low for sign in _UNKNOWN) and ("manifest" in low or "pull" in low or "repository" in low):
        return "its registry does not contain it, or denies access"
    return None


def unavailable(endpoint: Endpoint, error: BaseException, complaint: str) -> PatchstackError:
    """Return the error for an engine that never answered.

    If the engine was named `docker`, which is the default, the hint of the error mentions `--engine host`.
    """
    found = _unavailable(endpoint, error, complaint)
    if endpoint.spec == "docker":
        found.hint = f"{found.hint}; or {ON_THE_HOST}" if found.hint else ON_THE_HOST
    return found


def _unavailable(endpoint: Endpoint, error: BaseException, complaint: str) -> PatchstackError:
    where = f"{endpoint.url} ({endpoint.source})"
    if endpoint.scheme == "ssh":
        return _ssh_unavailable(endpoint, complaint, error)
    links = tuple(_chain(error))
    number = next((link.errno for link in links if isinstance(link, OSError) and link.errno), None)
    if any(isinstance(link, (ssl.SSLError, docker.errors.TLSParameterError)) for link in links):
        return EngineUnavailable(
            f"no Docker engine answers at {where}: TLS: {_deepest(links)}",
            hint="check that DOCKER_CERT_PATH, or the docker context, contains ca.pem, cert.pem and key.pem "
            "for this engine",
        )
    if any(isinstance(link, docker.errors.InvalidVersion) for link in links):
        return EngineUnavailable(f"the engine at {where} is too old: {_deepest(links)}")
    if number == errno.ENOENT:
        return EngineUnavailable(f"no Docker engine at {where}: the socket does not exist", hint=_start_hint())
    if number in (errno.EACCES, errno.EPERM):
        return EngineUnavailable(
            f"the Docker engine at {where} cannot be used: permission denied",
            hint="run 'sudo usermod -aG docker $USER', then log in again",
        )
    if number == errno.ECONNREFUSED:
        return EngineUnavailable(f"no Docker engine at {where}: nothing listens there", hint=_start_hint())
    if any(isinstance(link, (TimeoutError, requests.Timeout)) for link in links):
        return EngineUnavailable(f"no Docker engine answers at {where} in time")
    return EngineUnavailable(f"no Docker engine answers at {where}: {_deepest(links)}")


def _deepest(links: tuple[BaseException, ...]) -> str:
    named = [text for link in links if (text := str(link).strip())]
    return min(named, key=len) if named else "no reason was given"


def _start_hint() -> str:
    for socket in (f"/run/user/{os.getuid()}/podman/podman.sock", "/run/podman/podman.sock"):
        if Path(socket).exists():
            return f"start Docker with 'systemctl start docker', or use podman with --engine unix://{socket}"
    return "start Docker with 'systemctl start docker', or name a different engine (docker:CONTEXT, ssh://USER@HOST)"


def _ssh_unavailable(endpoint: Endpoint, complaint: str, error: BaseException) -> EngineUnavailable:
    parts = urlsplit(endpoint.url)
    target = f"{parts.username}@{parts.hostname}" if parts.username else parts.hostname or ""
    port = f" -p {parts.port}" if parts.port else ""
    low = complaint.lower()
    hint = f"run 'ssh{port} {target} docker version' and check its output"
    if "host key verification failed" in low or "host identification has changed" in low:
        hint = f"run 'ssh{port} {target} true' once and check the host's key"
    elif "permission denied (" in low or "too many authentication failures" in low:
        hint = f"ssh must connect without a password: run 'ssh-copy-id{port} {target}', or use an ssh agent"
    elif "command not found" in low or "docker: not found" in low:
        return EngineUnavailable(
            f"docker is not installed on {target}: {_last(complaint)}",
            hint="install the docker program on that machine, and put it on the PATH of ssh sessions",
        )
    elif "dial-stdio" in low and "not a docker command" in low:
        hint = f"install docker 18.09 or newer on {target}"
    elif "docker daemon" in low or "dial unix" in low:
        return EngineUnavailable(
            f"ssh reached {target}, but no Docker engine answers there: {_last(complaint)}",
            hint="on that machine, run 'systemctl start docker' and 'usermod -aG docker USER'",
        )
    said = _last(complaint) or _deepest(tuple(_chain(error)))
    return EngineUnavailable(f"ssh cannot reach the engine at {endpoint.url} ({endpoint.source}): {said}", hint=hint)
