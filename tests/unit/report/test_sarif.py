"""SARIF of lint: the requirements of the standard, and of GitHub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conftest import RunCli
from tests.support.builders import a_fork


def sarif_of(tmp_path: Path, run_cli: RunCli, edit: str) -> tuple[dict[str, Any], Path]:
    fork = a_fork(tmp_path)
    patch = fork.edit_patch(2, "+changed by commit 2", f"+{edit}")
    (tmp_path / "lint.json").write_text(run_cli("lint", *fork.sources, "--json").stdout)
    told = run_cli("ci", "sarif", tmp_path / "lint.json", "--patches", fork.series, "--root", tmp_path)
    assert told.code == 0, told
    return json.loads(told.stdout), patch


def test_it_has_what_the_standard_requires(tmp_path: Path, run_cli: RunCli) -> None:
    document, patch = sarif_of(tmp_path, run_cli, "/home/jane/[x](http://evil)")
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "patchstack lint"
    (result,) = run["results"]
    assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "home-path"
    assert result["level"] in ("none", "note", "warning", "error")
    (location,) = result["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == f"patches/{patch.name}"
    line = location["physicalLocation"]["region"]["startLine"]
    assert "/home/jane" in patch.read_text().split("\n")[line - 1]
    assert all(rule["shortDescription"]["text"] and rule["help"]["text"] for rule in driver["rules"])


def test_brackets_in_a_message_make_no_link(tmp_path: Path, run_cli: RunCli) -> None:
    document, _ = sarif_of(tmp_path, run_cli, "\t[x](http://evil) ")
    messages = [result["message"]["text"] for result in document["runs"][0]["results"]]
    assert messages
    assert not any("[x](" in message.replace("\\[x\\](", "") for message in messages), messages


def test_a_finding_is_known_again_when_lines_move(tmp_path: Path, run_cli: RunCli) -> None:
    first, patch = sarif_of(tmp_path, run_cli, "/home/jane/x")
    patch.write_text(patch.read_text().replace("\n---\n", "\nOne more line of message.\n---\n"))
    fork_pin = json.loads((tmp_path / "lint.json").read_text())["base"]["commit"]
    sources = ["--patches", patch.parent, "--upstream", tmp_path / "upstream", "--pin", fork_pin]
    (tmp_path / "lint.json").write_text(run_cli("lint", *sources, "--json").stdout)
    told = run_cli("ci", "sarif", tmp_path / "lint.json", "--patches", patch.parent, "--root", tmp_path)
    (old,), (new,) = first["runs"][0]["results"], json.loads(told.stdout)["runs"][0]["results"]
    assert old["partialFingerprints"] == new["partialFingerprints"]
    assert old["locations"] != new["locations"]


def test_without_a_document_of_lint_there_is_none(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path)
    (tmp_path / "verify.json").write_text(run_cli("verify", *fork.options, "--json").stdout)
    assert "the input contains no lint document" in run_cli("ci", "sarif", tmp_path / "verify.json").stderr
