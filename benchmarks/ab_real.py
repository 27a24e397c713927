"""Real comparisons on a busy machine: A/A must never be kept, and a side slowed by 30% must be rejected.

`python -m benchmarks.ab_real BIN MODEL OUT` runs `llama-batched-bench` of BIN with a small model, while two loops keep
the machine busy: 20 comparisons of a switch that does nothing, and 10 of a side that wastes 30% of its CPU time. Each
has at most 16 pairs. A run must take longer than a few time slices, so a model of many tiny layers is best: `python -m
tests.support.tiny_gguf llama MODEL --layers 160`. OUT has a file for each comparison; a finished one is
not run again, and an interrupted one is continued. Exits with 1 unless no A/A is kept, no slowed side
is kept, and half of these are rejected.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOTHING = "GGML_NO_BACKTRACE=1"
"""A switch that the programs know, and that has no effect unless they crash."""
ONE_THREAD = "LLAMA_ARG_THREADS=1"
"""The program's threads wait for each other in a loop. With two busy loops on two cores, they wait for time slices."""
WORKLOAD = ("-w", "batched", "--set", "npp=16", "--set", "ntg=32", "--set", "npl=4", "--set", "primary=decode *")
WRAPPER = """\
#!/bin/sh
here=$(dirname "$0")
LD_PRELOAD="$here/slower.so" exec "$here/real-batched-bench" "$@"
"""
SLOWER = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
typedef int (*compute)(void *, void *);
static double used(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}
int ggml_backend_sched_graph_compute_async(void * scheduler, void * graph) {
    static compute real;
    if (!real) real = (compute) dlsym(RTLD_NEXT, "ggml_backend_sched_graph_compute_async");
    double began = used();
    int status = real(scheduler, graph);
    double until = used() + (used() - began) * 3 / 7;
    while (used() < until) { }
    return status;
}
"""
"""After each graph, three parts of CPU time are wasted for seven that it took: 30% fewer tokens a second.

A process that is only stopped for a part of the time loses less on a busy machine, where it waits anyway."""


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep the machine busy."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def slowed(programs: Path, out: Path) -> Path:
    """Return a directory of the same programs, in which the measured one is 30% slower."""
    made = out / "slowed"
    if not made.is_dir():
        made.mkdir(parents=True)
        for path in programs.iterdir():
            name = "real-batched-bench" if path.name == "llama-batched-bench" else path.name
            (made / name).symlink_to(path.resolve())
        command = ["cc", "-shared", "-fPIC", "-O2", "-x", "c", "-", "-o", str(made / "slower.so"), "-ldl"]
        subprocess.run(command, input=SLOWER.encode(), check=True)
        script = made / "llama-batched-bench"
        script.write_text(WRAPPER)
        script.chmod(0o755)
    return made


def compared(sides: list[str], model: Path, out: Path, name: str, seed: int, more: list[str]) -> str:
    """Run or continue a comparison, and return its outcome."""
    told = out / f"{name}.json"
    if not told.is_file():
        cache = out / f"{name}-cache"
        begun = list(cache.glob("comparisons/*/plan.json"))
        asked = ["resume"] if begun else ["ab", *sides, *WORKLOAD, "--env", ONE_THREAD, "--model", str(model)]
        asked += [] if begun else ["--pairs", "16", "--seed", str(seed), "--no-reference", *more]
        done = subprocess.run(
            [sys.executable, "-m", "patchstack", "bench", *asked, "--allow", "cpu-load", "--json"],
            env={**os.environ, "PATCHSTACK_CACHE": str(cache)},
            stdout=subprocess.PIPE,
            check=False,
        )
        if done.returncode not in (0, 4):
            sys.exit(f"{name} ended with {done.returncode}")
        told.write_bytes(done.stdout)
    return str(json.loads(told.read_text())["outcome"])


def main() -> int:
    """Run all of them and print the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--same", type=int, default=20, help="A/A comparisons")
    parser.add_argument("--slowed", type=int, default=10, help="comparisons of a slowed side")
    parser.add_argument("--loops", type=int, default=2, help="loops that keep the machine busy")
    parser.add_argument("--with", dest="more", action="append", default=[], help="another option of bench ab")
    given = parser.parse_args()
    out: Path = given.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    programs, began = given.bin.absolute(), time.monotonic()
    same: Counter[str] = Counter()
    worse: Counter[str] = Counter()
    with busy(given.loops):
        for number in range(given.same):
            sides = ["--bin", str(programs), "--switch", NOTHING]
            same[compared(sides, given.model.absolute(), out, f"same-{number:02}", number, given.more)] += 1
            print(f"{time.monotonic() - began:6.0f} s  same: {dict(same)}", flush=True)
        for number in range(given.slowed):
            sides = ["--a", str(programs), "--b", str(slowed(programs, out))]
            worse[compared(sides, given.model.absolute(), out, f"slowed-{number:02}", number, given.more)] += 1
            print(f"{time.monotonic() - began:6.0f} s  slowed: {dict(worse)}", flush=True)
    held = not same["keep"] and not worse["keep"] and not worse["no difference seen"]
    return 0 if held and 2 * worse["reject"] >= given.slowed else 1


if __name__ == "__main__":
    sys.exit(main())
