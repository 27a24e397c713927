"""`patchstack bench`: real processes with scripted speeds, plans, coins, faults, and continuing after a kill."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from patchstack.files.places import cache_places
from tests.conftest import Ran
from tests.support.bench_commands import Bench, running
from tests.support.programs import program

# A machine with a little noise: every run increases a count, which gives the noise. FAST is the switch.
SPEED = """
count=0
read -r count 2>/dev/null < {work}/count
echo $((count + 1)) > {work}/count
noise=$((count * 7919 % 11))
echo "rate: $((1000 + noise + ${{FAST:-0}})).0"
[ "$count" != "${{CRASH_AT:-none}}" ] || kill -SEGV $$
"""
RATE = ("--set", "program=speed", "--set", r"figures=rate=^rate: ([0-9.]+)$")


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Run a bench command in a directory with the programs of `bin`."""
    program(tmp_path / "bin", "speed", SPEED.format(work=tmp_path))
    monkeypatch.chdir(tmp_path)
    return running(capsys, monkeypatch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decided comparison: the output of its run, and its directory and cache, which the test may change."""

    bench: Bench
    told: Ran
    root: Path

    @property
    def whole(self) -> dict[str, Any]:
        return self.told.document

    @property
    def directory(self) -> Path:
        return cache_places().comparisons / str(self.whole["comparison"])

    @property
    def count(self) -> str:
        """Return the number of runs."""
        return (self.root / "count").read_text()


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shelf")


@pytest.fixture
def decided(shelf: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Decided:
    """Return the default comparison. It runs once, and every test gets a copy of its files at the same path."""
    root, saved = shelf / "world", shelf / "saved"
    shutil.rmtree(root, ignore_errors=True)
    bench = running(capsys, monkeypatch)
    monkeypatch.setenv("PATCHSTACK_CACHE", str(root / "cache"))
    if not saved.exists():
        program(root / "bin", "speed", SPEED.format(work=root))
        monkeypatch.chdir(root)
        told = ab(bench, "--json", "--markdown", "out.md", "--html", "out.html")
        (root / "told").write_text(told.stdout)
        (root / "progress").write_text(told.stderr)
        assert told.code == 0
        shutil.copytree(root, saved, symlinks=True)
    else:
        shutil.copytree(saved, root, symlinks=True)
        monkeypatch.chdir(root)
    told = Ran(code=0, stdout=(root / "told").read_text(), stderr=(root / "progress").read_text())
    return Decided(bench=bench, told=told, root=root)


def ab(bench: Bench, *more: str, switch: str = "FAST=50") -> Ran:
    return bench("ab", "--bin", "bin", "--switch", switch, "-w", "command", *RATE, "--seed", "7", *more)


def test_a_switch_that_pays_is_kept_after_nine_pairs(decided: Decided) -> None:
    found = decided.whole
    assert (found["schema"], found["outcome"], found["decided"]) == ("patchstack.bench/1", "keep", 9)
    row = found["rows"][0]
    assert row["shown"] == ["faster", "not worse"]
    assert row["low"] <= row["estimate"] == pytest.approx(0.05, abs=0.01)
    assert {pair["second"] for pair in found["pairs"]} == {"A", "B"}
    assert found["a"]["env"] == {}
    assert found["b"]["env"] == {"FAST": "50"}


def test_the_screen_says_what_was_compared_and_what_it_shows(bench: Bench) -> None:
    told = ab(bench)
    assert told.code == 0
    assert "keep: rate is faster by more than 1%" in told.stdout
    assert "faster than +1%, not worse than -3%" in told.stdout
    assert "pair  1 of at most 48, " in told.stderr


def test_a_loss_is_rejected_and_the_demand_is_not_met(bench: Bench) -> None:
    told = ab(bench, "--demand", "not-worse", switch="FAST=-60")
    assert told.code == 1
    assert "reject: rate is slower by more than 1%" in told.stdout
    assert "the demand not-worse is not met" in told.stdout


def test_the_same_seed_gives_the_same_coins(decided: Decided) -> None:
    first, second = decided.whole, ab(decided.bench, "--json").document
    assert first["comparison"] != second["comparison"] or first["made"] == second["made"]
    assert [pair["second"] for pair in first["pairs"]] == [pair["second"] for pair in second["pairs"]]


def test_a_new_comparison_takes_no_old_runs(decided: Decided) -> None:
    one, two = decided.whole, ab(decided.bench, "--json", "--seed", "2").document
    keys = [set(pair["keys"].values()) for found in (one, two) for pair in found["pairs"]]
    assert len(set().union(*keys)) == sum(map(len, keys))


def test_a_dry_run_prints_the_plan_and_runs_nothing(bench: Bench, tmp_path: Path) -> None:
    told = ab(bench, "--dry-run")
    assert told.code == 0
    assert "row        rate: primary, a gain above 1%, no loss above 3%" in told.stdout
    assert not (tmp_path / "count").exists()
    assert not cache_places().comparisons.exists()


@pytest.mark.parametrize("kept", [0, 1, 4, 8])
def test_a_comparison_that_was_ended_goes_on_to_the_same_answer(decided: Decided, kept: int) -> None:
    """Records of pairs are removed, as after a kill: their runs are recalled, and none is run again."""
    for path in sorted(decided.directory.glob("pair-*.json"))[kept:]:
        path.unlink()
    count = decided.count
    resumed = decided.bench("resume", decided.whole["comparison"][:8], "--json")
    assert (resumed.code, decided.count) == (0, count)
    assert without_times(resumed.document) == without_times(decided.whole)


def test_runs_that_were_lost_are_run_again_with_the_same_coins(decided: Decided) -> None:
    whole = decided.whole
    for path in sorted(decided.directory.glob("pair-*.json"))[5:]:
        path.unlink()
    for pair in whole["pairs"][5:]:
        for key in pair["keys"].values():
            (cache_places().observations / f"{key}.json").unlink()
    resumed = decided.bench("resume", "--json").document
    assert resumed["pairs"][:5] == whole["pairs"][:5]
    coins = [pair["second"] for pair in resumed["pairs"]]
    assert coins[: len(whole["pairs"])] == [pair["second"] for pair in whole["pairs"]][: len(coins)]
    assert resumed["outcome"] == "keep"


def test_show_draws_the_verdict_anew_from_the_runs(decided: Decided) -> None:
    assert decided.bench("show", "--json").document == decided.whole
    other = decided.bench("show", "--margin", "0.2").stdout
    assert "not planned: a margin of 20%, chosen afterwards" in other
    assert "reject: not worth a patch: rate is below +20%" in other


def test_a_plan_edited_by_hand_is_refused(decided: Decided) -> None:
    plan = decided.directory / "plan.json"
    plan.write_text(plan.read_text().replace('"margin": 0.01', '"margin": 0.001'))
    told = decided.bench("show")
    assert told.code == 2
    assert "was edited: its content does not match" in told.stderr


def test_a_changed_run_is_refused(decided: Decided) -> None:
    one, other = (
        cache_places().observations / f"{decided.whole['pairs'][2]['keys'][slot]}.json" for slot in ("b", "a")
    )
    one.write_bytes(other.read_bytes())
    told = decided.bench("show")
    assert told.code == 4
    assert "run b of pair 3" in told.stderr
    assert "is missing or was changed" in told.stderr


def test_a_record_of_another_coin_is_refused(decided: Decided) -> None:
    record = decided.directory / "pair-0002.json"
    text = record.read_text()
    record.write_text(text.replace('"coin": 1', '"coin": -1') if '"coin": 1' in text else text.replace(": -1", ": 1"))
    assert "does not match the plan of its comparison" in decided.bench("show").stderr


def test_equal_sides_are_refused(bench: Bench) -> None:
    told = bench("ab", "--a", "./bin", "--b", "./bin", "-w", "command", *RATE)
    assert told.code == 2
    assert "error: both sides are the same: equal programs and equal variables" in told.stderr


def test_a_switch_that_no_program_knows_is_refused(bench: Bench) -> None:
    told = ab(bench, switch="SLOW=1")
    assert told.code == 2
    assert "contains the name SLOW: the switch would have no effect" in told.stderr


def test_a_side_that_crashes_is_invalid_and_keeps_what_ran(bench: Bench) -> None:
    told = ab(bench, "--env", "CRASH_AT=12", "--no-reference", "--json", switch="FAST=1")
    assert told.code == 4
    found = told.document
    assert found["outcome"] == "INVALID"
    assert "failed in pair 7: it crashed with SIGSEGV" in found["reason"]
    assert len(found["pairs"]) == 6


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo rate: 0", "the figure of rate is 0.0"),
        ("echo rate: 1.0; echo rate: 2.0", "the figure of rate was found 2 times instead of once"),
        ("echo nothing", "the figure of rate was found 0 times instead of once"),
        ("echo rate: 0.0", "the figure of rate is 0.0"),
    ],
)
def test_a_run_without_its_row_does_not_count(bench: Bench, tmp_path: Path, script: str, complaint: str) -> None:
    program(tmp_path / "bin", "speed", f"# FAST\n{script}\n")
    told = ab(bench, "--set", "tries=1")
    assert told.code == 4
    assert complaint in told.stdout
    assert "INVALID: the reference cannot be measured in pair 1" in told.stdout


def test_a_machine_that_is_not_calm_is_invalid(bench: Bench, tmp_path: Path) -> None:
    noisy = SPEED.format(work=tmp_path).replace("count * 7919 % 11", "count % 4 / 2 * 900")
    program(tmp_path / "bin", "speed", noisy)
    told = ab(bench)
    assert told.code == 4
    assert "pairs were thrown away: the machine was disturbed" in told.stdout
    assert "was thrown away: its reference runs differ by" in told.stdout


def test_programs_that_changed_after_the_plan_are_refused(decided: Decided) -> None:
    program(decided.root / "bin", "speed", SPEED.format(work=decided.root) + "# FAST\n")
    told = decided.bench("resume", decided.whole["comparison"])
    assert told.code == 2
    assert "changed after the plan was made" in told.stderr


def test_noise_measures_a_side_against_itself(bench: Bench) -> None:
    told = bench("noise", "--bin", "bin", "-w", "command", *RATE, "--pairs", "10")
    assert told.code == 0
    assert "rate: a pair deviates by 0." in told.stdout
    assert "10 of at most 10 pairs counted" in told.stdout
    assert "reject" not in told.stdout


def test_the_history_names_the_run_since_when_the_machine_is_slow(bench: Bench) -> None:
    ab(bench, "--pairs", "10", "--whole")
    with sqlite3.connect(cache_places().machine_history) as database:
        database.execute("UPDATE reference_runs SET speed = speed * 0.8 WHERE pair >= 7")
    told = bench("machine")
    assert told.code == 0
    assert "% slower since " in told.stdout
    assert "(pair 7 of comparison " in told.stdout


def test_a_history_that_cannot_be_written_stops_nothing(bench: Bench) -> None:
    cache_places().machine_history.parent.mkdir(parents=True, exist_ok=True)
    cache_places().machine_history.write_text("this text is long enough to be tried as a database")
    assert ab(bench).code == 0
    told = bench("machine")
    assert told.code == 3
    assert "cannot use the history of this machine, " in told.stderr


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("-w", "decod"), "workload decod does not exist"),
        (("-w", "decode"), "workload decode needs --model FILE"),
        (("-w", "decode", "--model", "m", "--set", "nlp=1"), "workload decode has no setting nlp"),
        (("-w", "decode", "--model", "m", "--set", "npl=8,8"), "is not a list of different whole numbers"),
        (("-w", "command", *RATE, "--set", "primary=decode *"), "is not one of the rows rate"),
        (("-w", "command", "--set", "program=speed", "--set", "figures=rate=rate: .*"), "has 0 groups"),
        (("-w", "command", "--set", "program=x", "--set", "figures=rate=(.)"), "x is not in "),
    ],
)
def test_wrong_usage_is_named(bench: Bench, args: tuple[str, ...], complaint: str) -> None:
    told = bench("ab", "--bin", "bin", "--switch", "FAST=1", *args)
    assert told.code in (2, 3)
    assert complaint in told.stderr


def test_markdown_and_page_are_written(decided: Decided) -> None:
    assert "| row | A | B | B/A | interval | shows |" in (decided.root / "out.md").read_text()
    page = (decided.root / "out.html").read_text()
    assert page.count("<svg") == 3
    assert "<script" not in page
    assert "Reference over time" in page


def without_times(document: dict[str, Any]) -> dict[str, Any]:
    pairs = [{name: value for name, value in pair.items() if name != "began"} for pair in document["pairs"]]
    return {**document, "pairs": pairs}


# Loading takes 0.2 s and a token of 4 sequences 0.01 s, as a rate of 400 t/s; SLOW makes it 200.
BATCHED = """
while [ "$1" != -ntg ]; do shift; done
tg=$2
awk -v tg=$tg -v slow=${SLOW:-1} 'BEGIN { t = 0.2 + tg * 0.01 * slow; n = 4 * (16 + tg)
  printf "{\\"pp\\": 16, \\"tg\\": %d, \\"pl\\": 4, \\"n_kv\\": %d, \\"t_pp\\": 0.064, \\"speed_pp\\": 1000.0, ", tg, n
  printf "\\"t_tg\\": %f, \\"speed_tg\\": %f, \\"t\\": 1.0, \\"speed\\": 1.0}\\n", t, 4 * tg / t }'
