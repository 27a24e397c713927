"""Measure `patchstack build`: with a cache hit, with a warm ccache, after one more patch, and compared with cmake by
hand.

`python -m benchmarks.build_speed [--engine docker --image IMAGE]` measures whole processes, a fresh process for each
run, in rounds of alternating order (A B … B A). It builds the demo's series; `--workspace FILE` takes another (its
series by `--series`), `--source DIR` a tree without a series (`--touch FILE` of it is then what "one more patch"
changes).

By hand means: the same configure and build commands, in one `docker run` with the limits, volumes and environment of a
build's jobs, on a tree that is already in its volume. So all of patchstack's other work (verify, the key, sending the
tree, two containers, fetching, proofs, provenance) counts as overhead.

ccache is made cold by a compiler option that no build had before (`-frandom-seed`), not by emptying it: on a Docker
engine its volume is shared. The runs' entries there are removed by ccache's own limit. Everything else is in a
temporary directory.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.build_case import Case, make_case, patchstack_environment
from benchmarks.verify_speed import Target
from patchstack.builds.inputs.prepare import prepare
from patchstack.builds.inputs.variant import load_variants
from patchstack.builds.run.recipe import build_command, configure_command
from patchstack.builds.run.session import Session
from patchstack.engine.choose import open_engine
from patchstack.engine.docker.endpoint import resolve
from patchstack.engine.docker.sandbox import HOME
from patchstack.engine.protocol import Engine, Job
from patchstack.process import clean_environment
from patchstack.workspace import read_workspace

_NAMES = {
    "H": "patchstack build: found by its key",
    "W": "patchstack build --again, ccache warm",
    "X": "cmake by hand, ccache warm",
    "C": "patchstack build, ccache cold, one patch less",
    "P": "patchstack build, that patch on top",
    "N": "patchstack build --again --no-ccache",
    "M": "cmake by hand, no ccache",
}
_COMPARISONS = {"hit": "HWN", "ccache": "WC", "patch": "CP", "overhead": "WXNM"}
_RATIOS = {
    "H/W": "found / built again, ccache warm",
    "H/N": "found / built again, no ccache",
    "W/C": "ccache warm / cold",
    "P/C": "one patch more / clean",
    "W/X": "overhead over cmake by hand, ccache warm",
    "N/M": "overhead over cmake by hand, no ccache",
}
_FOUND_SECONDS = Target(what="found", bound=1.0)
_OVERHEAD = Target(what="N/M", bound=1.05)
_REAL_SIZE = 60.0
"""If the build by hand takes fewer seconds than this, start-up dominates, and the overhead is reported but not
judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One process. `cmake` is the part of the seconds that its configure and build commands took, from the build's
    record; `ccache` is hits and misses, None if there was no ccache or nothing was compiled."""

    seconds: float
    cmake: float | None = None
    ccache: tuple[int, int] | None = None


class Silent:
    """A progress listener that shows nothing."""

    def phase(self, name: str) -> None:
        """Ignore the start of a phase."""

    def output(self, chunk: bytes) -> None:
        """Ignore the output of the commands."""

    def talk(self, text: str) -> None:
        """Ignore a message for the user."""


class Bench:
    """The subjects: each runs one process and gives its time."""

    def __init__(self, case: Case, scratch: Path) -> None:
        self.case = case
        self.scratch = scratch
        self.machine: dict[str, Any] = {}
        self._fresh = 1
        self._without_last: deque[int] = deque()

    def warm_up(self, letters: str) -> None:
        """Warm up: byte code, the image's properties, ccache for variant 0, and for one variant without the last
        patch."""
        self._build(0, self.case.whole, hit=False)
        if "P" in letters:
            self._cold()

    def subjects(self) -> dict[str, Callable[[], Run]]:
        """Return the measured commands, by letter."""
        whole = self.case.whole
        return {
            "H": lambda: self._build(0, whole, hit=True),
            "W": lambda: self._build(0, whole, "--again", hit=False),
            "X": lambda: self._by_hand(ccache=True),
            "C": self._cold,
            "P": lambda: self._build(self._without_last.popleft(), whole, hit=False),
            "N": lambda: self._build(0, whole, "--again", "--no-ccache", hit=False),
            "M": lambda: self._by_hand(ccache=False),
        }

    def _cold(self) -> Run:
        number, self._fresh = self._fresh, self._fresh + 1
        self._without_last.append(number)
        return self._build(number, self.case.previous or self.case.whole, hit=False)

    def _build(self, number: int, what: Sequence[str], *options: str, hit: bool) -> Run:
        args = [sys.executable, "-m", "patchstack", "build", *what, "--variant", f"measured-{number}"]
        args += [*self.case.options, *options, "--json"]
        seconds, done = timed(args, patchstack_environment(self.scratch), self.scratch)
        if done.returncode not in (0, 1, 4) or not done.stdout:
            raise SystemExit(f"{shlex.join(args)} exited {done.returncode}: {done.stderr.decode()[-2_000:]}")
        found = json.loads(done.stdout)
        if (found["status"], found["hit"]) != ("built", hit):
            raise SystemExit(f"{shlex.join(args)}: {found['status']}, hit: {found['hit']}; {found['rejection']}")
        resolved = found["options"]
        self.machine = {
            "engine": found["engine"],
            "jobs": resolved["jobs"],
            "toolchain": resolved["toolchain"]["value"],
        }
        if hit:
            return Run(seconds=seconds)
        rate, parts = found["ccache"], found["seconds"]
        return Run(
            seconds=seconds,
            cmake=parts["configure"] + parts["compile"],
            ccache=(rate["hits"], rate["misses"]) if rate is not None else None,
        )

    def _by_hand(self, *, ccache: bool) -> Run:
        engine = open_engine(self.case.engine, root=self.case.cache / "engine")
        try:
            with self._session(engine, ccache=ccache) as session:
                commands = (
                    configure_command(session.plan, session.layout, session.key.hex),
                    build_command(session.plan, session.layout),
                )
                job = session.job("by-hand", ("sh", "-c", " && ".join(map(shlex.join, commands))))
                if session.plan.engine.isolated:
                    seconds, done = timed(docker_run(self.case.engine, job), None, self.scratch)
                else:
                    seconds, done = timed(job.argv, {**clean_environment(), **job.env}, Path(session.layout.source))
        finally:
            engine.close()
        if done.returncode:
            words = (done.stdout + done.stderr).decode(errors="replace")[-2_000:]
            raise SystemExit(f"cmake by hand exited {done.returncode}: {words}")
        return Run(seconds=seconds)

    @contextmanager
    def _session(self, engine: Engine, *, ccache: bool) -> Iterator[Session]:
        """Open a build's volumes with the tree in them, and remove them afterwards."""
        case = self.case
        variants = load_variants(read_workspace(case.workspace).variants)
        request = replace(case.request, variant="measured-0", ccache=ccache)
        inputs = prepare(request, case.source(), engine, variants, case.cache / "toolchains", lambda _: None)
        session = Session(engine, inputs.plan, inputs.toolchain, inputs.key, Silent(), self.scratch, keep=False)
        try:
            session.send(inputs.source)
            yield session
        finally:
            session.close()


