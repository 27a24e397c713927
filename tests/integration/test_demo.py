"""The demo: the same on every machine, with a shown output, and a program that builds and runs."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from patchstack.cli.failures import guarded
from patchstack.cli.main import app
from patchstack.demo.build import Demo, _break, build_demo
from patchstack.demo.model import model_file
from patchstack.errors import UsageError
from tests.conftest import Places
from tests.support import compiler_cache
from tests.support.builders import run_git
from tests.support.minillm import QUICK
from tests.support.toy import need_host_tools

PIN = "0d930afab1768e48aae257a6da885cab6cdbb4f3"
FORK_TREE = "ab6169e77624618c0b190b8e5ef968f058cb4a7c"

needs_compilers = pytest.mark.skipif(
    shutil.which("cmake") is None or shutil.which("c++") is None, reason="needs cmake and a C++ compiler"
)


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
    with pytest.raises(UsageError, match="already exists") as raised:
        build_demo(tmp_path)
    assert raised.value.hint == "run 'patchstack demo DIR' with a different directory"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def demo(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.argv", ["patchstack", "demo", *arguments])
    return guarded(app)


def test_the_short_tour_tells_what_holds_and_what_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo("tour", "--no-build", monkeypatch=monkeypatch) == 0
    told = capsys.readouterr().out
    assert f"paged: holds: base {PIN} + 6 of 6 patches = {FORK_TREE}" in told
    assert "edited: does not hold" in told
    assert '-    std::fprintf(stderr, "trace2: step=' in told
    assert "has no patch: was it dropped from the series?" in told
    assert "the fork has 1 commit the series lacks; the series matches the fork at" in told
    assert "patchstack build" not in told
    for workspace, code in (("tour", 0), ("tour/broken", 1)):
        monkeypatch.chdir(tmp_path / workspace)
        monkeypatch.setattr("sys.argv", ["patchstack", "verify"])
        assert guarded(app) == code


def test_a_demo_that_does_not_go_as_told_says_what_did_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken_but_for_one(root: Path, pin: str) -> None:
        _break(root, pin)
        shutil.copytree(root / "patches" / "paged", root / "broken" / "patches" / "edited", dirs_exist_ok=True)

    monkeypatch.setattr("patchstack.demo.build._break", broken_but_for_one)
    assert demo("tour", "--no-build", monkeypatch=monkeypatch) == 1
    printed = capsys.readouterr()
    assert "error: the demo failed" in printed.err
    assert "patchstack verify edited --workspace broken/patchstack.yaml: exit code 0, not 1" in printed.err
    assert "Look around" not in printed.out


def test_the_whole_demo_accepts_rejects_and_leaves_open(
    tmp_path: Path, places: Places, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need_host_tools()
    compiler_cache.warm(places.cache)
    assert demo("tour", monkeypatch=monkeypatch) == 0
    printed = capsys.readouterr()
    screens = {one.split("\n", 1)[0]: one for one in printed.out.split("\n$ ")}
    told = {
        name: next(text for line, text in screens.items() if line.startswith(f"patchstack {name}")) for name in _SAID
    }
    assert "patchstack build paged --engine docker" not in printed.out, "one engine is enough"
    for name, expected in _SAID.items():
        assert all(text in told[name] for text in expected), told[name]
    for line in (
        "FAIL     gate greedy (candidate): plain: the transcript differs: ",
        "INVALID  gate greedy (candidate): plain: its output was lost",
        "PASS     gate mul-mat (candidate): 6/6 cases pass on CPU",
    ):
        assert line in printed.err, printed.err
    monkeypatch.chdir(tmp_path / "tour")
    for command in (
        "verify",
        "ledger keys",
        "ledger --check",
        *re.findall(r"patchstack (gate run --build \w+)", told["ledger"]),
    ):
        monkeypatch.setattr("sys.argv", ["patchstack", *command.split()])
        assert guarded(app) == 0, command
    assert run_git("status", "--short", cwd=tmp_path / "tour" / "fork").stdout == b""
    outcomes = [json.loads(path.read_text())["outcome"] for path in Path("ledger").iterdir()]
    assert sorted(outcomes) == ["accepted", "rejected"]
    _a_text_that_may_change_is_recorded_and_then_accepted(monkeypatch, capsys)


def _a_text_that_may_change_is_recorded_and_then_accepted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the demo's directory, whose builds exist. With wide limits the commit that changes a token is accepted."""
    shutil.rmtree("ledger")
    workspace = Path("patchstack.yaml")
    workspace.write_text(
        workspace.read_text().replace("          chunks: 8\n", "          chunks: 8\n          mean: 0.1\n")
    )
    workspace.write_text(
        workspace.read_text().replace("          mean: 0.1\n", "          mean: 0.1\n          same_top: 90\n")
    )

    def patchstack(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["patchstack", *arguments])
        capsys.readouterr()
        code = guarded(app)
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    code, told = patchstack("accept", "coarse-keys", "--engine", "host")
    assert code == 1
    assert ": PASS, mean KLD " in told
    (key,) = re.findall(r"build candidate: (\w{12})", told)
    code, told = patchstack("gate", "record", "greedy", "--build", key, "--why", "coarser keys")
    assert code == 0, told
    code, told = patchstack("accept", "coarse-keys", "--engine", "host")
    assert code == 0, told
    assert "PASS     gate greedy (before): the reference is the candidate's; plain: the transcript differs" in told
    assert "PASS     gate greedy (candidate): plain: the reference's transcript" in told


