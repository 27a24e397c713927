"""Measure the latencies of a server under twice its capacity, from planned times and from the times of sending.

A scripted server answers at most two requests at once, 0.1 s each: 20 a second. It gets 40 a second, with at most two
in flight, in runs of different length. Counted from the planned time, p99 grows with the run. Counted from when the
client sent a request, it does not, because the wait in the client's queue is not counted.

    python -m benchmarks.serve_overload [--seconds 3 6 12]     prints the table of docs/guides/serve.md (40 s)
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from patchstack.bench.serving.record import ServeRecord, read_record
from patchstack.stats.serving import percentile
from tests.support.scripted import a_plan, run_client, scripted_server, stream

SLOTS, ANSWER, TIMES = 2, 0.1, 2.0
"""Requests at once, seconds of each, and how many times its capacity the server gets."""


def one_run(seconds: float) -> ServeRecord:
    """Return a run whose arrivals take that many seconds."""
    rate = TIMES * SLOTS / ANSWER
    answers = [stream([ANSWER / 4 * at for at in range(1, 5)])]
    with tempfile.TemporaryDirectory(prefix="patchstack-overload-") as name:
        directory = Path(name)
        with scripted_server(directory / "server", answers, capacity=SLOTS) as server:
            plan = a_plan(
                server.url,
                arrivals="constant",
                requests=round(seconds * rate),
                rate=rate,
                concurrency=SLOTS,
                counters=False,
            )
            run_client(directory / "client", plan)
        return read_record((directory / "client/record.json.gz").read_bytes())


def tails(record: ServeRecord) -> tuple[float, float]:
    """Return the p99 of E2E in seconds, from planned times and from the times of sending."""
    found = [(one.planned, one.sent, one.times[-1]) for one in record.requests if not one.failure]
    if len(found) < 100 or len(found) < len(record.requests):
        raise SystemExit(f"{len(found)} of {len(record.requests)} requests were answered: p99 needs all, and 100")
    planned = sorted((last - (plan or 0)) / 1e9 for plan, _, last in found)
    sent = sorted((last - (at or 0)) / 1e9 for _, at, last in found)
    return percentile(planned, 0.99), percentile(sent, 0.99)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 if p99 grows from planned times and not from sent ones, 1 if not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--seconds", type=float, nargs="+", default=[3.0, 6.0, 12.0], help="how long requests arrive")
    given = parser.parse_args(arguments)
    found = [(seconds, *tails(one_run(seconds))) for seconds in sorted(given.seconds)]
    print("| requests arrive for | E2E p99 from planned times | E2E p99 from sent times |\n| --- | --- | --- |")
    for seconds, planned, sent in found:
        print(f"| {seconds:g} s | {planned:.2f} s | {sent:.2f} s |")
    (shortest, first_planned, first_sent), (longest, last_planned, last_sent) = found[0], found[-1]
    grows = last_planned > 0.8 * first_planned * longest / shortest
    stays = last_sent < 1.5 * first_sent
    return 0 if grows and stays else 1


if __name__ == "__main__":
    sys.exit(main())
