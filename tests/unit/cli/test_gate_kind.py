"""The commands of single gates: their documents, exit codes and complaints."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from patchstack.cli.failures import guarded
from patchstack.cli.gate import gate_app
from patchstack.llama.transcript import md5_of
from tests.conftest import Ran
from tests.support.programs import program

DONE = 'echo "common_perf_print:    graphs reused =  5" >&2'


Gate = Callable[..., Ran]


@pytest.fixture
def gate(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Run one gate's command on the programs of `bin`, with a model."""
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")

    def run(kind: str, *options: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["gate", kind, "--bin", str(tmp_path / "bin"), *options])
        code = guarded(gate_app)
        printed = capsys.readouterr()
        return Ran(code=code, stdout=printed.out, stderr=printed.err)

    return run


def test_completion_tells_the_digest_then_holds_it(gate: Gate, tmp_path: Path) -> None:
    program(tmp_path / "bin", "llama-completion", f'echo "hello $S"; {DONE}')
    asked = ("completion", "--model", "tiny.gguf", "--prompt", "x", "--tokens", "8")
    first = gate(*asked, "--json")
    assert first.code == 4
    assert first.document["schema"] == "patchstack.gate/1"
    assert first.document["reason"] == "no reference yet: gate record"
    assert first.document["actual"] == md5_of(b"hello \n")
    held = gate(*asked, "--expect", md5_of(b"hello \n").upper(), "--runs", "2")
    assert (held.code, held.stdout.splitlines()[0]) == (0, "PASS  completion: the reference's transcript, 2 times of 2")
    assert gate(*asked, "--expect", md5_of(b"bye\n")).code == 1
    assert gate(*asked, "--env", "S=1", "--expect", md5_of(b"hello 1\n")).code == 0
    switched = gate(*asked, "--switch", "S=1")
    assert switched.code == 1
    assert "on: not the transcript of off; first difference at character 6" in switched.stdout
    assert gate(*asked, "--switch", "OTHER=1").code == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ("--expect", "d41d8cd98f00b204e9800998ecf8427e"),
            "d41d8cd98f00b204e9800998ecf8427e is the digest of an empty text",
        ),
        (("--env", "LD_PRELOAD=x", "--env", "Y"), "--env Y: must be NAME=VALUE"),
        (("--runs", "0"), "--runs: must be from 1 to 1000, not 0"),
        (("--tokens", "5000"), "--tokens: 5000 do not fit into a context of 4096"),
        (("--arg=--no-perf",), "--arg: --no-perf removes the line"),
        (("--arg=-ngl", "--arg=0"), "--arg: use --gpu-layers instead of -ngl"),
        (("--arg=--ctx-size=9",), "--arg: use --context instead of --ctx-size"),
        (("--sentinel", "none"), "--sentinel: none: without a sentinel, the transcript may be incomplete"),
        (("--sentinel", "("), "--sentinel: '(' is not a regular expression"),
        (("--switch", "S=1", "--env", "S=1"), "a run would be compared with itself"),
        (("--parallel", "1"), "--parallel: 1 request is not concurrent"),
    ],
)
def test_completion_refuses_what_proves_nothing(
    options: tuple[str, ...], told: str, gate: Gate, tmp_path: Path
) -> None:
    program(tmp_path / "bin", "llama-completion", f"echo hello; {DONE}; touch {tmp_path}/ran")
    found = gate("completion", "--model", "tiny.gguf", "--prompt", "x", *options)
    assert found.code == 2
    assert told in found.stderr
    assert not (tmp_path / "ran").exists()


def test_what_is_not_there_is_said(gate: Gate, tmp_path: Path) -> None:
    no_bin = gate("completion", "--model", "tiny.gguf", "--prompt", "x")
    assert (no_bin.code, "there are no programs" in no_bin.stderr) == (3, True)
    program(tmp_path / "bin", "other", "true")
    no_program = gate("completion", "--model", "tiny.gguf", "--prompt", "x")
    assert (no_program.code, "llama-completion is not in" in no_program.stderr) == (3, True)
    program(tmp_path / "bin", "llama-completion", "true")
    no_model = gate("completion", "--model", "none.gguf", "--prompt", "x")
    assert (no_model.code, "none.gguf: No such file" in no_model.stderr) == (3, True)


