"""A suite on a machine whose GPU cannot be used now: gates that need no GPU run, the others are INVALID, in one
report."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from patchstack.gates.suite import read_suites
from patchstack.workspace import read_workspace
from tests.conftest import Patchstack
from tests.support.compiled import DEVICE_CODE, compile_c
from tests.support.programs import program

WORKSPACE = """\
series:
  x: {patches: p, upstream: u, pin: "0000000000000000000000000000000000000000"}
suites:
  quick:
    gates:
      - {name: plain, kind: command, program: hello, must: "^hello -1$", gpu: false}
      - {name: fast, kind: command, program: hello, must: "^hello"}
      - {name: cpu-ops, kind: backend-ops, backend: CPU, op: ADD}
      - {name: gpu-ops, kind: backend-ops, backend: CUDA0, op: ADD}
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a workspace with programs for a GPU, on a machine whose nvidia-smi finds none."""
    program(tmp_path / "tools", "nvidia-smi", "echo 'No devices were found'; exit 6")
    monkeypatch.setenv("PATH", f"{tmp_path / 'tools'}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "patchstack.yaml").write_text(WORKSPACE)
    compile_c(f"{DEVICE_CODE} int main(void) {{ return 0; }}", tmp_path / "bin" / "kernels")
    program(tmp_path / "bin", "hello", f'echo run >>{tmp_path}/ran; echo "hello $CUDA_VISIBLE_DEVICES"')
    return tmp_path


def test_gates_that_need_no_gpu_are_run_and_the_others_are_not_judged(
    workspace: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    code = patchstack("gate", "run", "plain", "fast", "gpu-ops", "--bin", "bin", "--report", "out", "--json")
    printed = capsys.readouterr()
    assert code == 4
    assert "error: the machine is not fit for gates: " in printed.err
    assert "hint: wait until the machine is idle" in printed.err
    gates = {one["name"]: one for one in json.loads(printed.out)["gates"]}
    assert gates["plain"]["verdict"] == "PASS", gates["plain"]
    for name in ("fast", "gpu-ops"):
        assert gates[name]["verdict"] == "INVALID"
        assert gates[name]["reason"].startswith("the machine is not fit for gates: ")
        assert gates[name]["attempts"] == []
    assert (workspace / "ran").read_text() == "run\n"
    rows = [line.split("\t")[:3] for line in (workspace / "out" / "gate_summary.tsv").read_text().splitlines()]
    assert rows[1:] == [
        ["quick", "plain", "PASS"],
        ["quick", "fast", "INVALID"],
        ["quick", "gpu-ops", "INVALID"],
    ]


def test_a_suite_that_needs_no_gpu_asks_for_none(
    workspace: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    assert patchstack("gate", "run", "plain", "--bin", "bin") == 0
    assert "not fit" not in capsys.readouterr().err


def test_a_reference_is_not_taken_on_a_machine_that_is_not_fit(
    workspace: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    assert patchstack("gate", "record", "gpu-ops", "--bin", "bin", "--why", "new") == 4
    assert "error: the machine is not fit for gates" in capsys.readouterr().err
    assert not (workspace / "ran").exists()


def test_operators_of_the_cpu_need_no_gpu_and_all_else_does_unless_it_says_so(workspace: Path) -> None:
    (suite,) = read_suites(read_workspace(workspace / "patchstack.yaml"))
    assert {gate.name: gate.gpu for gate in suite.gates} == {
        "plain": False,
        "fast": True,
        "cpu-ops": False,
        "gpu-ops": True,
    }
