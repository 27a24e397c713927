"""Variants and suites as jobs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from patchstack.builds.inputs.variant import load_variants
from patchstack.errors import UsageError
from patchstack.workflow.matrix import LARGEST, RUNNERS, matrix
from tests.conftest import Patchstack, RunCli
from tests.runner.jobs import values_of

WORKSPACE = """
series:
  paged:
    patches: patches
    upstream: upstream
    pin: "0123456789abcdef0123456789abcdef01234567"
    variant: mine
variants:
  mine: {extends: cuda-sm121}
models: {tiny: {path: tiny.gguf}}
suites:
  quick: {gates: [{name: ops, kind: backend-ops, backend: CPU, op: ADD}]}
  long: {gates: [{name: ops, kind: backend-ops, backend: CPU, op: ADD}]}
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "patchstack.yaml").write_text(WORKSPACE)
    return tmp_path


def jobs(run_cli: RunCli, *args: str) -> list[tuple[str, str, str]]:
    rows = run_cli("ci", "matrix", *args).document["include"]
    return [(row["variant"], row["runner"], row["suite"]) for row in rows]


def test_without_words_it_is_cpu_and_what_the_series_are_built_as(workspace: Path, run_cli: RunCli) -> None:
    assert jobs(run_cli) == [("cpu", "ubuntu-24.04", ""), ("mine", "ubuntu-24.04-arm", "")]


def test_a_variant_may_be_compiled_on_another_platform(workspace: Path, run_cli: RunCli) -> None:
    assert jobs(run_cli, "--variant", "cpu cuda-sm121, cuda-sm121@linux/amd64") == [
        ("cpu", "ubuntu-24.04", ""),
        ("cuda-sm121", "ubuntu-24.04-arm", ""),
        ("cuda-sm121", "ubuntu-24.04", ""),
    ]


def test_every_variant_meets_every_suite(workspace: Path, run_cli: RunCli) -> None:
    found = jobs(run_cli, "--suite", "all", "--runner", "linux/arm64=gb10")
    assert found == [
        ("cpu", "ubuntu-24.04", "quick"),
        ("cpu", "ubuntu-24.04", "long"),
        ("mine", "gb10", "quick"),
        ("mine", "gb10", "long"),
    ]


def test_gpu_programs_are_not_started_where_there_is_no_gpu(workspace: Path, run_cli: RunCli) -> None:
    rows = run_cli("ci", "matrix").document["include"]
    assert [row["args"] for row in rows] == [
        "--variant cpu --platform linux/amd64",
        "--variant mine --platform linux/arm64 --unproven runs",
    ]
    assert [row["arch"] for row in rows] == ["", "121a-real"]


def test_a_variant_s_name_stays_one_word(workspace: Path, run_cli: RunCli) -> None:
    text = WORKSPACE.replace("mine", "'cpu --engine host'")
    (workspace / "patchstack.yaml").write_text(text)
    (_, row) = run_cli("ci", "matrix").document["include"]
    assert shlex.split(row["args"])[:2] == ["--variant", "cpu --engine host"]


def test_none_is_a_word_for_nothing(workspace: Path, run_cli: RunCli) -> None:
    assert jobs(run_cli, "--variant", "none") == []


def test_the_matrix_goes_to_the_runner(
    workspace: Path, patchstack: Patchstack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_OUTPUT", str(workspace / "output"))
    assert patchstack("ci", "matrix", "--variant", "cpu", "--output") == 0
    values = values_of((workspace / "output").read_text())
    assert values["jobs"] == "1"
    assert json.loads(values["matrix"])["include"][0]["variant"] == "cpu"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--variant", "cuda-sm12"], "there is no variant cuda-sm12"),
        (["--variant", "cuda"], "there is no variant cuda"),
        (["--variant", "cpu@windows/amd64"], "no runner for 'windows/amd64'"),
        (["--suite", "quik"], "perhaps you meant quick"),
        (["--runner", "linux/amd64"], "is not OS/ARCH=LABEL"),
        (["--runner", "linux/mips=x"], "is not OS/ARCH=LABEL"),
        (["--output"], "GITHUB_OUTPUT is not set"),
    ],
)
def test_what_is_not_there_is_told(workspace: Path, run_cli: RunCli, args: list[str], words: str) -> None:
    ran = run_cli("ci", "matrix", *args)
    assert ran.code in (2, 3)
    assert words in ran.stderr


def test_too_many_jobs_are_refused() -> None:
    suites = [f"s{number}" for number in range(LARGEST)]
    with pytest.raises(UsageError, match="jobs, the limit is 256"):
        matrix(load_variants(), ["cuda-sm121"], suites, suites=("all",), runners=RUNNERS)


def test_all_suites_of_none_is_an_error() -> None:
    with pytest.raises(UsageError, match="the workspace has no suites"):
        matrix(load_variants(), [], [], suites=("all",), runners=RUNNERS)
