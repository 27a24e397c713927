"""The kind `command`: programs on this machine that pass, fail, hang, print too much, leave their directory, or use the
network."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from patchstack.checks import cage
from patchstack.checks.run import OpenEngine
from patchstack.engine.host.engine import HostEngine
from patchstack.process import run
from patchstack.verdict import Verdict
from tests.support.checking import Ground

FILES = {"src/a.cpp": "alpha\n", "src/b.cpp": "beta\n", "ci/check.sh": "#!/bin/sh\nexit 0\n", "README": "no\n"}


def can_cage() -> bool:
    """Return whether this machine allows namespaces for users."""
    return run(["unshare", "--user", "--map-root-user", "--net", "--mount", "--", "mount", "--make-rprivate", "/"]).ok


needs_namespaces = pytest.mark.skipif(not can_cage(), reason="this machine gives no namespaces to its users")


@pytest.fixture
def engine(tmp_path: Path) -> OpenEngine:
    return lambda: HostEngine(tmp_path / "engine")


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path, FILES)


def entry(script: str, more: str = "") -> str:
    """Return a check that runs a shell script on the C++ files."""
    quoted = script.replace("'", "''")
    return f"- {{name: a, patch: 1, kind: command, run: [sh, -c, '{quoted}', sh], files: ['src/*'] {more}}}"


@needs_namespaces
@pytest.mark.parametrize(
    ("script", "verdict", "reason"),
    [
        ("exit 0", Verdict.PASS, "sh exited 0"),
        ("echo found: $1 $2; exit 1", Verdict.FAIL, "sh exited 1: found: src/a.cpp src/b.cpp"),
        ("exit 2", Verdict.INVALID, "sh exited 2"),
        ("kill -9 $$", Verdict.INVALID, "sh exited 137"),
        ("cat src/a.cpp src/b.cpp; test ! -e README", Verdict.PASS, "sh exited 0"),
        ("echo x > new && cat new", Verdict.PASS, "sh exited 0"),
        ("echo x > $TMPDIR/new && cat $TMPDIR/new", Verdict.PASS, "sh exited 0"),
    ],
)
def test_the_exit_code_is_the_verdict(
    ground: Ground, engine: OpenEngine, script: str, verdict: Verdict, reason: str
) -> None:
    found = ground.judge(entry(script), engine)
    assert (found.verdict, found.reason) == (verdict, reason)


@needs_namespaces
def test_the_first_lines_are_kept(ground: Ground, engine: OpenEngine) -> None:
    found = ground.judge(entry("seq 1 1000; exit 1"), engine)
    assert found.output == tuple(str(number) for number in range(1, 21))


@needs_namespaces
def test_a_program_that_hangs_is_stopped_in_its_time(ground: Ground, engine: OpenEngine) -> None:
    began = time.monotonic()
    found = ground.judge(entry("echo begun; sleep 600", ", time: 1s"), engine)
    assert time.monotonic() - began < 20
    assert (found.verdict, found.reason) == (Verdict.INVALID, "it took over 1 s and was stopped")
    assert found.output == ("begun",)


@needs_namespaces
def test_a_program_that_prints_a_gigabyte_is_stopped(ground: Ground, engine: OpenEngine) -> None:
    began = time.monotonic()
    found = ground.judge(entry("yes | head -c 1000000000"), engine)
    assert time.monotonic() - began < 20
    assert (found.verdict, found.reason) == (Verdict.INVALID, "it printed over 16 MiB and was stopped")


@needs_namespaces
def test_a_program_cannot_write_outside_its_directory(ground: Ground, engine: OpenEngine, tmp_path: Path) -> None:
    target = tmp_path / "outside"
    found = ground.judge(entry(f"echo x > {target} || exit 9"), engine)
    assert (found.verdict, found.reason) == (Verdict.INVALID, "sh exited 9")
    assert not target.exists()


@needs_namespaces
@pytest.mark.local_server
def test_a_program_has_no_network(ground: Ground, engine: OpenEngine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"exec python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 3)'"
        found = ground.judge(entry(script), engine)
    assert found.verdict is Verdict.FAIL  # Python exits with 1 after a traceback
    assert any("Network is unreachable" in line or "Connection refused" in line for line in found.output)


@needs_namespaces
def test_a_program_that_is_missing_is_invalid(ground: Ground, engine: OpenEngine) -> None:
    found = ground.judge("- {name: a, patch: 1, kind: command, run: [no-such-program], files: ['src/*']}", engine)
    assert (found.verdict, found.reason) == (Verdict.INVALID, "no-such-program is not installed on the engine")


@needs_namespaces
def test_what_it_needs_besides_is_in_the_directory_and_no_argument(ground: Ground, engine: OpenEngine) -> None:
    found = ground.judge(
        "- {name: a, patch: 1, kind: command, run: [sh, ci/check.sh], files: ['src/*'], with: ['ci/*']}", engine
    )
    assert found.verdict is Verdict.PASS
    found = ground.judge(
        "- {name: a, patch: 1, kind: command, run: [sh, ci/check.sh], files: ['src/*'], with: ['none/*']}", engine
    )
    assert (found.verdict, found.reason) == (Verdict.INVALID, "no file matches none/*")


def test_a_machine_that_cannot_cut_the_network_off_says_so(
    ground: Ground, engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cage, "_SETUP", "echo no namespaces here; exit 1")
    found = ground.judge(entry("exit 0"), engine)
    assert found.verdict is Verdict.INVALID
    assert found.reason.startswith("this machine cannot run a program without network (")


def test_without_an_engine_it_is_invalid(ground: Ground) -> None:
    found = ground.judge(entry("exit 0"))
    assert (found.verdict, found.reason) == (Verdict.INVALID, "no engine was named for commands")
