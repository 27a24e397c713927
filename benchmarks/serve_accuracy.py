"""Measure how exact the client's times are, and check that inexact runs are INVALID.

A scripted server in a separate process streams tokens on an exact schedule and records the time of each write. Each
run is compared with that record: the median of the errors of TTFT, ICL and E2E must be within 1 ms and p99 within 5 ms.

    python -m benchmarks.serve_accuracy [--runs 20] [--seconds 5]              on a machine that is otherwise idle
    python -m benchmarks.serve_accuracy --busy 4 --runs 50 [--seconds 5]       beside four busy loops

The first prints how many runs were valid and exact; the second fails if a run that is not exact is called valid. Each
takes about (seconds + 2) x runs x 2 loads: 5 min and 12 min.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from patchstack.bench.serving.figures import LoadTerms, figures_of
from patchstack.bench.serving.record import RequestRecord, ServeRecord, read_record
from patchstack.stats.serving import percentile
from tests.support.scripted import Step, a_plan, run_client, scripted_server, stream

LOADS = ((64, 10.0), (256, 4.0))
MEDIAN, TAIL = 1.0, 5.0
"""Bounds of the error in ms."""
Errors = dict[str, list[float]]


def schedule(streams: int, rate: float, seconds: float, seed: int) -> list[list[Step]]:
    """Return answers whose first tokens are spread over one gap."""
    chance = random.Random(seed)
    return [
        stream([0.2 + chance.random() / rate + at / rate for at in range(max(2, int(seconds * rate)))])
        for _ in range(streams)
    ]


def errors(record: ServeRecord, writes: dict[int, list[list[int]]]) -> Errors:
    """Return the errors of a run in ms. The server's numbers follow the order in which requests were sent.

    TTFT and E2E need a start that both clocks know. They differ by the time to the server, so the smallest error of the
    run counts as zero.
    """
    answered: list[RequestRecord] = sorted((one for one in record.requests if one.sent), key=lambda one: one.sent or 0)
    pairs = [(one, [write[1] for write in writes[at]]) for at, one in enumerate(answered)]
    shifts = [mine - theirs for one, own in pairs for mine, theirs in zip(one.times, own, strict=True)]
    zero = min(shifts)
    first = [(one.times[0] - own[0] - zero) / 1e6 for one, own in pairs]
    last = [(one.times[-1] - own[-1] - zero) / 1e6 for one, own in pairs]
    gaps = [
        abs((one.times[at] - one.times[at - 1]) - (own[at] - own[at - 1])) / 1e6
        for one, own in pairs
        for at in range(1, len(own))
    ]
    return {"TTFT": first, "ICL": gaps, "E2E": last}


def exact(found: Errors) -> bool:
    """Return whether all errors are within the bounds."""
    return all(
        percentile(sorted(one), 0.5) <= MEDIAN and percentile(sorted(one), 0.99) <= TAIL for one in found.values()
    )


def one_run(streams: int, rate: float, seconds: float, seed: int) -> tuple[bool, bool, str]:
    """Return whether a run was exact and whether it is called valid, with its figures in words."""
    answers = schedule(streams, rate, seconds, seed)
    with tempfile.TemporaryDirectory(prefix="patchstack-accuracy-") as name:
        directory = Path(name)
        with scripted_server(directory / "server", answers) as server:
            plan = a_plan(
                server.url, requests=streams, concurrency=streams, max_tokens=(len(answers[0]),), counters=False
            )
            run_client(directory / "client", plan)
        record = read_record((directory / "client/record.json.gz").read_bytes())
    if any(one.failure for one in record.requests):
        return False, False, "requests failed"
    found = errors(record, server.writes)
    served = figures_of(record, LoadTerms(arrivals="closed", concurrency=streams, prefix=0, slo={}))
    words = ", ".join(
        f"{what} {percentile(sorted(one), 0.5):.2f}/{percentile(sorted(one), 0.99):.2f}" for what, one in found.items()
    )
    return exact(found), not served.problems, f"{words} ms (p50/p99); lag p99 {record.watch.lag_p99_ms:.2f} ms"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 the promise holds, 1 it does not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--busy", type=int, default=0, help="busy loops beside")
    given = parser.parse_args(arguments)
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(given.busy)]
    wrong = 0
    try:
        for streams, rate in LOADS:
            valid = both = 0
            for number in range(given.runs):
                was_exact, was_valid, words = one_run(streams, rate, given.seconds, number)
                valid += was_valid
                both += was_valid and was_exact
                wrong += was_valid and not was_exact
                print(
                    f"{streams} streams, run {number + 1}: {'valid' if was_valid else 'INVALID'}, {words}", flush=True
                )
            each = f"{streams} streams at {rate:g} tokens/s"
            print(f"{each}: {valid} of {given.runs} runs are valid, {both} of them within the bounds")
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    print(f"{wrong} runs are called valid and are not exact")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
