"""Programs with GPU code that see no GPU are not judged, because they compute on the CPU and exit with 0."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchstack.files.places import cache_places
from tests.conftest import Patchstack
from tests.support import smi
from tests.support.compiled import DEVICE_CODE, compile_c
from tests.support.programs import program

WORKSPACE = """\
series:
  x: {patches: p, upstream: u, pin: "0000000000000000000000000000000000000000"}
suites:
  quick:
    allow: [cpu-load, containers]
    gates:
      - {name: fast, kind: command, program: hello, must: "^hello"}
      - {name: plain, kind: command, program: hello, must: "^hello", gpu: false}
"""
H200 = "  CUDA0: NVIDIA H200 (143155 MiB, 142600 MiB free)"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a workspace with programs for a GPU, on a machine with an idle GPU."""
    monkeypatch.setenv("PATH", smi.install(tmp_path / "tools", smi.H200)["PATH"])
    (tmp_path / "patchstack.yaml").write_text(WORKSPACE)
    compile_c(f"{DEVICE_CODE} int main(void) {{ return 0; }}", tmp_path / "bin" / "kernels")
    program(tmp_path / "bin", "hello", f"echo hello; echo hello >>{tmp_path}/ran")
    return tmp_path


def tool(workspace: Path, *lines: str, name: str = "llama-completion", code: int = 0) -> None:
    """Write a program of llama.cpp that prints these lines for `--list-devices`, and records each call."""
    printed = "\n".join(lines)
    script = f'echo "$@" >>{workspace}/asked\ncat <<"END"\n{printed}\nEND\nexit {code}'
    program(workspace / "bin", name, script)


@pytest.mark.parametrize(
    ("listed", "words"),
    [((), "none"), (("  BLAS: OpenBLAS (0 MiB, 0 MiB free)",), "BLAS: OpenBLAS (0 MiB, 0 MiB free)")],
    ids=["nothing", "another device"],
)
def test_a_gate_that_needs_the_gpu_is_not_run(
    workspace: Path,
    patchstack: Patchstack,
    capsys: pytest.CaptureFixture[str],
    listed: tuple[str, ...],
    words: str,
) -> None:
    tool(workspace, "Available devices:", *listed)
    assert patchstack("gate", "run", "--bin", "bin", "--json") == 4
    printed = capsys.readouterr()
    reason = f"llama-completion finds no CUDA device (it lists {words}), so it would compute on the CPU"
    assert f"error: {reason}" in printed.err
    assert "hint: run 'patchstack gpu status' to show the driver" in printed.err
    gates = {one["name"]: (one["verdict"], one["reason"]) for one in json.loads(printed.out)["gates"]}
    assert gates["fast"] == ("INVALID", reason)
    assert gates["plain"][0] == "PASS"
    assert (workspace / "ran").read_text() == "hello\n"


def test_a_reference_is_not_taken_either(
    workspace: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    tool(workspace, "Available devices:")
    assert patchstack("gate", "record", "fast", "--bin", "bin", "--why", "new") == 4
    assert "it would compute on the CPU" in capsys.readouterr().err
    assert not (workspace / "ran").exists()


def test_it_is_asked_anew_each_time(
    workspace: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    tool(workspace, "ggml_cuda_init: found 1 CUDA devices", "Available devices:", H200)
    for _ in range(2):
        assert patchstack("gate", "run", "fast", "--bin", "bin") == 0
    assert (workspace / "asked").read_text() == "--list-devices\n" * 2
    assert (workspace / "ran").read_text() == "hello\n"  # kept as before
    kept = [json.loads(path.read_text()) for path in cache_places().observations.glob("*.json")]
    assert [one["facts"]["what"] for one in kept if one["ingredients"]["program"] == "llama-completion"] == []
    tool(workspace, "Available devices:")
    assert patchstack("gate", "run", "fast", "--bin", "bin") == 4


@pytest.mark.parametrize(
    "told",
    [("error: invalid argument: --list-devices",), ("CUDA0: no head above it",)],
    ids=["an older one", "something else"],
)
def test_programs_that_cannot_say_are_not_held_up(
    workspace: Path, patchstack: Patchstack, told: tuple[str, ...]
) -> None:
    tool(workspace, *told, name="llama-server", code=1)
    assert patchstack("gate", "run", "fast", "--bin", "bin") == 0
    assert (workspace / "asked").read_text() == "--list-devices\n"


def test_programs_without_gpu_code_are_not_asked(workspace: Path, patchstack: Patchstack) -> None:
    (workspace / "bin" / "kernels").unlink()
    tool(workspace, "Available devices:")
    assert patchstack("gate", "run", "fast", "--bin", "bin") == 0
    assert not (workspace / "asked").exists()
