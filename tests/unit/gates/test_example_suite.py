"""The suite in docs/examples and the entries in the guide can be read, and agree with the notebook."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from patchstack.gates.kinds import backend_ops, completion
from patchstack.gates.registry import KINDS
from patchstack.gates.suite import read_suites
from patchstack.workspace import read_workspace
from tests.support.checkout import ROOT

GUIDE = ROOT / "docs" / "guides" / "gates.md"
SERIES = f"series: {{x: {{patches: p, upstream: u, pin: {'0' * 40!r}}}}}\n"
EXAMPLE = ROOT / "docs" / "examples" / "canonical-suite.yaml"


def test_the_canonical_suite_is_read_without_a_complaint() -> None:
    (suite,) = read_suites(read_workspace(EXAMPLE))
    assert suite.name == "canonical"
    assert [(gate.name, gate.kind) for gate in suite.gates] == [
        ("moe-greedy", "completion"),
        ("dense-greedy", "completion"),
        ("mul-mat", "backend-ops"),
        ("mul-mat-id", "backend-ops"),
    ]


def test_its_completions_are_the_command_lines_that_its_comment_shows() -> None:
    (shown,) = (line for line in EXAMPLE.read_text().splitlines() if "</dev/null" in line)
    command = shown.lstrip("# ").removesuffix(" </dev/null").replace('"The capital of France is"', "PROMPT").split()
    (suite,) = read_suites(read_workspace(EXAMPLE))
    for gate in suite.gates[:2]:
        assert isinstance(gate.settings, completion.CompletionSettings)
        program = gate.settings.prompting.completion()
        model = gate.settings.prompting.model.name
        words = ["MODEL" if one == f"{{model:{model}}}" else one for one in (program.name, *program.args)]
        words = ["PROMPT" if one == "The capital of France is" else one for one in words]
        assert words == [*command, "-fit", "off", "--perf"]


def test_each_state_has_its_own_environment_and_reference() -> None:
    (suite,) = read_suites(read_workspace(EXAMPLE))
    common = {"LLAMA_MOE_FORCE_GRAPHS": "1", "GGML_NO_BACKTRACE": "1"}
    found = {}
    for gate in suite.gates[:2]:
        assert isinstance(gate.settings, completion.CompletionSettings)
        for state in gate.settings.states:
            env = {**dict(gate.settings.prompting.env), **dict(state.env)}
            found[gate.name, state.name] = (env, state.expect)
    paged = {**common, "LLAMA_KV_PAGED": "1"}
    assert found == {
        ("moe-greedy", "paged"): (paged, "8cb0ce23777bf55f92f63d0292c756b0"),
        ("moe-greedy", "plain"): (common, "07db32c2bcb78d17a43ed18bc22705cd"),
        ("dense-greedy", "paged"): (paged, "5951a5b4d624ce891e22ab5fca9bc439"),
    }


def test_its_operators_have_the_counts_that_must_run() -> None:
    (suite,) = read_suites(read_workspace(EXAMPLE))
    counts = {}
    for gate in suite.gates[2:]:
        assert isinstance(gate.settings, backend_ops.OperatorSettings)
        assert gate.settings.backend == "CUDA0"
        counts[gate.settings.ops] = gate.settings.expected
    assert counts == {("MUL_MAT",): 1146, ("MUL_MAT_ID",): 806}


def test_every_entry_that_the_guide_shows_can_be_read(tmp_path: Path) -> None:
    blocks = re.findall(r"^```yaml\n(- .*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "corpus.txt").write_text("a text")
    (tmp_path / "references").mkdir()
    (tmp_path / "references" / "moe.json").write_text("[1, 2]")
    entries = textwrap.indent("".join(blocks), "      ")
    models = "".join(f"  {name}: {{path: {name}.gguf}}\n" for name in ("q36-35b", "q36-35b-f16"))
    path = tmp_path / "patchstack.yaml"
    path.write_text(f"{SERIES}models:\n{models}suites:\n  guide:\n    gates:\n{entries}")
    (suite,) = read_suites(read_workspace(path))
    assert sorted({gate.kind for gate in suite.gates}) == sorted(KINDS)
    measured = [
        gate.settings.measure for gate in suite.gates if isinstance(gate.settings, completion.CompletionSettings)
    ]
    assert [one.build for one in measured if one is not None] == ["4b77161d29e1"]
