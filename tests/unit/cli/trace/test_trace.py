"""The commands of `patchstack trace`: their output and exit status."""

from __future__ import annotations

import gzip
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from patchstack.installed import install_hint
from patchstack.report.documents.trace import TraceComparisonDocument, TraceDocument
from tests.conftest import Patchstack, RunCli
from tests.support.checkout import ROOT
from tests.support.trace_logs import ADMISSION_54, GTRACE, MMQ

DATA = ROOT / "tests" / "data" / "traces"


@pytest.fixture
def log(places: object, tmp_path: Path) -> Path:
    """Return a real log, and one line written by hand."""
    path = tmp_path / "moe.log"
    path.write_bytes(gzip.decompress((DATA / "cuda-moe-all.log.gz").read_bytes()))
    return path


def unpacked(name: str, tmp_path: Path) -> Path:
    path = tmp_path / f"{name}.log"
    path.write_bytes(gzip.decompress((DATA / f"{name}.log.gz").read_bytes()))
    return path


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "hand.log"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_read_counts_a_real_log(run_cli: RunCli, log: Path) -> None:
    done = run_cli("trace", "read", log)
    assert done.code == 0, done
    assert done.stdout.startswith(f"{log}: 2,633 lines, 469,117 bytes\n")
    assert "  moe_mmid_route: 498 records, 1 summary, 44 whole graphs\n" in done.stdout
    assert (
        "mul_mat_route   mmq q4_0 f32           589    65.2%   365          224           19.3 G  250 M" in done.stdout
    )
    assert "cuda_graph  replayed                  16                      26.7% of the calls" in done.stdout
    assert done.stderr == ""


def test_read_prints_a_document_of_its_schema(run_cli: RunCli, log: Path) -> None:
    done = run_cli("trace", "read", "--json", log)
    assert done.code == 0
    document = msgspec.json.decode(done.stdout, type=TraceDocument)
    routes = next(one for one in document.traces if one.name == "mul_mat_route")
    assert (routes.records, routes.lines, routes.dropped, routes.bounded, routes.invalid) == (904, 904, 0, False, False)
    assert sum(cell.calls for cell in routes.cells) == 904
    assert routes.counters["mmq"] == 589
    assert [one.verdict for one in document.checks] == ["PASS"] * len(document.checks)
    assert (document.verdict, json.loads(done.stdout)["schema"]) == ("PASS", "patchstack.trace/1")


@pytest.mark.parametrize(
    ("expect", "code", "verdict"),
    [
        ("trace=moe_mmid_route route=mmq type=q4_0 >= 363", 0, "PASS"),
        ("trace=moe_mmid_route route=mmq type=2 > 363", 1, "FAIL"),
        ("trace=moe_mmid_route route=host_sync == 0", 0, "PASS"),
        ("trace=spec_shape kind=verify >= 1", 4, "INVALID"),
    ],
)
def test_an_expectation_is_an_exit_code(run_cli: RunCli, log: Path, expect: str, code: int, verdict: str) -> None:
    done = run_cli("trace", "read", log, "--expect", expect)
    assert done.code == code
    assert done.stdout.splitlines()[-1].startswith(f"{verdict}  {log}: 1 {verdict}")


def test_an_expectation_that_cannot_be_read_is_said_before_the_log_is(run_cli: RunCli) -> None:
    done = run_cli("trace", "read", "none.log", "--expect", "mmq")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: 'mmq' is not an expectation: 'mmq' is not key=value\n\nhint: for example")


def test_figures_that_contradict_say_so_where_they_are_and_in_the_exit_code(run_cli: RunCli, tmp_path: Path) -> None:
    done = run_cli("trace", "read", written(tmp_path, ADMISSION_54))
    assert done.code == 4
    assert (
        "decode_only_steps          0                                  INVALID: decode_only_steps 0, but" in done.stdout
    )
    assert "warning: contradiction: serving admission trace: decode_only_steps against the histograms" in done.stderr


def test_check_names_both_sides(run_cli: RunCli, tmp_path: Path) -> None:
    done = run_cli("trace", "check", written(tmp_path, ADMISSION_54, GTRACE))
    assert done.code == 1
    assert "FAIL     decode_only_steps 0  the histograms say at least 60 and at most 63 of 76" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("hand.log: 8 PASS, 1 FAIL")
    whole = run_cli("trace", "check", "--all", written(tmp_path, GTRACE))
    assert (whole.code, "calls against its parts  PASS     calls 98" in whole.stdout) == (0, True)


def test_check_of_a_killed_process_cannot_be_judged(run_cli: RunCli, log: Path, tmp_path: Path) -> None:
    lines = [line for line in log.read_text().splitlines() if "_summary" not in line]
    done = run_cli("trace", "check", written(tmp_path, *lines))
    assert done.code == 4
    assert "no summary" in done.stdout and "it is not known whether there were more" in done.stdout


