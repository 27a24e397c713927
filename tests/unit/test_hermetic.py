"""The tests' own guard: no network, no user's home, no user's git configuration."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Places
from tests.support.builders import an_upstream, snapshot
from tests.support.checkout import ROOT


@pytest.mark.parametrize("address", [("127.0.0.1", 9), ("192.0.2.1", 80), ("::1", 9, 0, 0)])
def test_no_test_reaches_the_network(address: tuple[str, int]) -> None:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    for method in ("connect", "connect_ex"):
        with (
            socket.socket(family, socket.SOCK_STREAM) as client,
            pytest.raises(RuntimeError, match="a test wants the network"),
        ):
            getattr(client, method)(address)


@pytest.mark.local_server
def test_a_test_that_asks_for_it_reaches_a_server_of_its_own_and_no_other() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()
    with socket.socket() as client, pytest.raises(RuntimeError, match="a test wants the network"):
        client.connect(("192.0.2.1", 80))


def test_sockets_of_this_machine_are_no_network(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind("s")
        server.listen()
        client.connect("s")


def test_home_and_git_settings_are_nobodys(places: Places) -> None:
    assert Path.home() == places.home
    assert Path.cwd() == places.world
    settings = {name: value for name, value in os.environ.items() if name.startswith("GIT_")}
    assert settings == {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    listed = subprocess.run(["git", "config", "--list", "--show-scope"], capture_output=True, check=True, text=True)
    assert listed.stdout == ""


def test_a_snapshot_sees_every_kind_of_change(tmp_path: Path) -> None:
    upstream, pin = an_upstream(tmp_path)
    readme = upstream.loose(upstream.blob(pin, "README"))
    first = snapshot(tmp_path)
    assert first == snapshot(tmp_path)
    os.utime(readme)
    second = snapshot(tmp_path)
    assert {path for path in second if second[path] != first[path]} == {str(readme)}
    (tmp_path / "lock").touch()
    (tmp_path / "lock").unlink()
    third = snapshot(tmp_path)
    assert {path for path in third if third[path] != second[path]} == {str(tmp_path)}


def test_the_module_runs_as_a_program(places: Places) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "patchstack", "--version"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("patchstack ")