def timed(
    args: Sequence[str], environment: Mapping[str, str] | None, cwd: Path
) -> tuple[float, subprocess.CompletedProcess[bytes]]:
    """Run a program to its end, and return its seconds and result."""
    start = perf_counter()
    done = subprocess.run(args, env=environment, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return perf_counter() - start, done


def docker_run(engine: str, job: Job) -> list[str]:
    """Return the `docker run` command with which a person would run a job like patchstack, with the same limits."""
    limits = job.limits
    args = ["docker", *resolve(engine).docker_arguments(), "run", "--rm", "--user", "1000:1000", "--network", "none"]
    args += ["--ipc", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    args += ["--log-driver", "none", "--mount", f"type=tmpfs,target=/tmp,tmpfs-mode=1777,tmpfs-size={limits.tmp}"]
    if limits.memory is not None:
        args += ["--memory", str(limits.memory), "--memory-swap", str(limits.memory)]
    args += ["--cpus", str(limits.cpus)] if limits.cpus is not None else []
    args += ["--pids-limit", str(limits.pids)] if limits.pids is not None else []
    for volume in job.volumes:
        args += ["--mount", f"type=volume,source={volume.name},target={volume.target},volume-nocopy"]
    for path in job.paths:
        args += ["--mount", f"type=bind,source={path.source},target={path.target},readonly"]
    environment = {"HOME": HOME} | dict(job.env)
    args += [part for name, value in environment.items() for part in ("--env", f"{name}={value}")]
    return [*args, "--workdir", job.workdir or "/", job.image or "", *job.argv]


def measure(bench: Bench, letters: str, pairs: int) -> dict[str, list[Run]]:
    """Measure round by round, every second one backwards, after a warm-up."""
    bench.warm_up(letters)
    subjects = bench.subjects()
    runs: dict[str, list[Run]] = {letter: [] for letter in letters}
    for number in range(pairs):
        for letter in letters if number % 2 == 0 else reversed(letters):
            run = subjects[letter]()
            runs[letter].append(run)
            print(f"round {number + 1} of {pairs}: {letter} {run.seconds:.2f} s", file=sys.stderr, flush=True)
    return runs


def report(runs: Mapping[str, Sequence[Run]]) -> tuple[dict[str, Any], bool]:
    """Print times, ratios and differences, and return them with whether every target is met."""
    print(f"{'':48}{'runs':>5}{'median':>10}{'min':>10}{'max':>10}{'in cmake':>10}{'ccache hits':>14}")
    seconds = {letter: [run.seconds for run in own] for letter, own in runs.items()}
    for letter, times in seconds.items():
        rates = [run.ccache for run in runs[letter] if run.ccache is not None]
        told = f"{sum(rate[0] for rate in rates)} of {sum(map(sum, rates))}" if rates else ""
        inside = [run.cmake for run in runs[letter] if run.cmake is not None]
        spent = f"{median(inside):8.2f} s" if inside else ""
        print(
            f"{letter} {_NAMES[letter]:46}{len(times):5}{median(times):8.2f} s{min(times):8.2f} s{max(times):8.2f} s"
            f"{spent:>10}{told:>14}".rstrip()
        )
    cmake = {letter: [run.cmake for run in own if run.cmake is not None] for letter, own in runs.items()}
    data: dict[str, Any] = {"seconds": seconds, "in_cmake": cmake, "ratios": {}}
    met = True
    print(f"\n{'ratio, round by round':44}{'median':>8}{'range':>18}{'difference':>14}   target")
    for what, words in _RATIOS.items():
        above, below = what.split("/")
        if above not in runs or below not in runs:
            continue
        each = [one / other for one, other in zip(seconds[above], seconds[below], strict=True)]
        gap = median(one - other for one, other in zip(seconds[above], seconds[below], strict=True))
        verdict = ""
        if what == _OVERHEAD.what:
            judged = median(seconds[below]) >= _REAL_SIZE
            verdict = _OVERHEAD.verdict(median(each)) if judged else "not judged: too small a build"
            met = met and (not judged or _OVERHEAD.met(median(each)))
        print(f"{words:44}{median(each):8.3f}{min(each):9.3f} ..{max(each):6.3f}{gap:+12.2f} s   {verdict}".rstrip())
        data["ratios"][what] = {"what": words, "rounds": each, "median": median(each), "difference_s": gap}
    if "H" in seconds:
        middle = median(seconds["H"])
        print(f"\nfound by its key: {middle:.2f} s   {_FOUND_SECONDS.verdict(middle)}")
        met = met and _FOUND_SECONDS.met(middle)
    return data, met


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure `patchstack build`, interleaved in one run.")
    parser.add_argument("--engine", default="docker", help="where to build: docker, docker:CONTEXT, ssh://…, host")
    parser.add_argument("--workspace", type=Path, metavar="FILE", help="a workspace, instead of the demo's")
    parser.add_argument("--series", metavar="NAME", help="the series of it [the first]")
    parser.add_argument("--source", type=Path, metavar="DIR", help="a tree, instead of a series")
    parser.add_argument("--touch", metavar="FILE", help="with --source: the file that one more patch changes")
    for name in ("variant", "image", "toolkit"):
        parser.add_argument(f"--{name}", help="as `patchstack build` has it")
    for name in ("define", "target"):
        parser.add_argument(f"--{name}", action="append", default=[], help="as `patchstack build` has it; repeatable")
    parser.add_argument("--jobs", type=int, help="as `patchstack build` has it")
    parser.add_argument("--only", action="append", choices=tuple(_COMPARISONS), help="only this comparison; repeatable")
    parser.add_argument("--pairs", type=int, default=3, help="rounds [3]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--no-fail", action="store_true", help="exit 0 even where a target is missed")
    given = parser.parse_args()
    if given.pairs < 1:
        parser.error("one round at least")
    if given.source and (given.workspace or given.series):
        parser.error("--source is a tree without a series")
    return given


def main() -> int:
    """Measure, print, and return the exit status."""
    given = options()
    with tempfile.TemporaryDirectory(prefix="build-speed-") as directory:
        scratch = Path(directory).resolve()
        case = make_case(given, scratch)
        wanted = set("".join(_COMPARISONS[name] for name in given.only or _COMPARISONS))
        if case.previous is None:
            wanted.discard("P")
        bench = Bench(case, scratch)
        runs = measure(bench, "".join(letter for letter in _NAMES if letter in wanted), given.pairs)
    engine, tools = bench.machine["engine"], bench.machine["toolchain"]
    print(f"Python {platform.python_version()}; {engine['kind']} {engine['version']}; {os.cpu_count()} CPUs")
    print(f"{tools['c++']}; {tools['cmake']}; {bench.machine['jobs']['value']} jobs; variant {case.base}\n")
    data, met = report(runs)
    if given.json:
        given.json.write_text(json.dumps({"machine": bench.machine, **data}, indent=1) + "\n")
    return 0 if met or given.no_fail else 1


if __name__ == "__main__":
    sys.exit(main())
