"""Measure `patchstack verify` against git itself.

`python -m benchmarks.verify_speed [--repo CLONE --pin SHA --patches DIR --expect-tree TREE]` measures whole processes,
interleaved, each run in a new process: (A) `patchstack verify`, every prefix tree; (B) git, all patches in one pass;
(C) git, patch by patch, with every prefix tree; (D) a fresh worktree. Without a clone it generates a tree of
llama.cpp's shape. `--scaling` instead measures time and memory over long series on a large tree. Nothing is written
into the clone. Standard library and git only; the Python that runs it also runs patchstack.

By CPU time, on two busy cores (load average 9 to 20, Python 3.11, git 2.39): A/B 1.01 and C/A 3.7 on the generated
tree, A/B 0.93 and C/A 2.6 with 46 patches on llama.cpp. More than half of the latter is start-up, so 4 is not reached.

git writes many small files here and patchstack none, so a busy disk favours patchstack: `TMPDIR=/dev/shm` (or another
file system in memory) avoids this.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.generate import git_environment

_GIT_APPLY = "git -c apply.whitespace=nowarn -c core.protectNTFS=true -c core.protectHFS=true apply"
_SCRIPTS = {
    "B": f'git read-tree "$PIN"; {_GIT_APPLY} --cached "$@"; git write-tree --missing-ok',
    "C": f'git read-tree "$PIN"; for patch; do {_GIT_APPLY} --cached "$patch"; git write-tree --missing-ok; done',
    "D": f'git --git-dir="$CLONE" worktree add --quiet --detach "$FRESH/tree" "$PIN"; cd "$FRESH/tree"; '
    f'{_GIT_APPLY} "$@"; git add -A; git write-tree --missing-ok',
}
_NAMES = {
    "A": "patchstack verify (every prefix tree)",
    "B": "git: read-tree, one apply, write-tree",
    "C": "git: patch by patch, write-tree each",
    "D": "git: fresh worktree, apply, add, write-tree",
}
_ROOT = Path(__file__).resolve().parent.parent
_SCALING_FILES, _SCALING_LARGEST = 80_000, 4_000
_SCALING_PATCHES = (125, 250, 500, 1_000)
_LINEAR, _MEMORY_MB = 2.3, 250.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A repository, a pin in it, and a series with the tree it must give."""

    repo: Path
    objects: Path
    pin: str
    patches: tuple[Path, ...]
    tree: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One process, children included. `seconds` is wall time; `cpu` is user and system time, which a busy machine
    changes less. `peak_mb` is the largest resident size of any one of them.

    It is never less than the peak of the process that started it: this one, which therefore holds nothing large.
    """

    seconds: float
    cpu: float
    peak_mb: float
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A limit for a figure: at most `bound`, or at least if `at_least`."""

    what: str
    bound: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        """Return whether the figure keeps the bound."""
        return value >= self.bound if self.at_least else value <= self.bound

    def verdict(self, value: float) -> str:
        """Return the bound, and a word for whether it is kept."""
        return f"{'>=' if self.at_least else '<='} {self.bound:g}  {'pass' if self.met(value) else 'FAIL'}"


_RATIOS = (
    Target(what="A/B", bound=1.2),
    Target(what="C/A", bound=4, at_least=True),
    Target(what="D/A", bound=20, at_least=True),
)


