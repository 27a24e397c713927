"""Who chooses what a series is compared with: the base, not the pull request. And what gates say as a predicate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from patchstack.cli.ci.guard import COMPARED, differences, hold_against_base
from patchstack.errors import MissingError, NotHeldError
from patchstack.report.documents.gates import GatesDocument, gate_predicate
from tests.support.builders import run_git
from tests.unit.report.documents.test_read import GATES, the_report

PAGED = {"patches": "patches", "upstream": "https://u", "fork": "https://f", "fork_ref": "main"}
YAML = """series:
  {name}:
    patches: patches
    upstream: https://u
    pin: '{pin}'
    fork: {fork}
    fork_ref: main
"""


@pytest.mark.parametrize("key", COMPARED)
def test_each_part_of_a_comparison_is_held(key: str) -> None:
    changed, new = differences({"paged": PAGED}, {"paged": {**PAGED, key: "other"}})
    assert changed == [f"paged: {key} is other, in the base {PAGED[key]}"]
    assert new == []


def test_a_part_that_is_left_out_is_a_change() -> None:
    without = {key: value for key, value in PAGED.items() if key != "fork_ref"}
    assert differences({"paged": PAGED}, {"paged": without})[0] == ["paged: fork_ref is not set, in the base main"]


def test_a_series_that_is_gone_is_a_change_and_a_new_one_is_told() -> None:
    changed, new = differences({"paged": PAGED}, {"paged2": PAGED})
    assert changed == ["paged is gone"]
    assert new == ["series paged2 is new with this pull request: see what it is compared with"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    run_git("init", "-q", "--template=", "--initial-branch=main", tmp_path / "r", cwd=tmp_path)
    return tmp_path / "r"


def commit(root: Path, text: str | None) -> str:
    if text is not None:
        (root / "patchstack.yaml").write_text(text)
    run_git("add", "--all", cwd=root)
    run_git("commit", "-q", "--allow-empty", "-m", "x", cwd=root)
    return run_git("rev-parse", "HEAD", cwd=root).stdout.decode().strip()


def test_another_pin_is_no_other_comparison(root: Path) -> None:
    base = commit(root, YAML.format(name="paged", pin="a" * 40, fork="https://f"))
    (root / "patchstack.yaml").write_text(YAML.format(name="paged", pin="b" * 40, fork="https://f"))
    assert hold_against_base(root, "patchstack.yaml", base) == []


def test_a_workspace_that_is_new_is_told(root: Path) -> None:
    base = commit(root, None)
    (root / "patchstack.yaml").write_text(YAML.format(name="paged", pin="a" * 40, fork="https://f"))
    (told,) = hold_against_base(root, "patchstack.yaml", base)
    assert told.startswith("patchstack.yaml is new with this pull request")


def test_a_base_whose_workspace_is_broken_holds_nothing(root: Path) -> None:
    base = commit(root, "series: 7\n")
    (root / "patchstack.yaml").write_text(YAML.format(name="paged", pin="a" * 40, fork="https://f"))
    with pytest.raises(NotHeldError, match="of the base cannot be used"):
        hold_against_base(root, "patchstack.yaml", base)


@pytest.mark.parametrize("base", ["", "0" * 40])
def test_a_commit_that_is_no_merge_has_no_base(root: Path, base: str) -> None:
    commit(root, YAML.format(name="paged", pin="a" * 40, fork="https://f"))
    with pytest.raises(MissingError, match="is not here"):
        hold_against_base(root, "patchstack.yaml", base)


def predicate(document: dict[str, Any]) -> dict[str, Any]:
    """The predicate of a document, as it is read."""
    found = the_report(document)
    assert isinstance(found, GatesDocument)
    return gate_predicate(found)


def test_only_all_passes_are_passed() -> None:
    assert predicate(GATES)["result"] == "WARNED"
    passing = [gate for gate in GATES["gates"] if gate["verdict"] == "PASS"]
    assert predicate({**GATES, "gates": passing})["result"] == "PASSED"
    failing = [*passing, {**passing[0], "verdict": "FAIL", "name": "ops"}]
    found = predicate({**GATES, "gates": failing})
    assert (found["result"], found["failedTests"], found["passedTests"]) == ("FAILED", ["quick/ops"], ["quick/greedy"])
    assert predicate({**GATES, "gates": []})["result"] == "FAILED", "no gates are no pass"
