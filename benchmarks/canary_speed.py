"""Measure `patchstack canary` against git itself and `patchstack verify`.

`python -m benchmarks.canary_speed [--repo CLONE --pin SHA --patches DIR --to REF]` measures whole processes: (A)
`canary --strict --blame`; (L) the same by git, a loop of strict `git apply --cached` over a temporary index, patch by
patch and commit by commit, skipping failing patches; (P) `canary --quick`, without the search for similar commits, (F)
`canary` with that search, and (V) `verify`, interleaved. The answers of A and L are compared: the first commit at which
each patch fails, and all that fail at the last. Without a clone it generates a tree of llama.cpp's shape and lets its
upstream move on. Nothing is written into the clone. Standard library and git only; the Python that runs it also runs
the measured programs.

The loop starts a process for each patch and commit, so it takes minutes. `TMPDIR=/dev/shm` avoids the disk.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.generate import git_environment
from benchmarks.verify_speed import Run, Target, generated_case, git, timed

_ROOT = Path(__file__).resolve().parent.parent
_APPLY = ("-c", "apply.whitespace=nowarn", "-c", "core.protectNTFS=true", "-c", "core.protectHFS=true", "apply")
_TARGETS = (
    Target(what="L/A", bound=25, at_least=True),
    Target(what="P/V", bound=2),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A clone, a pin in it, a series, and the upstream commits after the pin, oldest first."""

    repo: Path
    pin: str
    patches: tuple[Path, ...]
    commits: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """For every patch file the index of the first commit at which it fails (None for none), and those that fail at the
    last."""

    first: dict[str, int | None]
    last: frozenset[str]


def make_case(repo: Path, pin: str, patches: Path, to: str) -> Case:
    """Describe a series and its upstream."""
    files = tuple(sorted(patches.resolve().glob("*.patch"), key=os.fsencode))
    commits = tuple(git(repo, "rev-list", "--reverse", "--first-parent", f"{pin}..{to}").split())
    if not files or not commits:
        raise SystemExit(f"no patches in {patches}, or no commits in {pin}..{to}")
    return Case(repo=repo.resolve(), pin=git(repo, "rev-parse", f"{pin}^{{commit}}"), patches=files, commits=commits)


def moving_case(directory: Path, count: int) -> Case:
    """Generate a repository whose upstream continues from the pin: every commit changes lines of existing files."""
    generated = generated_case(directory)
    repo = generated.repo
    paths = [path for path in git(repo, "ls-tree", "-r", "--name-only", "pin").splitlines() if path.endswith(".cpp")]
    touched = git(repo, "diff", "--name-only", "pin", "fork").splitlines()
    targets = [path for path in touched if path in set(paths)] or paths
    stream: list[bytes] = []
    texts = {path: git(repo, "show", f"pin:{path}").split("\n") for path in targets}
    for number in range(count):
        path = targets[number % len(targets)]
        text = texts[path]
        text[(number * 37) % len(text)] = f"// changed by upstream's commit {number}"
        data = ("\n".join(text) + "\n").encode()
        message = f"Upstream {number} (#{number})\n".encode()
        begin = f"commit refs/heads/moved\ncommitter U <u@example.com> {1_760_000_000 + number} +0000\n".encode()
        stream.append(begin + b"data %d\n%s" % (len(message), message))
        stream.append(b"from pin^0\n" if not number else b"")
        stream.append(f"M 100644 inline {path}\n".encode() + b"data %d\n%s\n" % (len(data), data))
    command = ["git", "-C", str(repo), "fast-import", "--quiet"]
    subprocess.run(command, input=b"".join(stream), env=git_environment(), check=True)
    return make_case(repo, "pin", generated.patches[0].parent, "moved")


def run_patchstack(case: Case, scratch: Path, *options: str) -> Run:
    """Run patchstack once from this checkout, byte-compiled like an installed one."""
    environment = {name: value for name, value in git_environment().items() if not name.startswith("PYTHON")}
    environment |= {"PATCHSTACK_CACHE": str(scratch / "cache"), "PYTHONPYCACHEPREFIX": str(scratch / "compiled")}
    if (_ROOT / "patchstack" / "__main__.py").is_file():
        environment["PYTHONPATH"] = str(_ROOT)
    sources = ["--patches", str(case.patches[0].parent), "--upstream", str(case.repo), "--pin", case.pin, "--json"]
    # canary exits with 1 if patches fail, which is a valid answer here.
    script = 'python=$1; shift; "$python" -m patchstack "$@" || [ $? -eq 1 ]'
    return timed(["sh", "-c", script, "sh", sys.executable, *options, *sources], environment, scratch)


def canary(case: Case, scratch: Path, *options: str) -> Run:
    """Run `patchstack canary` once, up to the last commit."""
    return run_patchstack(case, scratch, "canary", "--to", case.commits[-1], *options)


def answer_of(run: Run) -> Answer:
    """Return the answer of a `canary --strict --blame`."""
    patches = json.loads(run.output)["patches"]
    return Answer(
        first={one["file"]: one["first_broken"]["index"] if one["first_broken"] else None for one in patches},
        last=frozenset(one["file"] for one in patches if one["strict"] not in ("clean", "offset")),
    )


