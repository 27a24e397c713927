"""Suites: read with every complaint, run in order, reported to people and machines, recorded with a reason."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from patchstack.errors import ConfigError, NotHeldError, UsageError
from patchstack.evidence.origin import Origin, Source
from patchstack.files.places import cache_places
from patchstack.gates.judgement import Judgement
from patchstack.gates.reference.record import RecordedReference, changed, references, write_references
from patchstack.gates.registry import KINDS, kind_of
from patchstack.gates.suite import find_suite, read_suites
from patchstack.observe.protocol import Attempt
from patchstack.report.documents.gates import checks_of, read_gates_document
from patchstack.report.gate import Checked, junit, markdown, tsv
from patchstack.verdict import Verdict
from patchstack.workspace import read_workspace
from tests.conftest import Patchstack
from tests.support.programs import program

Run = Callable[..., tuple[int, str, str]]

HEAD = """\
# my workspace
series:
  x: {patches: p, upstream: u, pin: "0000000000000000000000000000000000000000"}
"""
SUITES = """\
suites:
  quick:   # before every push
    what: a look
    gates:
      - {name: hello, kind: command, program: hello, must: "^hello$"}
      - {name: silent, kind: command, program: hello, must: "^hello$", must_not: world}
      - name: gone
        kind: command
        program: gone
        must: x
