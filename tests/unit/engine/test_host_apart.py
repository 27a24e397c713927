"""A job of the host engine sees only its own processes, and not the environment of its ancestors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from patchstack.engine.host.apart import apart
from patchstack.engine.host.engine import HostEngine
from patchstack.engine.protocol import Job
from tests.support.checkout import ROOT

needs_namespaces = pytest.mark.skipif(apart() is None, reason="this machine gives no namespaces to its users")
THIEF = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep ^RUNNER_TOKEN=; ls -d /proc/[0-9]* | wc -l"


def said(root: Path, *argv: str) -> tuple[int, str]:
    output = bytearray()
    outcome = HostEngine(root).run(Job(what="try", argv=argv), output.extend)
    return outcome.code, output.decode()


@needs_namespaces
def test_a_job_cannot_read_the_environment_of_its_ancestors(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path\nfrom patchstack.engine.host.engine import HostEngine\n"
        "from patchstack.engine.protocol import Job\nimport sys\n"
        "out = bytearray()\njob = Job(what='try', argv=('sh', '-c', sys.argv[2]))\n"
        "HostEngine(Path(sys.argv[1])).run(job, out.extend)\nprint(out.decode())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), THIEF],
        env={**os.environ, "PYTHONPATH": str(ROOT), "RUNNER_TOKEN": "secret"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "secret" not in ran.stdout
    assert int(ran.stdout.split()[-1]) < 8, "it sees its own processes alone"


@needs_namespaces
@pytest.mark.parametrize(
    ("script", "code"), [("exit 3", 3), ("kill -ABRT $$", 134), ("kill -SEGV $$", 139), ("true", 0)]
)
def test_exit_codes_and_signals_are_those_of_the_job(tmp_path: Path, script: str, code: int) -> None:
    assert said(tmp_path, "sh", "-c", script)[0] == code


STEALS = (
    "import glob, http.server, os, signal, sys\n"
    "for path in glob.glob('/proc/[0-9]*/environ'):\n"
    "    try:\n        print(open(path).read().replace(chr(0), chr(10)))\n    except OSError:\n        pass\n"
    "print('sees', len(glob.glob('/proc/[0-9]*')), flush=True)\n"
    "def leave(*_):\n    print('asked to leave', flush=True)\n    os._exit(5)\n"
    "signal.signal(signal.SIGTERM, leave)\n"
    "http.server.HTTPServer(('127.0.0.1', 0), http.server.BaseHTTPRequestHandler).serve_forever()\n"
)
SERVES = (
    "import sys, time\nfrom pathlib import Path\nfrom patchstack.engine.host.engine import HostEngine\n"
    "from patchstack.engine.protocol import Job\nout = bytearray()\n"
    "job = Job(what='serve', argv=(sys.executable, '-c', sys.argv[2]))\n"
    "with HostEngine(Path(sys.argv[1])).start(job, out.extend) as one:\n"
    "    until = time.monotonic() + 20\n"
    "    while one.address is None and time.monotonic() < until:\n        time.sleep(0.05)\n"
    "    print('listens', one.address is not None)\n"
    "    ended = one.stop(10)\n    print('code', ended.code)\nprint(out.decode())\n"
)


@needs_namespaces
def test_a_server_cannot_read_the_environment_of_its_ancestors(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SERVES, str(tmp_path), STEALS],
        env={**os.environ, "PYTHONPATH": str(ROOT), "RUNNER_TOKEN": "secret"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "secret" not in ran.stdout
    assert "listens True\ncode 5\n" in ran.stdout, "found by its socket, and ended by the signal that it asked for"
    assert "asked to leave" in ran.stdout
    assert int(ran.stdout.partition("sees ")[2].split()[0]) < 8, "it sees its own processes alone"


@needs_namespaces
def test_a_file_that_a_job_makes_is_ours(tmp_path: Path) -> None:
    assert said(tmp_path, "touch", str(tmp_path / "made"))[0] == 0
    assert (tmp_path / "made").stat().st_uid == os.geteuid()


def test_without_namespaces_a_job_runs_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchstack.engine.host.session.apart", lambda: None)
    assert said(tmp_path, "sh", "-c", "echo here; exit 4") == (4, "here\n")
