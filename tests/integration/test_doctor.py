"""`patchstack doctor` on this machine."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunCli


def test_the_host_is_looked_at_and_nothing_is_written(run_cli: RunCli) -> None:
    for tool in ("git", "c++", "cmake", "ninja"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed here")
    ran = run_cli("doctor", "--engine", "host")
    assert (ran.code, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert lines[0].split() == ["for", "what", "state", "found"]
    assert lines[1].split()[:3] == ["verify", "git", "ok"]
    assert lines[-1] == "verify can run; builds can run on: host"
    document = run_cli("doctor", "--engine", "host", "--json").document
    assert (document["schema"], document["builds"], document["exit_code"]) == ("patchstack.doctor/1", ["host"], 0)


def test_an_engine_that_is_not_there_is_missing(run_cli: RunCli) -> None:
    ran = run_cli("doctor", "--json", "--engine", "unix:///nowhere/docker.sock")
    assert ran.code == 3
    engine = next(check for check in ran.document["checks"] if check["name"] == "unix:///nowhere/docker.sock")
    assert engine["state"] == "missing"
    assert "/nowhere/docker.sock" in engine["found"]
    assert engine["get"]


def test_a_word_that_names_no_engine_is_wrong_usage(run_cli: RunCli) -> None:
    ran = run_cli("doctor", "--engine", "dcoker")
    assert ran.code == 2
    assert ran.stderr.startswith("error: 'dcoker' does not name an engine")
    assert "Traceback" not in ran.told


def test_an_empty_path_is_no_reason_to_fail(run_patchstack: RunCli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    ran = run_patchstack("doctor")
    assert ran.code == 3, ran
    assert ran.stdout.splitlines()[-1] == "verify cannot run; builds can run nowhere"
    assert "missing: git, for all commands" in ran.stdout
    assert ran.stderr == ""


def engines(document: dict[str, Any]) -> list[str]:
    """Return the specs of the engines that were asked."""
    return [check["name"] for check in document["checks"] if check["group"] == "engines"][:-3]


def test_the_engine_of_the_workspace_is_the_one_looked_at(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "patchstack.yaml").write_text(
        f"engine: unix:///nowhere/a.sock\nseries:\n  a: {{patches: p, upstream: u, pin: {'ab' * 20}}}\n"
    )
    assert engines(run_cli("doctor", "--json").document) == ["unix:///nowhere/a.sock"]
    monkeypatch.setenv("PATCHSTACK_ENGINE", "host")
    assert engines(run_cli("doctor", "--json").document) == ["host"]
    assert engines(run_cli("doctor", "--json", "--engine", "unix:///b.sock").document) == ["unix:///b.sock"]


def test_a_workspace_that_cannot_be_read_is_passed_over(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "patchstack.yaml").write_text("series: [")
    ran = run_cli("doctor", "--json")
    assert ran.stderr.startswith("warning: ")
    assert engines(ran.document) == ["docker", "host"]


def test_it_is_quick(run_patchstack: RunCli) -> None:
    run_patchstack("doctor", "--engine", "host")
    times = []
    for _ in range(3):
        began = time.monotonic()
        run_patchstack("doctor", "--engine", "host")
        times.append(time.monotonic() - began)
    assert min(times) < 2, times
