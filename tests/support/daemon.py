"""Find out whether the tests have a Docker engine, without the SDK: on failure it leaves its socket open, which would
be an error of the next test."""

from __future__ import annotations

import socket


def no_engine(place: str, image: str, *, seconds: float = 10.0) -> str:
    """Say why there is no engine with an image after a Unix socket; empty if there is one."""
    request = f"GET /v1.41/images/{image}/json HTTP/1.0\r\nHost: docker\r\n\r\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
            end.settimeout(seconds)
            end.connect(place)
            end.sendall(request.encode())
            line = end.recv(4096).partition(b"\r\n")[0].decode("ascii", "replace")
    except OSError as error:
        return f"no Docker engine at {place}: {error}"
    status = line.split()[1:2]
    if status == ["200"]:
        return ""
    if status == ["404"]:
        return f"no Docker engine with the image {image}: ci/docker-engine.sh makes it"
    return f"no Docker engine at {place}: it answers {line!r}"
