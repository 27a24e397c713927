"""Documents in, text out: for every kind, and for invalid input."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from patchstack.report.documents.read import Report, read_documents
from tests.conftest import Ran, RunCli
from tests.support.builders import a_fork

_NAMES = ("variant", "engine", "platform", "targets", "jobs", "memory", "cpus", "time", "ccache", "toolchain")
BUILD: dict[str, Any] = {
    "schema": "patchstack.build/1",
    "key": "ab" * 32,
    "status": "rejected",
    "hit": False,
    "engine": {"spec": "host", "kind": "host", "endpoint": "here", "version": "6.1", "platform": "linux/amd64"},
    "variant": "cpu",
    "platform": "linux/amd64",
    "arch": None,
    "source": {
        "label": "product, 3 patches",
        "tree": "cd" * 20,
        "pin": "12" * 20,
        "upstream": "../upstream",
        "series": "holds",
        "patches": [],
        "absent": [],
    },
    "options": {**{name: {"value": None, "from": "default"} for name in _NAMES}, "cmake": {}, "compile": {}},
    "inputs": {},
    "notes": [],
    "started": "2026-07-01T00:00:00Z",
    "finished": "2026-07-01T00:01:00Z",
    "wall_s": 60.0,
    "seconds": {"compile": 60.0},
    "ccache": None,
    "binaries": [],
    "proofs": [{"id": "exists", "verdict": "FAIL", "detail": "no `binary` | here"}],
    "out_dir": "/cache/builds/ab",
    "log": "/cache/builds/ab/log",
    "rejection": {
        "kind": "compile",
        "message": "::error::'x' was not declared",
        "file": "src/kernel.cu",
        "line": 20,
        "patch": None,
        "origin": "",
        "block": ["```", "src/kernel.cu:20: error"],
    },
}


def _gate(name: str, kind: str, verdict: str, reason: str) -> dict[str, Any]:
    said = {"suite": "quick", "name": name, "schema": "patchstack.gate/1", "kind": kind, "verdict": verdict}
    return {**said, "reason": reason, "actual": "", "expected": "", "details": {}, "attempts": []}


GATES: dict[str, Any] = {
    "schema": "patchstack.gates/1",
    "suite": "quick",
    "programs": "build abc on host",
    "verdicts": {"PASS": 1, "FAIL": 0, "INVALID": 1},
    "gates": [
        _gate("greedy", "completion", "PASS", "as recorded"),
        _gate("ops", "backend-ops", "INVALID", "nothing | tested"),
    ],
}


def the_report(document: dict[str, Any]) -> Report:
    """Return the document from its reader."""
    (found,) = read_documents(json.dumps(document), "here")
    return found


@pytest.fixture
def documents(tmp_path: Path, run_cli: RunCli) -> dict[str, Any]:
    """Return one document of each kind, real ones if that is quick."""
    fork = a_fork(tmp_path)
    fork.edit_patch(2, "+changed by commit 2", "+changed in /home/jane/x")
    fork.upstream.commit("Turn it upside down (#7)", {"src/kernel.cu": "nothing\n"})
    found = {
        "verify": run_cli("verify", *fork.options, "--json").document,
        "lint": run_cli("lint", *fork.sources, "--json").document,
        "canary": run_cli("canary", *fork.sources, "--blame", "--json").document,
        "build": {**BUILD, "rejection": {**BUILD["rejection"], "patch": fork.patch(2).name}},
        "gates": GATES,
    }
    assert found["verify"]["drift"] and found["lint"]["findings"] and found["canary"]["breaking"]
    return found


def asked(run_cli: RunCli, place: Path, verb: str, *documents: Any) -> Ran:
    """Run a command of `ci` on documents."""
    path = place / "documents.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in documents))
    where = ["--patches", place / "patches", "--root", place] if verb in ("annotate", "sarif") else []
    return run_cli("ci", verb, path, *where)


def test_every_kind_has_a_summary(documents: dict[str, Any], tmp_path: Path, run_cli: RunCli) -> None:
    told = asked(run_cli, tmp_path, "summary", *documents.values()).stdout
    tip = documents["canary"]["upstream"]["commit"]
    heads = [line for line in told.splitlines() if line.startswith("###")]
    assert heads == [
        "### verify <code>patches</code>: does not hold",
        "### lint <code>patches</code>: 1 finding in 3 patches",
        f"### canary <code>patches</code>: does not apply to upstream <code>{tip[:12]}</code>",
        "### build <code>cpu</code>: <code>rejected</code>",
        "### gates <code>quick</code>: 1 <code>PASS</code>, 1 <code>INVALID</code>",
    ]
    assert "<code>backend-ops</code> | **<code>INVALID</code>** | <code>nothing &#124; tested</code> |" in told
    assert "(<code>&#35;7</code>) <code>Turn it upside down (&#35;7)</code>" in told
    assert "````text\n```\nsrc/kernel.cu:20: error\n````" in told


def test_every_kind_has_annotations(documents: dict[str, Any], tmp_path: Path, run_cli: RunCli) -> None:
    told = asked(run_cli, tmp_path, "annotate", *documents.values()).stdout.splitlines()
    titles = [line.partition("title=")[2].partition("::")[0] for line in told]
    assert "patches%3A diverges" in titles
    assert "patches%3A home-path" in titles
    assert "cpu%3A compile" in titles and "cpu%3A proof exists" in titles
    assert "quick/ops" in titles and "quick/greedy" not in titles
    (compile_,) = [line for line in told if "cpu%3A compile" in line]
    assert compile_.startswith("::error file=patches/0002-") and compile_.endswith(
        "src/kernel.cu:20: ::error::'x' was not declared"
    )


def test_a_series_that_was_not_looked_at_is_an_error_everywhere(tmp_path: Path, run_cli: RunCli) -> None:
    document = {
        "schema": "patchstack.verify/1",
        "series": "a",
        "holds": None,
        "error": {"message": "no pin", "hint": "fetch it", "exit": 3},
    }
    assert asked(run_cli, tmp_path, "annotate", document).stdout == (
        "::error title=patchstack verify a::no pin%0Ahint: fetch it\n"
    )
    assert "not examined" in asked(run_cli, tmp_path, "summary", document).stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the input contains no document"),
        ("{", "documents.jsonl:1: not a JSON document"),
        ("[]", "documents.jsonl:1: the schema is not one of patchstack.verify/1"),
        ('{"schema": "patchstack.verify/2"}', "the schema is not one of"),
        (
            '{"schema": "patchstack.verify/1"}',
            "documents.jsonl:1: not a valid patchstack.verify/1 document: Object missing required field `series`",
        ),
        ('{"schema": ["x"]}', "the schema is not one of"),
    ],
)
def test_what_is_no_document_is_told_with_its_line(text: str, words: str, tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "documents.jsonl").write_text(text)
    for verb in ("summary", "annotate"):
        ran = run_cli("ci", verb, tmp_path / "documents.jsonl")
        assert ran.code == 2, ran
        assert words in ran.stderr and "hint:" in ran.stderr


@pytest.mark.parametrize("seed", range(6))
def test_a_document_with_a_hole_in_it_is_told_and_never_a_traceback(
    seed: int, documents: dict[str, Any], tmp_path: Path, run_cli: RunCli
) -> None:
    chance = random.Random(seed)
    for name in documents:
        spoiled = json.loads(json.dumps(documents[name]))
        at: Any = spoiled
        while True:
            keys = list(at if isinstance(at, dict) else range(len(at)))
            key = chance.choice([one for one in keys if one != "schema"])
            if isinstance(at[key], dict | list) and at[key] and chance.random() < 0.7:
                at = at[key]
                continue
            at[key] = chance.choice([None, 7, "x", [], {}])
            break
        for verb in ("summary", "annotate"):
            ran = asked(run_cli, tmp_path, verb, spoiled)
            assert ran.code in (0, 2), (name, spoiled, ran)
            assert "Traceback" not in ran.told and "a bug" not in ran.told


def test_a_file_that_is_not_there_is_missing(tmp_path: Path, run_cli: RunCli) -> None:
    ran = run_cli("ci", "summary", tmp_path / "none.json")
    assert (ran.code, "cannot be read" in ran.stderr) == (3, True)