def git(repo: Path, *args: str) -> str:
    """Return the output of a git command in a repository."""
    command = ["git", "-C", str(repo), *args]
    return subprocess.run(command, env=git_environment(), stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def timed(args: Sequence[str], environment: Mapping[str, str], cwd: Path, *, keep: bool = True) -> Run:
    """Run a program to its end; its output goes to a file, or to nowhere unless `keep`. It must succeed."""
    with tempfile.TemporaryFile() as kept, tempfile.TemporaryFile() as complaint:
        out = kept if keep else subprocess.DEVNULL
        start = perf_counter()
        child = subprocess.Popen(args, env=environment, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=complaint)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        kept.seek(0)
        complaint.seek(0)
        if child.returncode:
            words = complaint.read().decode(errors="replace")[-2_000:]
            raise SystemExit(f"{' '.join(args[:4])} ... exited {child.returncode}: {words}")
        unit = 1e6 if sys.platform == "darwin" else 1e3
        cpu = usage.ru_utime + usage.ru_stime
        return Run(seconds=seconds, cpu=cpu, peak_mb=usage.ru_maxrss / unit, output=kept.read().decode())


def make_case(repo: Path, pin: str, patches: Path, tree: str) -> Case:
    """Describe a series on a clone."""
    files = tuple(sorted(patches.resolve().glob("*.patch"), key=os.fsencode))
    if not files:
        raise SystemExit(f"there are no patches in {patches}")
    objects = (repo / git(repo, "rev-parse", "--git-path", "objects")).resolve()
    commit = git(repo, "rev-parse", f"{pin}^{{commit}}")
    return Case(repo=repo.resolve(), objects=objects, pin=commit, patches=files, tree=tree)


def generated_case(directory: Path, *options: str) -> Case:
    """Generate a repository and its series in a separate process, because this process's peak counts for its
    children."""
    subprocess.run([sys.executable, "-m", "benchmarks.generate", str(directory), *options], check=True, cwd=_ROOT)
    repo = directory / "repo"
    return make_case(repo, "pin", directory / "patches", git(repo, "rev-parse", "fork^{tree}"))


def run_patchstack(case: Case, scratch: Path, *, keep: bool = False) -> Run:
    """Return one run of `patchstack verify`, from this checkout if there is one; byte-compiled, as an installed one
    is."""
    checkout = Path(__file__).resolve().parent.parent
    environment = {name: value for name, value in git_environment().items() if not name.startswith("PYTHON")}
    environment |= {"PATCHSTACK_CACHE": str(scratch / "cache"), "PYTHONPYCACHEPREFIX": str(scratch / "compiled")}
    if (checkout / "patchstack" / "__main__.py").is_file():
        environment["PYTHONPATH"] = str(checkout)
    args = [sys.executable, "-m", "patchstack", "verify", "--json", "--patches", str(case.patches[0].parent)]
    args += ["--upstream", str(case.repo), "--pin", case.pin, "--expect-tree", case.tree]
    return timed(args, environment, scratch, keep=keep)


def run_git(which: str, case: Case, scratch: Path) -> Run:
    """Return one run of a git script, with an index, an object directory and a working directory of its own."""
    with tempfile.TemporaryDirectory(dir=scratch) as fresh:
        place = Path(fresh)
        (place / "objects").mkdir()
        own = {"PIN": case.pin, "GIT_OBJECT_DIRECTORY": f"{fresh}/objects"}
        if which == "D":
            own |= {"FRESH": fresh, "CLONE": str(scratch / "clone")}
            own |= {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(scratch / "clone" / "objects")}
        else:
            own |= {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(case.objects)}
            git_dir = git(case.repo, "rev-parse", "--absolute-git-dir")
            own |= {"GIT_DIR": git_dir, "GIT_INDEX_FILE": f"{fresh}/index"}
        run = timed(["sh", "-ec", _SCRIPTS[which], "sh", *map(str, case.patches)], git_environment() | own, place)
    if which == "D":
        git(scratch / "clone", "worktree", "prune")
    return run


def make_clone(case: Case, scratch: Path) -> None:
    """Make a bare clone of the pin alone, for worktrees. They omit files whose contents a partial clone lacks.

    It shares nothing with the clone that is measured on: `git add` sets the time of packs, even of borrowed ones, and
    `pack-objects` with a file name leaves its temporary files in the repository it reads.
    """
    clone = scratch / "clone"
    git(scratch, "init", "--quiet", "--bare", str(clone))
    listed = git(case.repo, "rev-list", "--objects", "--no-walk", "--missing=print", case.pin).splitlines()
    names, pack = scratch / "names", scratch / "pack"
    names.write_text("".join(f"{line}\n" for line in listed if not line.startswith("?")))
    for repo, given, made, command in (
        (case.repo, names, pack, ("pack-objects", "--quiet", "--stdout")),
        (clone, pack, scratch / "indexed", ("index-pack", "--stdin")),
    ):
        with given.open("rb") as source, made.open("wb") as out:
            subprocess.run(["git", "-C", repo, *command], env=git_environment(), stdin=source, stdout=out, check=True)
    (clone / "shallow").write_text(f"{case.pin}\n")
    missing = {line[1:] for line in listed if line.startswith("?")}
    if missing:
        _keep_out(clone, missing, case)


def _keep_out(clone: Path, missing: set[str], case: Case) -> None:
    entries = (entry.partition("\t") for entry in git(case.repo, "ls-tree", "-r", "-z", case.pin).split("\0"))
    absent = [path for meta, _, path in entries if meta[-40:] in missing]
    print(f"{len(absent)} files have no contents in the clone; the worktrees (D) do without them")
    git(clone, "config", "core.sparseCheckout", "true")
    (clone / "info").mkdir(exist_ok=True)
    patterns = ["/*", *(f"!/{path}" for path in absent)]
    (clone / "info" / "sparse-checkout").write_text("\n".join(patterns) + "\n")


def compare(case: Case, scratch: Path, rounds: int, slow_rounds: int) -> dict[str, list[Run]]:
    """Measure A to D round-robin, after a warm-up round in which all must give the same trees."""
    make_clone(case, scratch)
    document = json.loads(run_patchstack(case, scratch, keep=True).output)
    prefixes = [patch["tree"] for patch in document["patches"]]
    expected = {"B": [case.tree], "C": prefixes, "D": [case.tree]}
    if prefixes[-1] != case.tree:
        raise SystemExit(f"patchstack gives {prefixes[-1]}, not the expected tree {case.tree}")
    runs: dict[str, list[Run]] = {which: [] for which in _NAMES}
    for number in range(rounds + 1):
        for which in _NAMES:
            if which == "D" and number > slow_rounds:
                continue
            run = run_patchstack(case, scratch) if which == "A" else run_git(which, case, scratch)
            if which != "A" and run.output.split() != expected[which]:
                raise SystemExit(f"{which} gives {run.output.split()}, but patchstack {expected[which]}")
            if number:
                runs[which].append(run)
    print(f"same trees: all {len(prefixes)} prefix trees of A and C, and the last one of A, B, C and D\n")
    return runs


def report(runs: Mapping[str, Sequence[Run]]) -> tuple[dict[str, Any], bool]:
    """Print the times and the ratios. Return them as data, with whether every target is met."""
    print(f"{'':46}{'rounds':>7}{'median':>10}{'min':>10}{'CPU':>10}{'peak RSS':>10}")
    seconds = {which: [run.seconds for run in runs[which]] for which in runs}
    cpu = {which: [run.cpu for run in runs[which]] for which in runs}
    peaks = {which: max(run.peak_mb for run in runs[which]) for which in runs}
    for which, times in seconds.items():
        shown = f"{median(times):8.3f} s{min(times):8.3f} s{median(cpu[which]):8.3f} s{peaks[which]:7.0f} MB"
        print(f"{which} {_NAMES[which]:44}{len(times):7}{shown}")
    print(f"\n{'ratio, round by round':24}{'median':>8}{'range':>18}{'of CPU':>9}   target")
    ratios: dict[str, Any] = {}
    for target in _RATIOS:
        above, below = target.what.split("/")
        each, of_cpu = (
            [one / other for one, other in zip(times[above], times[below], strict=False)] for times in (seconds, cpu)
        )
        middle = median(each)
        ratios[target.what] = {"rounds": each, "median": middle, "cpu": of_cpu, "met": target.met(middle)}
        shown = f"{middle:8.2f}{min(each):9.2f} ..{max(each):6.2f}{median(of_cpu):9.2f}"
        print(f"{target.what:24}{shown}   {target.verdict(middle)}")
    data = {"seconds": seconds, "cpu": cpu, "peak_mb": peaks, "ratios": ratios}
    return data, all(ratio["met"] for ratio in ratios.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """What verifying a series of one length took: the median time, and the largest peak."""

    patches: int
    seconds: float
    peak_mb: float


def beginning(case: Case, count: int, scratch: Path) -> Case:
    """Return the first patches of a generated series, in a directory of their own."""
    directory = scratch / f"patches-{count}"
    directory.mkdir()
    for patch in case.patches[:count]:
        shutil.copy(patch, directory)
    tree = git(case.repo, "rev-parse", f"fork~{len(case.patches) - count}^{{tree}}")
    return make_case(case.repo, case.pin, directory, tree)


def scale(scratch: Path, rounds: int) -> list[Length]:
    """Measure the beginnings of one long series on a large tree, round-robin after a warm-up."""
    large = f"--files={_SCALING_FILES}", f"--largest={_SCALING_LARGEST}", f"--patches={_SCALING_PATCHES[-1]}"
    whole = generated_case(scratch / "large", *large)
    cases = [beginning(whole, count, scratch) for count in _SCALING_PATCHES]
    runs: list[list[Run]] = [[] for _ in cases]
    for number in range(rounds + 1):
        for case, own in zip(cases, runs, strict=True):
            run = run_patchstack(case, scratch)
            if number:
                own.append(run)
    return [
        Length(
            patches=len(case.patches),
            seconds=median(run.seconds for run in own),
            peak_mb=max(run.peak_mb for run in own),
        )
        for case, own in zip(cases, runs, strict=True)
    ]


def report_scaling(lengths: Sequence[Length]) -> tuple[dict[str, Any], bool]:
    """Print time and memory over the length of the series; return them as data, with whether every target is met."""
    print(f"{_SCALING_FILES} files; patchstack verify, every prefix tree\n")
    print(f"{'patches':>8}{'seconds':>10}{'ms a patch':>12}{'peak RSS':>11}")
    for one in lengths:
        print(f"{one.patches:8}{one.seconds:10.3f}{one.seconds / one.patches * 1_000:12.2f}{one.peak_mb:8.0f} MB")
    growth = lengths[-1].seconds / lengths[-2].seconds
    peak = max(one.peak_mb for one in lengths)
    linear, small = Target(what="growth", bound=_LINEAR), Target(what="peak", bound=_MEMORY_MB)
    print(f"\ntime({lengths[-1].patches}) / time({lengths[-2].patches}): {growth:.2f}   {linear.verdict(growth)}")
    print(f"peak RSS in MB: {peak:.0f}   {small.verdict(peak)}")
    data = {"lengths": [asdict(one) for one in lengths], "growth": growth, "peak_mb": peak}
    return data, linear.met(growth) and small.met(peak)


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure `patchstack verify` against git, interleaved in one run.")
    for name in ("--repo", "--pin", "--patches", "--expect-tree"):
        parser.add_argument(name, help="of a clone to measure on, instead of a generated one; all four go together")
    parser.add_argument("--rounds", type=int, help="measured rounds [default: 10; with --scaling 3]")
    parser.add_argument("--slow-rounds", type=int, default=3, help="rounds in which the fresh worktree takes part [3]")
    parser.add_argument("--scaling", action="store_true", help="measure long series on a large generated tree")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--no-fail", action="store_true", help="exit 0 even where a target is missed")
    given = parser.parse_args()
    real = (given.repo, given.pin, given.patches, given.expect_tree)
    if any(real) and (given.scaling or not all(real)):
        parser.error("--repo, --pin, --patches and --expect-tree go together, and not with --scaling")
    given.rounds = given.rounds or (3 if given.scaling else 10)
    if min(given.rounds, given.slow_rounds) < 1:
        parser.error("one round at least")
    return given


def measure(given: argparse.Namespace, scratch: Path) -> tuple[dict[str, Any], bool]:
    """Do what the command line asks for."""
    if given.scaling:
        return report_scaling(scale(scratch, given.rounds))
    if given.repo:
        case = make_case(Path(given.repo), given.pin, Path(given.patches), given.expect_tree)
    else:
        case = generated_case(scratch / "generated")
    files = len(git(case.repo, "ls-tree", "-r", "--name-only", case.pin).splitlines())
    print(f"{'given' if given.repo else 'generated'} tree: {files} files; {len(case.patches)} patches", flush=True)
    return report(compare(case, scratch, given.rounds, given.slow_rounds))


def main() -> int:
    """Measure, print, and return the exit status."""
    given = options()
    machine = {"python": platform.python_version(), "git": git(Path("/"), "version"), "cpus": os.cpu_count()}
    print(f"Python {machine['python']}, {machine['git']}, {machine['cpus']} CPUs")
    with tempfile.TemporaryDirectory(prefix="verify-speed-") as scratch:
        data, met = measure(given, Path(scratch).resolve())
    if given.json:
        given.json.write_text(json.dumps({"machine": machine, **data}, indent=1) + "\n")
    return 0 if met or given.no_fail else 1


if __name__ == "__main__":
    sys.exit(main())
