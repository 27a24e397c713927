"""The tests ask whether a Docker engine exists. If none does, nothing stays open, which would fail the next test."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.daemon import no_engine

IMAGE = "some/image:1"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    return str(tmp_path / "s")


@pytest.fixture
def listener(place: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(place)
        one.listen()
        yield one


def answering(listener: socket.socket, answer: bytes, asked: bytearray) -> threading.Thread:
    def serve() -> None:
        end, _ = listener.accept()
        with end:
            asked.extend(end.recv(4096))
            end.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\n{}", ""),
        (
            b"HTTP/1.0 404 Not Found\r\n\r\n{}",
            "no Docker engine with the image some/image:1: ci/docker-engine.sh makes it",
        ),
        (b"HTTP/1.0 500 Oh\r\n\r\n", "no Docker engine at {place}: it answers 'HTTP/1.0 500 Oh'"),
        (b"", "no Docker engine at {place}: it answers ''"),
    ],
    ids=["it has the image", "without the image", "broken", "hangs up"],
)
def test_an_engine_is_asked_for_the_image(listener: socket.socket, place: str, answer: bytes, why: str) -> None:
    asked = bytearray()
    thread = answering(listener, answer, asked)
    assert no_engine(place, IMAGE) == why.format(place=place)
    thread.join()
    assert asked.startswith(b"GET /v1.41/images/some/image:1/json HTTP/1.0\r\n")


def test_no_engine_is_waited_for_without_end(listener: socket.socket, place: str) -> None:
    assert no_engine(place, IMAGE, seconds=0.2) == f"no Docker engine at {place}: timed out"


ASK = """
import gc, os
from tests.support.daemon import no_engine
print(no_engine(os.environ["PATCHSTACK_TEST_SOCKET"], "some/image:1", seconds=0.2))
gc.collect()
"""
IMPORT = """
import gc
import tests.support.engines
print(tests.support.engines.needs_docker.kwargs["reason"])
gc.collect()
"""
TOY = """
import gc, os
import pytest
from tests.support.toy import need_docker
os.environ["DOCKER_HOST"] = "unix://" + os.environ["PATCHSTACK_TEST_SOCKET"]
try:
    need_docker()
except pytest.skip.Exception as skipped:
    print(skipped)
gc.collect()
"""


def told(script: str, place: str) -> str:
    """Return the output of a process that must leave nothing open."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "default::DeprecationWarning", "-c", script],
        env={**os.environ, "PATCHSTACK_TEST_SOCKET": place, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.mark.parametrize("script", [ASK, IMPORT, TOY], ids=["ask", "engines", "toy"])
def test_nothing_is_left_open_where_no_socket_is(place: str, script: str) -> None:
    assert told(script, place) == f"no Docker engine at {place}: [Errno 2] No such file or directory\n"


@pytest.mark.parametrize("script", [ASK, IMPORT, TOY], ids=["ask", "engines", "toy"])
def test_nothing_is_left_open_where_nobody_listens(place: str, script: str) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(place)
    assert told(script, place) == f"no Docker engine at {place}: [Errno 111] Connection refused\n"


@pytest.mark.usefixtures("listener")
def test_nothing_is_left_open_where_nobody_answers(place: str) -> None:
    assert told(ASK, place) == f"no Docker engine at {place}: timed out\n"


@pytest.mark.parametrize("script", [ASK, IMPORT, TOY], ids=["ask", "engines", "toy"])
def test_nothing_is_left_open_where_the_engine_hangs_up(listener: socket.socket, place: str, script: str) -> None:
    thread = answering(listener, b"", bytearray())
    assert told(script, place) == f"no Docker engine at {place}: it answers ''\n"
    thread.join()