"""


def a_workspace(directory: Path, suites: str = SUITES) -> Path:
    path = directory / "patchstack.yaml"
    path.write_text(HEAD + suites)
    return path


@pytest.fixture
def run(patchstack: Patchstack, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `patchstack gate` in the working directory, and return exit code, stdout and stderr."""

    def gate(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = patchstack("gate", *arguments)
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err, printed.err
        return code, printed.out, printed.err

    return gate


def test_every_kind_is_a_module_with_its_name_and_version() -> None:
    for name in KINDS:
        assert name == kind_of(name).name
        assert kind_of(name).version >= 1


def test_a_suite_keeps_the_order_of_its_gates(tmp_path: Path) -> None:
    (suite,) = read_suites(read_workspace(a_workspace(tmp_path)))
    assert [(gate.name, gate.kind, gate.line) for gate in suite.gates] == [
        ("hello", "command", 8),
        ("silent", "command", 9),
        ("gone", "command", 10),
    ]
    assert [gate.name for gate in suite.only(["gone"]).gates] == ["gone"]
    with pytest.raises(UsageError, match="suite quick has no gate helo") as error:
        suite.only(["helo"])
    assert error.value.hint == "perhaps you meant hello"


def test_every_mistake_is_told_with_its_line(tmp_path: Path) -> None:
    text = (
        "models:\n  tiny: {path: m.gguf, sha256: abc}\n"
        "suites:\n  quick:\n    gates:\n"
        "      - {name: one, kind: comand, program: x}\n"
        "      - {name: two, kind: command, program: hello, must: x}\n"
        "      - {name: two, kind: command, program: hello, must: x, mustnt: y}\n"
        "      - {kind: command, program: hello, must: x}\n"
    )
    path = a_workspace(tmp_path, text)
    with pytest.raises(ConfigError) as error:
        read_suites(read_workspace(path))
    told = "\n".join(error.value.problems)
    assert f"{path}:5: models.tiny.sha256: must be 64 lower-case hexadecimal digits" in told
    assert f"{path}:9: suites.quick.gates.kind: 'comand' is not one of" in told
    assert "perhaps command" in told
    assert f"{path}:11: suites.quick.gates.name: the suite already has a gate two" in told
    assert f"{path}:11: suites.quick.gates.mustnt: unknown key, perhaps you meant must_not" in told
    assert "name is missing" in told


def test_the_workspace_file_is_parsed_once_and_its_suites_are_read_as_often_as_one_likes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = read_workspace(a_workspace(tmp_path, SUITES.replace("must: x", "mist: x")))
    (tmp_path / "patchstack.yaml").unlink()
    told = []
    for _ in range(2):
        with pytest.raises(ConfigError) as error:
            read_suites(workspace)
        told.append(error.value.problems)
    assert told[0] == told[1]
    assert len(told[0]) == 2


def test_one_suite_is_the_one_meant_and_of_several_one_is_named(tmp_path: Path) -> None:
    path = a_workspace(tmp_path)
    suites = read_suites(read_workspace(path))
    assert find_suite(suites, None, path).name == "quick"
    with pytest.raises(UsageError, match="there is no suite slow"):
        find_suite(suites, "slow", path)
    with pytest.raises(UsageError, match="has several suites"):
        find_suite([*suites, *suites], None, path)
    with pytest.raises(UsageError, match="has no suites"):
        find_suite([], None, path)


def test_a_run_tells_every_gate_and_exits_by_the_worst(tmp_path: Path, run: Run) -> None:
    a_workspace(tmp_path)
    program(tmp_path / "bin", "hello", "echo hello")
    code, stdout, _ = run("run", "--bin", "bin", "--json", "hello", "silent")
    assert code == 0
    document = json.loads(stdout)
    assert document["schema"] == "patchstack.gates/1"
    assert document["verdicts"] == {"PASS": 2, "FAIL": 0, "INVALID": 0}
    code, stdout, stderr = run("run", "--bin", "bin")
    assert code == 4
    assert "INVALID  gone: gone is not in " in stdout
    lines = stderr.splitlines()
    assert lines[1] == "gate hello (command), 1 of 3"
    assert re.fullmatch(r"PASS     hello  0.0 s  recalled from this machine's cache \([-\d]+ [:\d]+\)", lines[2])
    assert re.search(r"^INVALID  quick: 3 gates: 2 PASS, 1 INVALID; 2 recalled, \d\.\d s$", stdout, re.MULTILINE)
    assert lines[5] == "gate gone (command), 3 of 3"
    assert lines[6].startswith("INVALID  gone  0.")
    program(tmp_path / "bin", "hello", "echo hello; echo world")
    code, stdout, _ = run("run", "--bin", "bin", "--report", "out")
    assert code == 1, "a FAIL goes before an INVALID"
    assert "FAIL" in stdout
    lines = (tmp_path / "out" / "gate_summary.tsv").read_text().splitlines()
    assert lines[0] == "phase\tcheck\tstatus\tactual\texpected\tdetails\tsource"
    assert [line.split("\t")[:3] for line in lines[1:]] == [
        ["quick", "hello", "PASS"],
        ["quick", "silent", "FAIL"],
        ["quick", "gone", "INVALID"],
    ]
    again = run("summary", "out")
    assert again[0] == 1
    assert again[1].splitlines()[:-1] == stdout.splitlines()[:-1]
    assert stdout.splitlines()[-1].startswith(again[1].splitlines()[-1]), "all but the time"
    junit = (tmp_path / "out" / "junit.xml").read_text()
    assert junit.count('<properties><property name="source" value="observed now" /></properties>') == 1
    assert junit.count('name="source" value="recalled from this machine') == 1, "both ask the same of the same program"
    assert "| observed now |" in (tmp_path / "out" / "gates.md").read_text()
    (tmp_path / "out" / "gates.json").write_text("{")
    assert run("summary", "out")[0] == 2


def test_what_is_known_is_answered_without_running(tmp_path: Path, run: Run) -> None:
    a_workspace(tmp_path)
    program(tmp_path / "bin", "hello", f"echo run >>{tmp_path}/count; echo hello")
    for _ in range(3):
        assert run("run", "--bin", "bin", "hello", "silent")[0] == 0
    assert (tmp_path / "count").read_text().count("run") == 1, "both gates ask the same of the same program"
    assert len(list(cache_places().observations.glob("*.json"))) == 1
    assert not (tmp_path / "evidence").exists(), "evidence is what decisions rest on"
    changed_suite = SUITES.replace("must_not: world", "must_not: hello")
    a_workspace(tmp_path, changed_suite)
    assert run("run", "--bin", "bin", "silent")[0] == 1, "the verdict is drawn again"
    assert (tmp_path / "count").read_text().count("run") == 1


def test_fail_fast_stops_after_the_first_fail(tmp_path: Path, run: Run) -> None:
    a_workspace(tmp_path)
    program(tmp_path / "bin", "hello", "echo world")
    code, stdout, stderr = run("run", "--bin", "bin", "--fail-fast")
    assert code == 1
    assert "stopped after the first FAIL: 2 gates were not run" in stderr
    assert "silent" not in stdout
    assert "gone" not in stdout


def test_the_document_says_which_attempts_were_recalled(tmp_path: Path, run: Run) -> None:
    a_workspace(tmp_path)
    program(tmp_path / "bin", "hello", "echo hello")

    def recalled() -> list[bool]:
        code, stdout, _ = run("run", "--bin", "bin", "--json", "--report", "out", "hello", "silent")
        assert code == 0
        return [one["recalled"] for gate in json.loads(stdout)["gates"] for one in gate["attempts"]]

    assert recalled() == [False, True], "both gates ask the same of the same program"
    assert recalled() == [True, True]
    path = tmp_path / "out" / "gates.json"
    checks = checks_of(read_gates_document(path))
    document = json.loads(path.read_text())
    assert [one.recalled for check in checks for one in check.judgement.attempts] == [True, True]
    for gate in document["gates"]:
        for name in ("recalled", "source", "made", "decision"):
            del gate["attempts"][0][name]
    path.write_text(json.dumps(document))
    checks = checks_of(read_gates_document(path))
    assert [one.recalled for check in checks for one in check.judgement.attempts] == [False, False]
    assert run("summary", "out")[0] == 0, "documents of older versions can be read"


def test_a_key_is_recalled_if_no_attempt_of_the_gate_ran_it() -> None:
    def attempt(key: str, *, recalled: bool, complaint: str | None = None) -> Attempt:
        source = Source(origin=Origin.RECALLED) if recalled else Source()
        return Attempt(what="w", key=key, code=0, seconds=1.0, complaint=complaint, source=source)

    attempts = (
        attempt("known", recalled=True),
        attempt("lost", recalled=False, complaint="no sentinel"),
        attempt("made", recalled=False),
        attempt("made", recalled=True),
        attempt("known", recalled=True),
    )
    assert dataclasses.replace(a_judgement(), attempts=attempts).recalled == ("known",)
    assert a_judgement().recalled == ()


def a_judgement(verdict: Verdict = Verdict.FAIL, **details: object) -> Judgement:
    return Judgement(
        verdict=verdict,
        reason="a | b\nc",
        actual="1\t2",
        expected="<3>",
        details=details,  # type: ignore[arg-type]
    )


def test_the_files_for_others_are_whole_whatever_the_texts_hold() -> None:
    checks = [Checked(phase="s", check="g", kind="command", judgement=a_judgement(verdict)) for verdict in Verdict]
    assert [len(line.split("\t")) for line in tsv(checks).splitlines()] == [7] * 4
    assert markdown(checks).splitlines()[2].count(" | ") == 5
    assert "a \\| b c" in markdown(checks)
    suite = ElementTree.fromstring(junit(checks))  # noqa: S314  (our own XML)
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")


def test_references_come_from_what_a_gate_gave() -> None:
    state = {"state": "paged", "md5": "a" * 32, "sha256": "b" * 64, "same_as": None, "expected": "c" * 32}
    (found,) = references("completion", a_judgement(states=[state]))
    assert found == RecordedReference(keys=("states", "paged", "expect"), old="c" * 32, new="a" * 32)
    assert changed([found]) == (found,)
    assert not changed([RecordedReference(keys=("expect",), old=None, new="x")])
    with pytest.raises(NotHeldError, match="nothing to record"):
        references("completion", a_judgement(states=[{**state, "md5": None}]))
    with pytest.raises(UsageError, match="a gate of kind kl has no reference"):
        references("kl", a_judgement())


def test_a_reference_is_written_with_its_reason_and_the_rest_stays(tmp_path: Path) -> None:
    path = a_workspace(tmp_path)
    found = [RecordedReference(keys=("states", "on", "expect"), old=None, new="d" * 32)]
    write_references(path, "quick", "gone", found, "why\nnot")
    text = path.read_text()
    assert "expect: dddddddddddddddddddddddddddddddd  # why not" in text
    before, after = (HEAD + SUITES).splitlines(), text.splitlines()
    assert [line for line in before if line not in after] == []
    with pytest.raises(ConfigError, match="has no gate lost"):
        write_references(path, "quick", "lost", [], "x")
