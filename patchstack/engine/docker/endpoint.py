"""Find the address of the Docker engine that a user names. No connection is made."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from patchstack.causes import BadEngineAddress, EngineConfigUnusable

FORMS = "host, docker, docker:CONTEXT, ssh://USER@HOST[:PORT], unix:///PATH or tcp://HOST:PORT"
ON_THE_HOST = "use --engine host to run without a container ('patchstack doctor' lists the tools of this machine)"
"""A hint for users without a Docker engine."""
_DEFAULT = "unix:///var/run/docker.sock"
_SCHEMES = ("unix", "tcp", "http", "https", "ssh")


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """The files for TLS. `verify` is true if the engine's certificate must be verified."""

    ca: Path | None
    certificate: Path | None
    key: Path | None
    verify: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of an engine.

    `spec` is the name that the user gave. `source` describes the origin of the URL. `context` is the docker context
    that contains the URL, or None if no context was used.
    """

    spec: str
    url: str
    source: str
    context: str | None = None
    certificates: Certificates | None = None

    @property
    def scheme(self) -> str:
        return urlsplit(self.url).scheme

    @property
    def socket(self) -> str | None:
        """The path of the engine's socket on this machine, or None for an engine without a `unix://` URL."""
        return urlsplit(self.url).path if self.scheme == "unix" else None

    def docker_arguments(self) -> tuple[str, ...]:
        """Return the options that make the `docker` program use the same engine."""
        if self.context is not None:
            return ("--context", self.context)
        given = self.certificates
        files = () if given is None else (("ca", given.ca), ("cert", given.certificate), ("key", given.key))
        tls = () if given is None else (("--tlsverify" if given.verify else "--tls"),)
        return ("--host", self.url, *tls, *(f"--tls{'cacert' if n == 'ca' else n}={path}" for n, path in files if path))


def resolve(spec: str, environment: Mapping[str, str] | None = None) -> Endpoint:
    """Return the endpoint of a spec. `environment` is os.environ by default.

    The spec `docker` selects the same engine as the `docker` program. It uses the first of these that is set: the
    address in DOCKER_HOST, the context in DOCKER_CONTEXT, and docker's current context. If none is set, it uses the
    default socket. Raises `UsageError` if the spec is invalid or its context does not exist, and `ConfigError` if
    docker's configuration cannot be read.
    """
    environment = os.environ if environment is None else environment
    config = Path(environment.get("DOCKER_CONFIG") or Path(environment.get("HOME") or Path.home()) / ".docker")
    if spec.startswith("docker:"):
        return _of_context(spec, spec.removeprefix("docker:"), "from the engine's name", config)
    if spec == "docker":
        if host := environment.get("DOCKER_HOST"):
            certificates = _of_environment(environment, config)
            return Endpoint(spec=spec, url=_checked(host), source="DOCKER_HOST", certificates=certificates)
        if name := environment.get("DOCKER_CONTEXT"):
            return _of_context(spec, name, "DOCKER_CONTEXT", config)
        current = _read(config / "config.json").get("currentContext") if (config / "config.json").exists() else None
        if current:
            return _of_context(spec, str(current), f"the current context in {config / 'config.json'}", config)
        return Endpoint(spec=spec, url=_DEFAULT, source="docker's default socket")
    if "://" not in spec:
        raise BadEngineAddress(f"{spec!r} does not name an engine", hint=f"use one of: {FORMS}")
    return Endpoint(spec=spec, url=_checked(spec), source="named directly")


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadEngineAddress(f"{url!r} is not an engine's address: {error}", hint=f"use one of: {FORMS}") from error
    wrong = None
    if parts.scheme not in _SCHEMES:
        wrong = "unknown kind of address"
    elif parts.scheme == "unix":
        wrong = None if parts.path.startswith("/") and not parts.netloc else "the path of a socket must be absolute"
    elif not parts.hostname:
        wrong = "the host is missing"
    elif parts.scheme == "tcp" and port is None:
        wrong = "the port is missing"
    elif parts.password:
        wrong = "a password is not allowed"
    elif parts.query or parts.fragment:
        wrong = "text after the address is not allowed"
    if wrong:
        raise BadEngineAddress(f"{url!r} is not an engine's address: {wrong}", hint=f"use one of: {FORMS}")
    return url


def _of_environment(environment: Mapping[str, str], config: Path) -> Certificates | None:
    verify = bool(environment.get("DOCKER_TLS_VERIFY"))
    path = environment.get("DOCKER_CERT_PATH")
    if not verify and not path:
        return None
    files = Path(path) if path else config
    return Certificates(ca=files / "ca.pem", certificate=files / "cert.pem", key=files / "key.pem", verify=verify)


def contexts(config: Path) -> tuple[str, ...]:
    """Return the names of the docker contexts in a docker configuration directory, including `default`."""
    names = {str(_read(meta).get("Name", "")) for meta in (config / "contexts" / "meta").glob("*/meta.json")}
    return ("default", *sorted(names - {"", "default"}))


def _of_context(spec: str, name: str, source: str, config: Path) -> Endpoint:
    """Return the endpoint of a docker context.

    The SDK is not used, because it searches for contexts in the working directory if config.json does not exist.
    """
    if name == "default":
        return Endpoint(spec=spec, url=_DEFAULT, source=f"docker context default, {source}", context=name)
    folder = hashlib.sha256(name.encode()).hexdigest()
    meta = config / "contexts" / "meta" / folder / "meta.json"
    if not meta.exists():
        known = contexts(config)
        close = difflib.get_close_matches(name, known, n=1)
        perhaps = f"perhaps you meant {close[0]}; " if close else ""
        raise BadEngineAddress(
            f"docker context {name!r} does not exist ({source})",
            hint=f"{perhaps}existing contexts: {', '.join(known)}; "
            "run 'docker context create NAME --docker host=URL' to create a context",
        )
    docker = _part(_part(_read(meta), "Endpoints"), "docker")
    url = docker.get("Host")
    if not isinstance(url, str) or not url:
        raise EngineConfigUnusable(
            f"the docker context {name!r} does not name a docker engine: {meta}",
            hint=f"run 'docker context inspect {name}'",
        )
    tls = config / "contexts" / "tls" / folder / "docker"
    certificates = None
    if tls.is_dir():
        ca, certificate, key = (next(iter(sorted(tls.glob(f"{part}*"))), None) for part in ("ca", "cert", "key"))
        verify = not docker.get("SkipTLSVerify")
        certificates = Certificates(ca=ca, certificate=certificate, key=key, verify=verify)
    return Endpoint(
        spec=spec,
        url=_checked(url),
        source=f"docker context {name}, {source}",
        context=name,
        certificates=certificates,
    )


def _part(document: dict[str, Any], name: str) -> dict[str, Any]:
    part = document.get(name)
    return part if isinstance(part, dict) else {}


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise EngineConfigUnusable(f"docker's configuration cannot be read: {path}: {error}") from error
    return document if isinstance(document, dict) else {}