def test_lost_lines_are_a_contradiction_and_their_counts_invalid(run_cli: RunCli, log: Path, tmp_path: Path) -> None:
    lines = log.read_text().splitlines()
    gone = next(at for at, line in enumerate(lines) if "trace_mul_mat_route route=mmq" in line)
    short = written(tmp_path, *lines[:gone], *lines[gone + 1 :])
    checked = run_cli("trace", "check", short)
    assert checked.code == 1
    assert "mul_mat_route  lines against the summary" in checked.stdout
    read = run_cli("trace", "read", short)
    assert read.code == 4
    assert "mul_mat_route: 903 records, 1 summary; INVALID: see below" in read.stdout
    assert "588 INVALID" in read.stdout
    asked = run_cli("trace", "read", short, "--expect", "trace=mul_mat_route route=mmq >= 1")
    assert (asked.code, "contradict: lines 904, records 903" in asked.stdout) == (4, True)


def test_compare_says_when_nothing_differs(run_cli: RunCli, log: Path, tmp_path: Path) -> None:
    other = tmp_path / "again.log"
    other.write_bytes(log.read_bytes())
    done = run_cli("trace", "compare", log, other)
    assert done.code == 0
    assert done.stdout.splitlines()[-1] == (
        "the same routes, the same shapes, equally often: a difference in speed between the two is not a difference in"
        " routes"
    )


def test_compare_counts_what_a_switch_changes(run_cli: RunCli, log: Path, tmp_path: Path) -> None:
    force = unpacked("cuda-moe-all-force", tmp_path)
    done = run_cli("trace", "compare", log, force)
    assert done.code == 0
    assert "moe_mmid_route  mmq q4_0               363  267  -96    less    35.6 G  33.2 G" in done.stdout
    assert "CUDA graphs were replayed 16 times in A, 24 in B: a replayed graph leaves no records" in done.stdout
    document = msgspec.json.decode(
        run_cli("trace", "compare", "--json", log, force).stdout, type=TraceComparisonDocument
    )
    assert (document.same, document.same_kinds, document.replayed) == (False, True, (16, 24))


def test_compare_refuses_another_workload(run_cli: RunCli, log: Path, tmp_path: Path) -> None:
    other = unpacked("cuda-moe-other-load", tmp_path)
    done = run_cli("trace", "compare", log, other)
    assert (done.code, done.stdout) == (2, "")
    assert "have different workloads" in done.stderr
    assert "  - prompt eval tokens: 3,716 and 200\n" in done.stderr
    anyway = run_cli("trace", "compare", log, other, "--anyway")
    assert anyway.code == 4
    assert "workload: not the same: n_seq_max: 24 and 4; " in anyway.stdout
    assert run_cli("trace", "compare", log, log).code == 2


def test_a_log_without_anything_known_is_missing_something(run_cli: RunCli, tmp_path: Path) -> None:
    done = run_cli("trace", "read", written(tmp_path, "hello", "world"))
    assert done.code == 3
    assert done.stderr.startswith(f"error: no known record or llama.cpp line in {tmp_path}/hand.log (2 lines)\n")
    (tmp_path / "rubbish").write_bytes(bytes(range(256)) * 400)
    assert run_cli("trace", "check", tmp_path / "rubbish").code == 3
    (tmp_path / "empty").mkdir()
    nothing = run_cli("trace", "read", tmp_path / "empty")
    assert (nothing.code, "contains no files" in nothing.stderr) == (3, True)


def test_a_log_comes_from_standard_input_too() -> None:
    command = [sys.executable, "-m", "patchstack", "trace", "check", "-"]
    done = subprocess.run(command, input=f"{GTRACE}\r\n".encode(), capture_output=True, check=False)
    assert (done.returncode, done.stdout.decode().splitlines()[-1]) == (0, "PASS  -: 1 PASS")


def test_plots_are_written_and_a_missing_package_is_said_first(
    run_cli: RunCli,
    patchstack: Patchstack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = unpacked("cuda-server-all", tmp_path)
    assert patchstack("trace", "read", str(log), "--plots", str(tmp_path / "plots")) == 0
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    assert {"shapes-mul_mat_route.svg", "steps-serving.svg", "graphs-reused.svg"} <= names
    assert f"wrote {tmp_path}/plots/steps-serving.svg" in capsys.readouterr().err
    nothing = run_cli("trace", "read", written(tmp_path, GTRACE), "--plots", tmp_path / "other")
    assert (nothing.code, "contains no figures to plot" in nothing.stderr) == (2, True)
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "vl_convert" else found(name))
    missing = run_cli("trace", "read", "none.log", "--plots", tmp_path / "more")
    assert (missing.code, missing.stdout) == (3, "")
    assert missing.stderr.endswith(f"hint: {install_hint('plots')}\n")


def test_a_hostile_log_prints_no_control_characters(run_cli: RunCli, tmp_path: Path) -> None:
    name = "a\x1b[31mb\x9b"
    done = run_cli("trace", "read", written(tmp_path, MMQ, f"[LLAMA_X] route={name} dst=\u202eevil"))
    assert "\x1b" not in done.told and "\u202e" not in done.told


def test_a_closed_standard_input_is_no_bug(tmp_path: Path) -> None:
    command = f"{sys.executable} -m patchstack trace check {written(tmp_path, GTRACE)} <&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