echo "common_perf_print:    graphs reused =  5" >&2
"""


def test_the_difference_of_two_lengths_is_free_of_what_they_share(bench: Bench, tmp_path: Path) -> None:
    program(tmp_path / "bin", "llama-batched-bench", BATCHED)
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    asked = ("difference", "./bin", "--model", "m.gguf", "--streams", "4", "--prompt", "16", "--repeats", "2")
    told = bench(*asked, "--tokens", "16,64")
    assert told.code == 0
    assert told.stdout == "./bin: 400.00 t/s (T2 - T1 0.480 s, noise 0.000 s)\n"
    other = bench(*asked, "--against", "./bin", "--env", "SLOW=2")
    assert "./bin: 200.00 t/s" in other.stdout
    assert "ratio: 1.0000" in other.stdout
    assert "the second length must be greater" in bench(*asked, "--tokens", "64,16").stderr


def test_the_difference_is_also_taken_of_another_engines_command(bench: Bench, tmp_path: Path) -> None:
    """Loading takes 0.2 s and 100 tokens 0.1 s: the wall time of the command, whatever it prints."""
    (tmp_path / "engine.sh").write_text("sleep $(awk -v n=$1 'BEGIN { print 0.2 + n / 1000 }')\n")
    asked = ("difference", "--tokens", "100,900", "--streams", "4", "--repeats", "2")
    told = bench(*asked, "--command", "sh engine.sh {tokens}")
    assert told.code == 0, told.stdout
    assert 2000 < float(told.stdout.split()[1]) < 4400  # 4 * 800 tokens in 0.8 s, and the machine's noise
    assert "lacks {tokens}" in bench(*asked, "--command", "sh engine.sh 5").stderr
    assert "starts a profiler" in bench(*asked, "--command", "nsys profile sh engine.sh {tokens}").stderr
    assert "nothing to measure" in bench("difference").stderr
    assert "sh failed with exit status 3" in bench(*asked, "--command", "sh -c 'exit 3' {tokens}").stderr


def test_a_side_under_a_profiler_is_refused(bench: Bench) -> None:
    told = ab(bench, "--env", "CUDA_INJECTION64_PATH=/opt/nsys/lib.so")
    assert told.code == 2
    assert "CUDA_INJECTION64_PATH loads a profiler, so the throughput would not be valid" in told.stderr