def test_engaged(gate: Gate, tmp_path: Path) -> None:
    program(tmp_path / "bin", "llama-completion", f'[ -z "$T" ] || echo "[t] x" >&2; echo hi; {DONE}')
    asked = ("engaged", "--mark", r"^\[t\]", "--json")
    prompt = ("--model", "tiny.gguf", "--prompt", "x")
    found = gate(*asked, *prompt, "--on", "T=1")
    assert (found.code, found.document["actual"]) == (0, "on: 1; off: 0")
    assert gate(*asked, *prompt, "--on", "TT=1").code == 1
    assert gate(*asked, *prompt, "--on", "T=1", "--off", "T=1").code == 2
    neither = gate(*asked, "--on", "T=1")
    assert (neither.code, "--model and --prompt, or --program" in neither.stderr) == (2, True)
    refused = gate(*asked, *prompt, "--on", "T=1", "--arg", "-ngl")
    assert (refused.code, "--arg: use --gpu-layers instead of -ngl" in refused.stderr) == (2, True)
    assert gate(*asked, *prompt, "--on", "T=1", "--gpu-layers", "0", "--context", "64").code == 0
    program(tmp_path / "bin", "tool", '[ -z "$T" ] || echo "[t] x"; echo done')
    assert gate(*asked, "--on", "T=1", "--program", "tool", "--sentinel", "^done$").code == 0
    unsure = gate(*asked, "--on", "T=1", "--program", "tool")
    assert (unsure.code, "tool has no default" in unsure.stderr) == (2, True)


def test_routes(gate: Gate, tmp_path: Path) -> None:
    layout = (
        "trace_layout backend=CPU op=$O src0=a src0_type=f32 src0_contiguous=1 src1=- src1_type=- dst=b dst_type=f32"
        " ne0=1 ne1=1 ne2=1 ne3=1 bytes=4"
    )
    summary = "trace_layout_summary lines=1 dropped=0 $O=1 $O.bytes=4"
    program(tmp_path / "bin", "llama-completion", f'echo "{layout}" >&2; echo "{summary}" >&2; echo hi; {DONE}')
    asked = ("routes", "--model", "tiny.gguf", "--prompt", "x", "--on", "O=cont", "--off", "O=cpy")
    found = gate(*asked, "--expect", "op=cont type=f32 >= 1", "--json")
    assert (found.code, found.document["verdict"]) == (4, "INVALID")
    found = gate(*asked, "--expect", "op=cont src0_type=0 >= 1", "--json")
    assert (found.code, found.document["actual"]) == (
        0,
        "on: 1 of 1 records of layout; off: 0 of 1 records of layout",
    )
    assert gate(*asked, "--expect", "ne0=1", "--expect-off", "op=cont").code == 1
    refused = gate(*asked, "--expect", "cont")
    assert (refused.code, "'cont' is not key=value" in refused.stderr) == (2, True)
    same = gate("routes", "--model", "tiny.gguf", "--prompt", "x", "--on", "O=a", "--off", "O=a", "--expect", "op=a")
    assert (same.code, "nothing is switched" in same.stderr) == (2, True)


def test_command(gate: Gate, tmp_path: Path) -> None:
    program(tmp_path / "bin", "tool", 'cat "$1"; exit 2')
    asked = ("command", "--program", "tool", "--arg", "{model:model}", "--model", "tiny.gguf")
    assert gate(*asked, "--must", "GGUF", "--exit", "2").code == 0
    assert gate(*asked, "--must", "GGUF").code == 1
    assert gate(*asked, "--must", "").code == 2
    assert gate(*asked, "--must", "GGUF", "--exit", "2", "--must-not", "GG").code == 1


def test_a_program_that_prints_no_last_line_says_so(gate: Gate, tmp_path: Path) -> None:
    program(tmp_path / "bin", "llama-completion", "echo 'version: 1 (pin)' >&2")
    asked = ("command", "--program", "llama-completion", "--arg", "--version", "--must", "^version: ")
    lost = gate(*asked)
    assert lost.code == 4
    assert "sentinel: names it, or is none if it prints no such line" in lost.stdout
    assert gate(*asked, "--sentinel", "none").code == 0
    assert gate(*asked, "--sentinel", "^version").code == 0


def test_why_a_program_failed_may_be_on_stdout(gate: Gate, tmp_path: Path) -> None:
    program(tmp_path / "bin", "test-model", "echo 'test-model: row 3 failed'; exit 1")
    found = gate("command", "--program", "test-model", "--must", "passed")
    assert (found.code, "exit code 1, not 0: it exited with 1: test-model: row 3 failed" in found.stdout) == (1, True)
    program(tmp_path / "bin", "llama-x", "echo 'the king failed'; exit 1")
    assert "the king" not in gate("command", "--program", "llama-x", "--must", "passed").stdout.splitlines()[0]


def test_red_green(gate: Gate, tmp_path: Path) -> None:
    program(tmp_path / "bin", "test-x", "echo 4 passed")
    program(tmp_path / "red", "test-x", "echo x FAILED; exit 1")
    asked = ("red-green", "--program", "test-x", "--red", "FAILED", "--green", r"(\d+) passed")
    found = gate(*asked, "--without", str(tmp_path / "red"))
    assert (found.code, found.stdout.splitlines()[0].split(":")[0]) == (0, "PASS  red-green")
    assert gate(*asked, "--without", str(tmp_path / "none")).code == 4
    assert gate(*asked, "--without", str(tmp_path / "bin")).code == 4
    assert gate(*asked, "--without", str(tmp_path / "red"), "--red-exit", "0").code == 2
