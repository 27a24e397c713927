"""Measure the time to read the header of a 35B model (248,320 tokens, 753 tensors), and to make a whole report.

Each run is a separate process; the report includes start-up. Goals: the header in 0.2 s and 60 MB, the report in
1 s. CPU seconds are printed in addition to wall time, which on a loaded machine includes other processes.

    python -m benchmarks.cost_header [--runs 10]
    python -m benchmarks.cost_header --write FILE    # the header alone, for the screens of the guide
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

WRITE = """
import sys
from pathlib import Path
from tests.support.gguf_header import hybrid_35b, write_shape
write_shape(Path(sys.argv[1]), *hybrid_35b())
"""
READ = """
import resource, sys, time
from pathlib import Path
from patchstack.cost.header import read_header
before = resource.getrusage(resource.RUSAGE_SELF)
began = time.perf_counter()
header = read_header(Path(sys.argv[1]))
took = time.perf_counter() - began
after = resource.getrusage(resource.RUSAGE_SELF)
cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
assert len(header.tensors) == 753 and header.keys["tokenizer.ggml.tokens"].length == 248_320
print(took, cpu, after.ru_maxrss * 1024)
"""


def read_once(model: Path) -> tuple[float, float, int]:
    """Return wall and CPU seconds for the header alone, and the peak memory of the process in bytes."""
    done = subprocess.run([sys.executable, "-c", READ, str(model)], capture_output=True, text=True, check=True)
    took, cpu, most = done.stdout.split()
    return float(took), float(cpu), int(most)


def report_once(model: Path) -> tuple[float, float, int]:
    """Return the same figures for a whole process that prints a report."""
    command = [sys.executable, "-m", "patchstack", "cost", "report", str(model), "--machine", "h200", "--json"]
    began = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    took = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, child.returncode
    return took, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def main() -> int:
    """Exit status: 0 if the best run of each keeps its goals, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--write", type=Path, metavar="FILE")
    given = parser.parse_args()
    runs: int = given.runs
    if given.write:
        return subprocess.run([sys.executable, "-c", WRITE, str(given.write)], check=False).returncode
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    kept = True
    with tempfile.TemporaryDirectory() as directory:
        model = Path(directory) / "model.gguf"
        # Written by another process, because a child's memory is at least that of its parent.
        subprocess.run([sys.executable, "-c", WRITE, str(model)], check=True)
        for what, once, seconds, size in (("header", read_once, 0.2, 60e6), ("report", report_once, 1.0, None)):
            once(model)  # the first run writes compiled modules
            found = [once(model) for _ in range(runs)]
            clock, cpu, most = ([one[at] for one in found] for at in range(3))
            row = {
                "what": what,
                "clock_best_s": round(min(clock), 3),
                "clock_median_s": round(median(clock), 3),
                "cpu_best_s": round(min(cpu), 3),
                "cpu_median_s": round(median(cpu), 3),
                "memory_mb": round(max(most) / 1e6, 1),
            }
            print(json.dumps(row), flush=True)
            kept = kept and min(clock) <= seconds and (size is None or max(most) <= size)
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
