"""The demo: the same on every machine, told as it goes, and a program that builds and runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from patchstack.cli.failures import guarded
from patchstack.cli.main import app
from patchstack.demo.build import Demo, build_demo
from patchstack.errors import UsageError
from tests.builders import run_git

PIN = "5d75007f9d663b2ff63e593cbba75e3a5e8e0ddd"
FORK_TREE = "22adb83c28716c338e2a4bac940a1a325f15fe28"


def test_ids_are_the_same_on_every_machine(tmp_path: Path) -> None:
    demo = build_demo(tmp_path / "demo")
    assert demo.pin == PIN
    assert run_git("rev-parse", "paged^{tree}", cwd=demo.root / "fork").stdout.decode().strip() == FORK_TREE


def test_hostile_configuration_changes_no_byte_of_the_demo_s_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = build_demo(tmp_path / "plain")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[diff]\nnoprefix = true\nalgorithm = patience\ncontext = 9\nmnemonicPrefix = true\n"
        "[format]\nsignature = me\nattach = true\nnumbered = true\nsignOff = true\n"
        "[core]\nautocrlf = true\nabbrev = 7\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    hostile = build_demo(tmp_path / "hostile")

    def series(demo: Demo) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (demo.root / "patches" / "paged").iterdir()}

    assert series(plain) == series(hostile)
    assert run_git("status", "--short", cwd=hostile.root / "upstream").stdout == b""


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(UsageError, match="is there already") as raised:
        build_demo(tmp_path)
    assert raised.value.hint == "name another directory: patchstack demo DIR"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_the_demo_tells_what_holds_and_what_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["patchstack", "demo", "tour"])
    assert guarded(app) == 0
    told = capsys.readouterr().out
    assert f"paged: holds: base {PIN} + 6 of 6 patches = {FORK_TREE}" in told
    assert "edited: does not hold" in told
    assert '-    std::fprintf(stderr, "trace2: step=' in told
    assert "has no patch: was it dropped from the series?" in told
    assert "the fork has 1 commit the series lacks; the series matches the fork at" in told
    for workspace, code in (("tour", 0), ("tour/broken", 1)):
        monkeypatch.chdir(tmp_path / workspace)
        monkeypatch.setattr("sys.argv", ["patchstack", "verify"])
        assert guarded(app) == code


@pytest.mark.skipif(
    shutil.which("cmake") is None or shutil.which("c++") is None, reason="needs cmake and a C++ compiler"
)
def test_the_fork_builds_runs_and_says_what_upstream_says(tmp_path: Path) -> None:
    demo = build_demo(tmp_path / "demo")
    run_git("switch", "-q", "--detach", PIN, cwd=demo.root / "upstream")
    run_git("switch", "-q", "paged", cwd=demo.root / "fork")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LC_ALL": "C"}

    def run(*args: str | Path, **extra: str) -> str:
        return subprocess.run(
            [str(arg) for arg in args], check=True, capture_output=True, text=True, env={**environment, **extra}
        ).stdout

    said = {}
    for name in ("upstream", "fork"):
        build = tmp_path / f"build-{name}"
        run("cmake", "-S", demo.root / name, "-B", build, "-DCMAKE_BUILD_TYPE=Release")
        run("cmake", "--build", build, "-j2")
        run("ctest", "--test-dir", build, "--output-on-failure")
        program = next(path for path in build.rglob("minillm-completion") if path.is_file())
        for switch in ("0", "1"):
            extra = {"MINILLM_KV_PAGED": "1"} if switch == "1" else {}
            said[name, switch] = run(program, "--random-seed", "1", "-p", "Hello", "-n", "16", **extra)
    assert len(set(said.values())) == 1
    assert next(iter(said.values())).startswith("Hello")
