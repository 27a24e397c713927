"""Keep every test off the network, the home directory and anybody's git configuration."""

from __future__ import annotations

import functools
import ipaddress
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main
from hypothesis import HealthCheck, settings

from tests.support.builders import snapshot
from tests.support.checkout import ROOT
from tests.support.schemas import against_schema

_UNHERMETIC = ("SSH_AUTH_SOCK", "SSH_ASKPASS", "EMAIL", "PAGER", "EDITOR", "VISUAL", "FORCE_COLOR", "CLICOLOR_FORCE")
_PREFIXES = ("GIT_", "PATCHSTACK_", "DOCKER_", "BUILDX_", "CCACHE_", "CUDA")
_DEAD_PROXY = "http://127.0.0.1:9"

# A time limit for each example fails falsely on a busy machine. What an input may cost has tests of its own.
settings.register_profile("patchstack", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patchstack")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The directories of a test. `world` is the working directory; `cache` need not exist."""

    world: Path
    home: Path
    cache: Path
    temporary: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The result of a run of patchstack."""

    code: int
    stdout: str
    stderr: str

    @property
    def told(self) -> str:
        """All that a person sees."""
        return self.stdout + self.stderr

    @property
    def documents(self) -> list[dict[str, Any]]:
        """The JSON documents on stdout, one a line. Each is checked with its schema in the reference."""
        documents = [json.loads(line) for line in self.stdout.splitlines()]
        for document in documents:
            against_schema(document)
        return documents

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        documents = self.documents
        assert len(documents) == 1, self
        return documents[0]


# A shell ignores SIGINT for its background jobs, and every program that a test starts would inherit this.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Hundreds of tests start Python programs. Without bytecode each of them compiles the package again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Help names the program after the module that Python runs, unless that has no package: here it is pytest's.
sys.modules["__main__"].__package__ = None

# Typer makes the commands of an app at each call from their signatures. The process of a user calls once, a test often.
typer.main.get_command = functools.cache(typer.main.get_command)

pytest_plugins = ["tests.support.leaks", "tests.support.skipped"]

RunCli = Callable[..., Ran]
Patchstack = Callable[..., int]


@pytest.fixture(autouse=True)
def places(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    leaks_are_its_own: None,
) -> Places:
    """Make the test hermetic, and return its home, cache and temporary directories."""
    # Use our own numbers, because `mktemp` reads the names of all earlier directories for each test.
    outside = tmp_path_factory.getbasetemp() / "outside" / str(next(_number))
    found = Places(world=tmp_path, home=outside / "home", cache=outside / "cache", temporary=outside / "tmp")
    found.home.mkdir(parents=True)
    found.temporary.mkdir()
    for name in [*_UNHERMETIC, *(name for name in os.environ if name.startswith(_PREFIXES))]:
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "HOME": found.home,
        "XDG_CONFIG_HOME": found.home / ".config",
        "XDG_CACHE_HOME": found.home / ".cache",
        "XDG_DATA_HOME": found.home / ".local/share",
        "XDG_STATE_HOME": found.home / ".local/state",
        "PATCHSTACK_CACHE": found.cache,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "TMPDIR": found.temporary,
        "http_proxy": _DEAD_PROXY,
        "https_proxy": _DEAD_PROXY,
        "ALL_PROXY": _DEAD_PROXY,
        "no_proxy": "127.0.0.1,localhost",
    }.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(tempfile, "tempdir", str(found.temporary))
    monkeypatch.setattr(os, "fsync", _checked_descriptor)
    monkeypatch.chdir(tmp_path)
    _forbid_network(monkeypatch, loopback=request.node.get_closest_marker("local_server") is not None)
    return found


_number = itertools.count()


def _checked_descriptor(descriptor: int) -> None:
    """Replace `os.fsync` in a test. Its files need not survive a power failure, and waiting for the disk would take
    most of its time. Programs that it starts still wait."""
    os.fstat(descriptor)


_LOCKING = ("accept", "reject", "export")
"""Commands whose lock is in the workspace's directory while they run."""


def _forbid_network(monkeypatch: pytest.MonkeyPatch, *, loopback: bool) -> None:
    def allowed(own: socket.socket, address: Any) -> bool:
        if own.family == socket.AF_UNIX:
            return True
        host = str(address[0])
        return loopback and (host == "localhost" or ipaddress.ip_address(host).is_loopback)

    def guard(name: str) -> None:
        real = getattr(socket.socket, name)

        def connect(own: socket.socket, address: Any) -> Any:
            if not allowed(own, address):
                raise RuntimeError(f"a test wants the network: {address}; mark it local_server for a server of its own")
            return real(own, address)

        monkeypatch.setattr(socket.socket, name, connect)

    guard("connect")
    guard("connect_ex")


@pytest.fixture
def run_cli(places: Places, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunCli:
    """Run patchstack in this process. The test fails if the command writes below the working directory or the home, or
    leaves a temporary file. Only the cache is the command's own."""

    def run(*args: str | Path) -> Ran:
        from patchstack.cli.failures import guarded
        from patchstack.cli.main import app

        monkeypatch.setattr(sys, "argv", ["patchstack", *map(str, args)])
        capsys.readouterr()
        before = snapshot(places.world, places.home)
        code = guarded(app)
        after = snapshot(places.world, places.home)
        printed = capsys.readouterr()
        ran = Ran(code=code, stdout=printed.out, stderr=printed.err)
        touched = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        if args[0] in _LOCKING:
            touched.discard(str(places.world))  # only the directory's own time: its contents have their own entries
        assert not touched, (sorted(touched), ran)
        assert not os.listdir(places.temporary), (os.listdir(places.temporary), ran)
        return ran

    return run


@pytest.fixture
def run_patchstack(places: Places) -> RunCli:
    """Run `python -m patchstack` as a separate process, under the same guard as `run_cli`."""

    def run(*args: str | Path) -> Ran:
        before = snapshot(places.world, places.home)
        done = subprocess.run(
            [sys.executable, "-m", "patchstack", *map(str, args)],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
        )
        ran = Ran(code=done.returncode, stdout=done.stdout, stderr=done.stderr)
        assert snapshot(places.world, places.home) == before, ran
        assert not os.listdir(places.temporary), (os.listdir(places.temporary), ran)
        return ran

    return run


@pytest.fixture
def patchstack(monkeypatch: pytest.MonkeyPatch) -> Patchstack:
    """Run patchstack in this process, for commands that write. Returns the exit status."""
    from patchstack.cli.failures import guarded
    from patchstack.cli.main import app

    def run(*args: str | Path) -> int:
        monkeypatch.setattr(sys, "argv", ["patchstack", *map(str, args)])
        return guarded(app)

    return run