_SAID = {
    "gate record": ["quick/greedy states.plain.expect: nothing -> "],
    "gate run": ["greedy   completion   PASS", "trace    engaged      PASS", "mul-mat  backend-ops  PASS"],
    "accept paged-next": ["accepted acf7e15abaf1: the series paged has it now"],
    "verify paged": [f"paged: holds: base {PIN}"],
    "accept coarse-keys": ["not accepted: gate greedy (candidate). The series is unchanged"],
    "reject coarse-keys": ["rejected "],
    "accept short-log": ["not accepted: gate greedy (candidate), gate trace (candidate). The series is unchanged"],
    "ledger": ["perf(kv): keys in steps of a quarter", "Half as many look-ups", "Look around: cd ", "Go on: cd "],
}


@needs_compilers
def test_the_fork_builds_runs_and_says_what_upstream_says(tmp_path: Path) -> None:
    demo = build_demo(tmp_path / "demo")
    run_git("switch", "-q", "--detach", PIN, cwd=demo.root / "upstream")
    run_git("switch", "-q", "paged", cwd=demo.root / "fork")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "LC_ALL": "C",
        **compiler_cache.variables(),
    }

    def run(*args: str | Path, **extra: str) -> str:
        return subprocess.run(
            [str(arg) for arg in args], check=True, capture_output=True, text=True, env={**environment, **extra}
        ).stdout

    said = {}
    for name in ("upstream", "fork"):
        build = tmp_path / f"build-{name}"
        run("cmake", "-S", demo.root / name, "-B", build, *QUICK, *compiler_cache.cmake_options())
        run("cmake", "--build", build, "-j2")
        run("ctest", "--test-dir", build, "--output-on-failure")
        program = next(path for path in build.rglob("minillm-completion") if path.is_file())
        for switch in ("0", "1"):
            extra = {"MINILLM_KV_PAGED": "1"} if switch == "1" else {}
            said[name, switch] = run(program, "--random-seed", "1", "-p", "Hello", "-n", "16", **extra)
    assert len(set(said.values())) == 1
    maker = next(path for path in (tmp_path / "build-fork").rglob("minillm-make-model") if path.is_file())
    run(maker, "-o", tmp_path / "made.mllm", "--seed", "1")
    if platform.machine() == "x86_64":  # other compilers may round once where this one rounds twice
        assert (tmp_path / "made.mllm").read_bytes() == model_file(1)
    assert next(iter(said.values())).startswith("Hello")
