"""The requirements that `accept:` may have."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.bench.judge import Demand
from patchstack.bench.terms import BenchTerm, read_terms
from patchstack.errors import ConfigError
from patchstack.workspace import read_workspace

SERIES = """\
series:
  s: {patches: p, upstream: u, pin: "1111111111111111111111111111111111111111"}
workloads:
  quick: {kind: command, program: speed, figures: {rate: "^rate: ([0-9.]+)$"}, demand: keep}
  slow: {kind: command, program: speed, figures: {rate: "^rate: ([0-9.]+)$"}}
"""


def terms(tmp_path: Path, accept: str) -> tuple[BenchTerm, ...]:
    path = tmp_path / "patchstack.yaml"
    path.write_text(SERIES + accept)
    return read_terms(read_workspace(path))


def test_nothing_is_asked_unless_the_workspace_asks(tmp_path: Path) -> None:
    assert terms(tmp_path, "") == ()
    assert terms(tmp_path, "accept: {}\n") == ()


def test_the_demand_is_the_workloads_unless_another_is_given(tmp_path: Path) -> None:
    one, two = terms(
        tmp_path,
        "accept:\n  bench:\n    - {workload: quick}\n"
        "    - {workload: slow, demand: not-worse, variant: gpu, env: {LLAMA_KV_PAGED: 1}}\n",
    )
    assert (one.name, one.demand, one.env, one.variant) == ("quick", Demand.KEEP, {}, None)
    assert (two.name, two.demand, two.env, two.variant) == ("slow", Demand.NOT_WORSE, {"LLAMA_KV_PAGED": "1"}, "gpu")


@pytest.mark.parametrize(
    ("accept", "told"),
    [
        ("accept:\n  bench: [{workload: quik}]\n", ":7: accept.bench: workload: `workloads:` has no quik; perhaps"),
        ("accept:\n  bench: [{demand: keep}]\n", "workload: is missing"),
        ("accept:\n  bench: [{workload: slow}]\n", "demand: it is missing"),
        ("accept:\n  bench: [{workload: slow, demand: fast}]\n", "'fast' is neither keep nor not-worse"),
        ("accept:\n  bench: [{workload: quick, margin: 1}]\n", "margin: unknown key"),
        ("accept:\n  bench: [{workload: quick, env: {a b: 1}}]\n", "a b: "),
        ("accept:\n  benchmarks: []\n", "benchmarks: unknown key, perhaps you meant bench"),
    ],
)
def test_what_cannot_be_asked_is_said_with_its_line(tmp_path: Path, accept: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        terms(tmp_path, accept)
    text = "\n".join(caught.value.problems)
    assert told.split(": ")[-1] in text, text
    assert "patchstack.yaml:7" in text or "patchstack.yaml:8" in text, text
