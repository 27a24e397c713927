"""What a switch of the programs under test does to their speed: off against on, with an interval.

    python -m benchmarks.switch_ratio run --bin DIR --model FILE --on LLAMA_MOE_FORCE_GRAPHS=1 -o runs.jsonl
    python -m benchmarks.switch_ratio report runs.jsonl

`run` starts `llama-batched-bench` afresh for every measurement, in the order off on on off, so that a machine that
grows slower or faster is not taken for the switch's doing. A run whose rows are not all there does not count: the
program loses its last lines now and then, and leaves out combinations that do not fit the context. `--on` without `=`
compares off with itself: the noise of the machine, to be known before any result.

`report` gives, for prefill and for decode and each number of parallel sequences, the geometric mean of on/off (tokens
per second) over the pairs, and a 95% bootstrap interval of it (BCa, on the logarithms). Needs scipy.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import math
import subprocess
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

from patchstack.llama.batched_bench_output import Row, read_rows, rows_problem

ORDER = ("off", "on", "on", "off")


def main() -> int:
    """Measure, or report what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("--bin", type=Path, required=True)
    run.add_argument("--model", type=Path, required=True)
    run.add_argument("--on", default="", help="NAME=VALUE")
    run.add_argument("--pairs", type=int, default=8)
    run.add_argument("--parallel", default="8,32,64,128")
    run.add_argument("--prompt", type=int, default=64)
    run.add_argument("--generate", type=int, default=64)
    run.add_argument("--flash-attention", choices=("on", "off"), default="on")
    run.add_argument("-o", "--output", type=Path, required=True)
    report = commands.add_parser("report")
    report.add_argument("runs", type=Path)
    options = parser.parse_args()
    return _report(options.runs) if options.command == "report" else _run(options)


def _run(options: argparse.Namespace) -> int:
    parallel = [int(number) for number in options.parallel.split(",")]
    shapes = [(options.prompt, options.generate, one) for one in parallel]
    context = max(parallel) * (options.prompt + options.generate)
    settings = {
        "-m": str(options.model),
        "-ngl": "99",
        "-fa": options.flash_attention,
        "-fit": "off",
        "-c": str(context),
        "-b": "2048",
        "-ub": "512",
        "-npp": str(options.prompt),
        "-ntg": str(options.generate),
        "-npl": options.parallel,
        "--output-format": "jsonl",
        "-lv": "4",
    }
    command = [str(options.bin / "llama-batched-bench"), *itertools.chain(*settings.items()), "--perf"]
    name, _, value = options.on.partition("=")
    with options.output.open("w") as kept:
        for number in range(options.pairs * 2):
            state = ORDER[number % len(ORDER)]
            problem: str | None = None
            rows: tuple[Row, ...] = ()
            for _ in range(5):
                environment = {"LD_LIBRARY_PATH": f"{options.bin}:/usr/local/cuda/lib64"}
                if state == "on" and name:
                    environment[name] = value
                found = _rows(command, environment)
                rows = found if not isinstance(found, str) else ()
                problem = found if isinstance(found, str) else rows_problem(rows, shapes)
                if problem is None:
                    break
            else:
                print(f"error: {problem}, five times", file=sys.stderr)
                return 4
            for row in rows:
                record = {
                    "pair": number // 2,
                    "state": state,
                    "pl": row.shape[2],
                    "tg": row.decode_speed,
                    "pp": row.prefill_speed,
                }
                kept.write(json.dumps(record) + "\n")
            kept.flush()
            print(number // 2, state, *(f"{row.decode_speed:.1f}" for row in rows), file=sys.stderr)
    return 0


def _rows(command: list[str], environment: dict[str, str]) -> tuple[Row, ...] | str:
    """The rows of a run, or why there are none."""
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=600, check=False
    )
    if done.returncode != 0:
        print(done.stderr.decode("utf-8", "replace")[-2000:], file=sys.stderr)
        return f"exit code {done.returncode}"
    return read_rows(done.stdout)


def _report(runs: Path) -> int:
    stats: Any = importlib.import_module("scipy.stats")
    records = [json.loads(line) for line in runs.read_text().splitlines()]
    print("what     parallel  pairs   off t/s    on t/s   on/off  95% interval")
    for what, field in (("prefill", "pp"), ("decode", "tg")):
        for parallel in sorted({record["pl"] for record in records}):
            own = [record for record in records if record["pl"] == parallel]
            print(f"{what:7}  {parallel:8}  {_ratio(own, field, stats)}")
    return 0


def _ratio(records: list[dict[str, Any]], field: str, stats: Any) -> str:
    """The ratio of what `field` holds, over the pairs."""
    speeds: dict[str, dict[int, float]] = {"off": {}, "on": {}}
    for record in records:
        speeds[record["state"]][record["pair"]] = record[field]
    pairs = sorted(set(speeds["off"]) & set(speeds["on"]))
    ratios = [math.log(speeds["on"][pair] / speeds["off"][pair]) for pair in pairs]
    off, on = (fmean([speeds[state][pair] for pair in pairs]) for state in ("off", "on"))
    interval = stats.bootstrap((ratios,), fmean, confidence_level=0.95, vectorized=False, rng=1).confidence_interval
    low, high = math.exp(interval.low), math.exp(interval.high)
    ratio = math.exp(fmean(ratios))
    return f"{len(pairs):5}  {off:8.1f}  {on:8.1f}  {ratio:7.3f}  {low:.3f} to {high:.3f}"


if __name__ == "__main__":
    sys.exit(main())
