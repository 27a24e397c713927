"""Connect the Docker SDK to an engine: over a socket of this machine, ssh, or TCP."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import docker
import urllib3
import urllib3.connection
from docker.tls import TLSConfig
from docker.transport import UnixHTTPAdapter

from patchstack.engine.docker.endpoint import Certificates, Endpoint
from patchstack.engine.docker.faults import Faults
from patchstack.engine.docker.ssh import Tunnel

_FIRST_ANSWER = 30  # seconds, the same as the limit for ssh to connect
_ANSWER = 600  # seconds; an engine under load is slow to remove a large volume
_KEPT_OPEN = 4


class Connection:
    """A connection to an engine that answered.

    `api` sends requests to the engine. `faults` translates the errors of these requests. The constructor raises
    `EngineUnavailable` if the engine does not answer.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._tunnel = Tunnel(endpoint.url) if endpoint.scheme == "ssh" else None
        self.faults = Faults(endpoint, self._tunnel.complaint if self._tunnel else lambda: "")
        try:
            with self.faults.translated("answer"):
                # The SDK has type stubs for only half of its interface.
                self.api: Any = _client(endpoint, self._tunnel)
        except BaseException:
            if self._tunnel:
                self._tunnel.close()
            raise
        self.api.timeout = _ANSWER
        self.faults.answered = True

    def close(self) -> None:
        self.api.close()
        if self._tunnel:
            self._tunnel.close()


def _client(endpoint: Endpoint, tunnel: Tunnel | None) -> Any:
    if tunnel is not None:
        return _over(tunnel.open)
    if (path := endpoint.socket) is not None:
        return _over(lambda: _unix(path))
    tls = _tls(endpoint.certificates) if endpoint.certificates else False
    return docker.APIClient(base_url=endpoint.url, version="auto", timeout=_FIRST_ANSWER, tls=tls)


def _over(dial: Callable[[], socket.socket]) -> Any:
    """Return an SDK client that opens its connections with `dial`.

    The SDK does not accept an existing connection. So the client is first created for a socket, with a fixed API
    version. Then the client's adapter is replaced, and the client requests the engine's version.
    """
    api: Any = docker.APIClient(base_url="unix:///engine", version="1.41", timeout=_FIRST_ANSWER)
    api.mount("http+docker://", _Adapter(dial))
    try:
        api._version = api._retrieve_server_version()
    except BaseException:
        api.close()
        raise
    return api


def _unix(path: str) -> socket.socket:
    """Return a connection to a socket of this machine.

    The SDK's own function is not used, because it does not close the file descriptor after an error.
    """
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        end.connect(path)
    except BaseException:
        end.close()
        raise
    return end


class _Adapter(UnixHTTPAdapter):
    """Lets the SDK use the sockets from `dial` instead of its own sockets."""

    def __init__(self, dial: Callable[[], socket.socket]) -> None:
        super().__init__("http+unix:///engine", timeout=_FIRST_ANSWER)
        self._all = _Pool(dial)

    def get_connection(self, url: Any, proxies: Any = None) -> Any:
        return self._all

    def close(self) -> None:
        self._all.close()
        super().close()


class _Pool(urllib3.HTTPConnectionPool):
    def __init__(self, dial: Callable[[], socket.socket]) -> None:
        super().__init__("localhost", timeout=_FIRST_ANSWER, maxsize=_KEPT_OPEN)
        self._dial = dial

    def _new_conn(self) -> Any:
        return _Connection(self._dial)


class _Connection(urllib3.connection.HTTPConnection):
    def __init__(self, dial: Callable[[], socket.socket]) -> None:
        super().__init__("localhost", timeout=_FIRST_ANSWER)
        self._dial = dial

    def connect(self) -> None:
        self.sock = self._dial()
        self.sock.settimeout(self.timeout if isinstance(self.timeout, (int, float)) else None)


def _tls(files: Certificates) -> TLSConfig:
    pair = (str(files.certificate), str(files.key)) if files.certificate and files.key else None
    return TLSConfig(client_cert=pair, ca_cert=str(files.ca) if files.ca else None, verify=files.verify)