def loop(case: Case, scratch: Path) -> tuple[float, Answer]:
    """Run the same loop with git. Return the seconds and the answer."""
    with tempfile.TemporaryDirectory(dir=scratch) as fresh:
        (Path(fresh) / "objects").mkdir()
        objects = (case.repo / git(case.repo, "rev-parse", "--git-path", "objects")).resolve()
        environment = git_environment() | {
            "GIT_DIR": git(case.repo, "rev-parse", "--absolute-git-dir"),
            "GIT_INDEX_FILE": f"{fresh}/index",
            "GIT_OBJECT_DIRECTORY": f"{fresh}/objects",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects),
        }

        def call(*args: str) -> bool:
            done = subprocess.run(["git", *args], env=environment, cwd=fresh, capture_output=True)
            return done.returncode == 0

        first: dict[str, int | None] = {path.name: None for path in case.patches}
        failed: set[str] = set()
        start = perf_counter()
        for index, commit in enumerate(case.commits):
            if not call("read-tree", commit):
                raise SystemExit(f"git read-tree {commit} failed")
            failed = {path.name for path in case.patches if not call(*_APPLY, "--cached", str(path))}
            for name in failed:
                if first[name] is None:
                    first[name] = index
        return perf_counter() - start, Answer(first=first, last=frozenset(failed))


def differences(ours: Answer, gits: Answer) -> list[str]:
    """Return descriptions of the differences between two answers."""
    told = [
        f"{file}: first fails at {ours.first.get(file)}, but by git at {index}"
        for file, index in gits.first.items()
        if ours.first.get(file) != index
    ]
    return told + [f"{file}: only one of the two says it fails at the last" for file in sorted(ours.last ^ gits.last)]


def report(name: str, above: Sequence[float], below: Sequence[float], target: Target) -> tuple[dict[str, Any], bool]:
    """Print a ratio for each round, and return it as data."""
    each = [one / other for one, other in zip(above, below, strict=False)]
    middle = median(each)
    print(f"{name:46}{middle:8.2f}{min(each):9.2f} ..{max(each):7.2f}   {target.verdict(middle)}")
    return {"rounds": each, "median": middle, "met": target.met(middle)}, target.met(middle)


def measure(case: Case, scratch: Path, rounds: int, loops: int) -> tuple[dict[str, Any], bool]:
    """Measure, compare and print."""
    canary(case, scratch, "--strict", "--blame")
    blame: list[float] = []
    git_loop: list[float] = []
    wrong: list[str] = []
    answer = None
    for _ in range(loops):
        # One of our runs before and one after the loop, because the load of the machine may change.
        before = canary(case, scratch, "--strict", "--blame")
        seconds, gits = loop(case, scratch)
        behind = canary(case, scratch, "--strict", "--blame")
        answer = answer_of(behind)
        wrong += differences(answer, gits)
        git_loop.append(seconds)
        blame.append((before.seconds + behind.seconds) / 2)
    plain: list[float] = []
    full: list[float] = []
    verify: list[float] = []
    for number in range(rounds + 1):
        one = canary(case, scratch, "--quick").seconds
        other = run_patchstack(case, scratch, "verify", "--apply-only").seconds
        all_of_it = canary(case, scratch).seconds
        if number:
            plain.append(one)
            verify.append(other)
            full.append(all_of_it)
    assert answer is not None
    fails = len(answer.last)
    if wrong:
        print("the answers differ:", *wrong, sep="\n  ")
    else:
        print(f"same answers: the first failing commit of all {len(case.patches)} patches; {fails} fail at the last\n")
    for what, times in (
        ("A patchstack canary --strict --blame", blame),
        ("L git apply --cached, patch by patch, commit by commit", git_loop),
        ("P patchstack canary --quick", plain),
        ("F patchstack canary", full),
        ("V patchstack verify", verify),
    ):
        print(f"{what:56}{len(times):4} rounds {median(times):9.3f} s")
    print(f"\n{'ratio, round by round':46}{'median':>8}{'range':>19}   target")
    first, fast = report("L/A", git_loop, blame, _TARGETS[0])
    second, near = report("P/V", plain, verify, _TARGETS[1])
    print(f"{'F/V (no bound)':46}{median(full) / median(verify):8.2f}")
    data = {
        "seconds": {"A": blame, "L": git_loop, "P": plain, "F": full, "V": verify},
        "ratios": {"L/A": first, "P/V": second},
        "same": not wrong,
    }
    return data, fast and near and not wrong


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure `patchstack canary` against git and against verify.")
    for name in ("--repo", "--pin", "--patches", "--to"):
        parser.add_argument(name, help="of a clone to measure on, instead of a generated one; all four go together")
    parser.add_argument("--rounds", type=int, default=10, help="measured rounds of P and V [10]")
    parser.add_argument("--loops", type=int, default=1, help="measured rounds of A and L [1]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--no-fail", action="store_true", help="exit 0 even where a target is missed")
    given = parser.parse_args()
    real = (given.repo, given.pin, given.patches, given.to)
    if any(real) and not all(real):
        parser.error("--repo, --pin, --patches and --to go together")
    if min(given.rounds, given.loops) < 1:
        parser.error("one round at least")
    return given


def main() -> int:
    """Measure, print, and return the exit status."""
    given = options()
    machine = {"python": platform.python_version(), "git": git(Path("/"), "version"), "cpus": os.cpu_count()}
    print(f"Python {machine['python']}, {machine['git']}, {machine['cpus']} CPUs")
    with tempfile.TemporaryDirectory(prefix="canary-speed-") as place:
        scratch = Path(place).resolve()
        if given.repo:
            case = make_case(Path(given.repo), given.pin, Path(given.patches), given.to)
        else:
            case = moving_case(scratch / "generated", 100)
        print(f"{len(case.patches)} patches, {len(case.commits)} commits behind the pin", flush=True)
        data, met = measure(case, scratch, given.rounds, given.loops)
    if given.json:
        given.json.write_text(json.dumps({"machine": machine, **data}, indent=1) + "\n")
    return 0 if met or given.no_fail else 1


if __name__ == "__main__":
    sys.exit(main())
