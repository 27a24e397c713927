"""`bench ab --workload serve:METRIC`: whole comparisons of a scripted server whose speed a switch sets."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchstack.bench.serving import figures
from tests.conftest import Ran
from tests.support.bench_commands import running
from tests.support.checkout import ROOT
from tests.support.programs import program
from tests.support.scripted import Step, stream

pytestmark = pytest.mark.local_server

TOKENS = 12
# The scripted server ends with its input, so it gets one that does not end.
SERVER = """
script={work}/quick
[ -z "$SLOW" ] || script={work}/slow
[ -z "$UNCOUNTED" ] || script=$script-uncounted
[ -z "$FAILING" ] || script=$script-failing
tail -f /dev/null | {python} {server} $script.json {work}/writes.jsonl
"""
FAILED: list[Step] = [(0.0, 'data: {"error": {"message": "out of slots"}}\n\n')]


@pytest.fixture
def ab(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Compare the server with itself and a variable. A client that is late on a busy machine counts here too."""
    for name in ("LAG_MS", "LAG_MOST_MS", "LAG_MEDIAN_MS", "FULL_CORE"):
        monkeypatch.setattr(figures, name, 1e6)
    monkeypatch.setattr(figures, "LAG_OF_GAP", 1e6)
    for name, gap in (("quick", 0.01), ("slow", 0.04)):
        answers = [stream([gap * at for at in range(1, TOKENS + 1)])]
        script: dict[str, Any] = {"answers": answers, "metrics": True, "tokens": TOKENS}
        for ending, changes in (
            ("", {}),
            ("-uncounted", {"metrics": False}),
            ("-failing", {"answers": [*answers * 5, FAILED]}),
        ):
            (tmp_path / f"{name}{ending}.json").write_text(json.dumps({**script, **changes}))
    parts = {"python": sys.executable, "server": ROOT / "tests/support/scripted_server.py", "work": tmp_path}
    program(tmp_path / "bin", "llama-server", SERVER.format(**{k: shlex.quote(str(v)) for k, v in parts.items()}))
    (tmp_path / "model.gguf").write_bytes(b"no model is read")
    monkeypatch.chdir(tmp_path)
    bench = running(capsys, monkeypatch)

    def run(*more: str, metric: str = "itl_p50") -> Ran:
        load = [("concurrency", 2), ("requests", 6), ("prompt_tokens", 8), ("max_tokens", TOKENS), ("tries", 1)]
        sets = [part for name, value in load for part in ("--set", f"{name}={value}")]
        common = ("--bin", "bin", "--model", "model.gguf", "--seed", "7", "--no-reference", "--allow", "cpu-load")
        judged = ("--alpha", "0.2", "--pairs", "4")
        return bench("ab", "-w", f"serve:{metric}", *common, *judged, *sets, *more, "--json")

    return run


@pytest.mark.parametrize(
    ("metric", "slow", "shown", "outcome"),
    [
        ("itl_p50", "--switch", "slower", "reject"),
        ("itl_p50", "--a-env", "faster", "keep"),
        ("tps", "--switch", "slower", "reject"),
    ],
)
def test_of_a_latency_less_is_better_and_of_a_rate_more(
    ab: Callable[..., Ran], metric: str, slow: str, shown: str, outcome: str
) -> None:
    ran = ab(slow, "SLOW=1", metric=metric)
    assert ran.code == 0, ran
    row = ran.document["rows"][0]
    assert (row["name"], row["better"]) == (metric, "higher" if metric == "tps" else "lower")
    assert shown in row["shown"] and ran.document["outcome"] == outcome, ran
    if metric == "itl_p50":
        quick, slow_ms = sorted((row["a"], row["b"]))
        assert quick == pytest.approx(10, abs=5) and slow_ms == pytest.approx(40, abs=5)
        assert row["unit"] == "ms"


def test_without_counters_no_pair_is_judged_unless_that_is_allowed(ab: Callable[..., Ran]) -> None:
    ran = ab("--env", "UNCOUNTED=1", "--switch", "SLOW=1")
    assert ran.code == 4, ran
    assert "the server has no counters to check the client" in ran.stdout + ran.stderr, ran
    allowed = ab("--env", "UNCOUNTED=1", "--switch", "SLOW=1", "--set", "no_counters=true")
    assert (allowed.code, allowed.document["outcome"]) == (0, "reject"), allowed


def test_a_request_that_fails_makes_the_pair_invalid(ab: Callable[..., Ran]) -> None:
    ran = ab("--switch", "FAILING=1")
    assert ran.code == 4, ran
    assert "1 of 6 requests failed" in ran.stdout + ran.stderr, ran
    assert "out of slots" in ran.stdout + ran.stderr, ran
