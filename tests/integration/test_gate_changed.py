"""After a changed transcript, the model is measured. Only evidence that it is the same allows a new reference."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Patchstack
from tests.support.minillm import Programs, built_upstream
from tests.support.programs import program

pytestmark = pytest.mark.skipif(
    shutil.which("cmake") is None or shutil.which("c++") is None, reason="needs cmake and a C++ compiler"
)

TOOLS = ("llama-completion", "llama-perplexity", "llama-server")
MEASURE = "text: text.txt, context: 128, batch: 128, chunks: 8"
SUITE = f"""\
series:
  x: {{patches: p, upstream: u, pin: "{"0" * 40}"}}
models:
  tiny: {{path: seed-1.mllm}}
  other: {{path: seed-2.mllm}}
suites:
  quick:
    gates:
      - name: greedy
        kind: completion
        model: tiny
        prompt: The capital of France is
        context: 512
        states:
          plain: {{}}
        kl: {{{MEASURE}, build: good}}
      - name: bare
        kind: completion
        model: tiny
        prompt: The capital of France is
        context: 512
      - name: ids
        kind: tokens
        model: tiny
        prompt: The capital of France is
        context: 512
        kl: {{{MEASURE}, build: good}}
      - {{name: right, kind: kl, base: tiny, model: tiny, {MEASURE}, base_build: good}}
      - {{name: itself, kind: kl, base: tiny, model: tiny, {MEASURE}, base_env: {{MINILLM_N_BATCH: 8}}}}
      - {{name: switched, kind: kl, base: tiny, model: tiny, {MEASURE}, base_build: good, env: {{MINILLM_N_BATCH: 8}}}}
      - {{name: elsewhere, kind: kl, base: other, model: other, {MEASURE}, base_build: good}}
      - {{name: layered, kind: kl, base: tiny, model: tiny, {MEASURE}, base_build: good, args: [-ngl, "0"]}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A workspace with three directories of programs: `good`; `flips`, which has the same model and transcripts with a
    different token; and `wrong`, which runs another model."""

    root: Path
    patchstack: Patchstack
    capsys: pytest.CaptureFixture[str]

    def run(self, *args: str) -> tuple[int, str]:
        self.capsys.readouterr()
        code = self.patchstack(*args, "--engine", "host")
        printed = self.capsys.readouterr()
        return code, printed.out + printed.err

    def gate(self, gate: str, build: str) -> dict[str, Any]:
        self.capsys.readouterr()
        self.patchstack("gate", "run", gate, "--bin", build, "--engine", "host", "--json")
        (found,) = json.loads(self.capsys.readouterr().out)["gates"]
        assert isinstance(found, dict)
        return found

    def record(self, gate: str, build: str, *because: str) -> tuple[int, str]:
        named = [word for name in because for word in ("--because", name)]
        return self.run("gate", "record", gate, "--bin", build, "--why", "so it is now", *named)

    @property
    def text(self) -> str:
        return (self.root / "patchstack.yaml").read_text()


@pytest.fixture(scope="module")
def minillm(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(built_upstream(tmp_path_factory), tmp_path_factory.mktemp("models"))


@pytest.fixture
def workspace(
    minillm: Programs, tmp_path: Path, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> Workspace:
    for name in ("seed-1.mllm", "seed-2.mllm", "text.txt"):
        shutil.copy2(minillm.work / name, tmp_path / name)
    for name in TOOLS:
        call = f'exec {minillm.bin / name} "$@"'
        program(tmp_path / "good", name, call)
        program(tmp_path / "flips", name, call if name == "llama-perplexity" else f"MINILLM_FAULT=flip-token {call}")
        other = (
            f'for word; do shift; case $word in *seed-1.mllm) word={tmp_path}/seed-2.mllm;; esac; set -- "$@" "$word"'
        )
        program(tmp_path / "wrong", name, f"{other}; done; {call}")
    (tmp_path / "patchstack.yaml").write_text(SUITE)
    return Workspace(root=tmp_path, patchstack=patchstack, capsys=capsys)


@pytest.mark.local_server
@pytest.mark.parametrize("gate", ["greedy", "ids"])
def test_the_model_is_measured_by_itself_where_a_transcript_changed(gate: str, workspace: Workspace) -> None:
    code, told = workspace.record(gate, "good")
    assert code == 0, told
    same = workspace.gate(gate, "good")
    assert (same["verdict"], "kl" in same["details"]) == ("PASS", False)

    flipped = workspace.gate(gate, "flips")
    assert flipped["verdict"] == "FAIL", "a measurement changes no verdict"
    (kl,) = flipped["details"]["kl"]
    assert (kl["verdict"], kl["evidence"], kl["positions"]) == ("PASS", True, 504)
    assert kl["statistics"]["same_top"] == 100
    assert f"against build {workspace.root / 'good'}: PASS, mean KLD" in flipped["reason"].replace(
        "./", f"{workspace.root}/"
    )
    assert any(one["what"] == "compare at 128" for one in flipped["attempts"])

    wrong = workspace.gate(gate, "wrong")
    (kl,) = wrong["details"]["kl"]
    assert (wrong["verdict"], kl["verdict"]) == ("FAIL", "FAIL")
    assert "not below 0.001" in wrong["reason"]


@pytest.mark.local_server
@pytest.mark.parametrize("gate", ["greedy", "ids"])
def test_a_changed_reference_is_recorded_where_the_model_is_the_same_and_refused_where_not(
    gate: str, workspace: Workspace
) -> None:
    workspace.record(gate, "good")
    before = workspace.text
    code, told = workspace.record(gate, "wrong")
    assert code == 1
    assert "the transcript changed, and nothing shows that the model is the same" in told
    assert "FAIL, the mean KL divergence is" in told
    assert workspace.text == before
    code, told = workspace.record(gate, "flips")
    assert code == 0, told
    assert "so it is now (KL against build " in workspace.text
    assert "PASS, mean KLD" in workspace.text
    assert workspace.gate(gate, "flips")["verdict"] == "PASS"
    assert workspace.gate(gate, "good")["verdict"] == "FAIL"


@pytest.mark.parametrize(
    ("because", "problem"),
    [
        ("itself", "its base is of this build too, so an error of both sides would not show"),
        ("switched", "it runs with MINILLM_N_BATCH=8, but the gate with no variables"),
        ("elsewhere", "its model is other, not tiny"),
        ("layered", "it runs with -ngl 0 -fa on, but the gate with -ngl 99 -fa on"),
    ],
)
def test_evidence_of_something_else_is_none(because: str, problem: str, workspace: Workspace) -> None:
    workspace.record("bare", "good")
    before = workspace.text
    code, told = workspace.record("bare", "flips", because)
    assert code == 1
    assert f"{because}: {problem}" in told
    assert workspace.text == before


def test_evidence_of_this_build_against_the_references_lets_it_go(workspace: Workspace) -> None:
    workspace.record("bare", "good")
    code, told = workspace.record("bare", "flips")
    assert code == 1
    assert "hint: add kl: to the gate, so that it measures the model; or name" in told
    code, told = workspace.record("bare", "wrong", "right")
    assert code == 1
    assert "right: it is FAIL: the mean KL divergence is" in told
    code, told = workspace.record("bare", "flips", "itself", "right")
    assert code == 0, told
    assert "so it is now (right: PASS, mean KLD" in workspace.text


def test_a_base_that_is_not_the_references_build_shows_nothing(workspace: Workspace) -> None:
    workspace.record("greedy", "wrong")
    flipped = workspace.gate("greedy", "flips")
    (kl,) = flipped["details"]["kl"]
    assert (flipped["verdict"], kl["verdict"], kl["evidence"]) == ("FAIL", "INVALID", False)
    assert "it does not give the reference's transcript either, but " in kl["reason"]
    code, told = workspace.record("greedy", "flips", "right")
    assert code == 1
    assert "is not the build of the reference: it does not give the reference's transcript either" in told
    path = workspace.root / "patchstack.yaml"
    for build, reason in (
        ("flips", "that is this build: a model would be compared with itself"),
        ("gone", "it is not a directory"),
        ("0123456789ab", "there is no build 0123456789ab"),
    ):
        path.write_text(workspace.text.replace("build: good", f'build: "{build}"', 1))
        (kl,) = workspace.gate("greedy", "flips")["details"]["kl"]
        assert kl["verdict"] == "INVALID"
        assert reason in kl["reason"]
        path.write_text(workspace.text.replace(f'build: "{build}"', "build: good", 1))
    path.write_text(workspace.text.replace(", build: good}", "}", 1).replace("          build: good\n", "", 1))
    (kl,) = workspace.gate("greedy", "flips")["details"]["kl"]
    assert kl["reason"] == "there is no build to compare with: kl: has no build, which gate record writes"


def test_a_state_that_is_not_as_another_is_measured_against_that_one(workspace: Workspace) -> None:
    path = workspace.root / "patchstack.yaml"
    flips = "flips: {env: {MINILLM_FAULT: flip-token}, same_as: plain}"
    path.write_text(SUITE.replace("          plain: {}\n", f"          plain: {{}}\n          {flips}\n"))
    found = workspace.gate("greedy", "good")
    (kl,) = found["details"]["kl"]
    assert (found["verdict"], kl["state"], kl["against"], kl["verdict"]) == ("FAIL", "flips", "state plain", "PASS")
    assert not kl["evidence"], "both sides are of one build"
    assert "KL of flips against state plain: PASS" in found["reason"]


def test_with_a_base_model_alone_there_is_a_figure_and_no_evidence(workspace: Workspace) -> None:
    workspace.record("greedy", "good")
    path = workspace.root / "patchstack.yaml"
    path.write_text(workspace.text.replace("build: good", "base: other", 1))
    (kl,) = workspace.gate("greedy", "flips")["details"]["kl"]
    assert (kl["against"], kl["verdict"], kl["evidence"]) == ("model other on this build", "FAIL", False)
