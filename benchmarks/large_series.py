"""Measure patchstack on a large series against git itself and an earlier checkout.

`python -m benchmarks.large_series [--before CHECKOUT] [--only verify --only strict ...]` generates 20,000 small files
in 200 directories, a series of thousands of patches, and an upstream that moves on. It measures whole processes,
interleaved:

- `verify`: against one `git apply --cached` of all patches and `git write-tree` (1,500 patches): 3.6 times its
  CPU time on two idle cores;
- `strict` and `threeway`: `canary --blame`, with `--strict` and without (3,000 patches, 300 commits);
- `sync`: `sync --to`, against `git rebase` of the same commits in a work tree (3,000 patches without conflict).

`--before` names another checkout of patchstack: its times are measured in the same rounds, and the ratio is printed.
Each figure is wall time, then user and system time of all processes, which says more on a busy machine.
Standard library and git only; the Python that runs it also runs the measured programs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from benchmarks.generate import git_environment

_ROOT = Path(__file__).resolve().parent.parent
_DIRECTORIES, _FILES, _LINES = 200, 20_000, 60
_APPLY = ("-c", "apply.whitespace=nowarn", "-c", "core.protectNTFS=true", "-c", "core.protectHFS=true", "apply")
_WHAT = ("verify", "strict", "threeway", "sync")


def path_of(number: int) -> str:
    """Return the name of a file."""
    return f"dir-{number % _DIRECTORIES:03d}/file-{number:05d}.c"


def text_of(number: int, changed: dict[int, str]) -> bytes:
    """Return a file with some of its lines changed."""
    lines = (changed.get(line, f"int value_{number}_{line} = {line};") for line in range(_LINES))
    return "".join(f"{line}\n" for line in lines).encode()


def stream(patches: int, commits: int) -> Iterator[bytes]:
    """Yield the pin, the fork's commits and upstream's, for `git fast-import`. Upstream changes the upper half of
    files, half of them the series' own; one commit in thirty changes a line that a patch changes."""
    draw = random.Random(19)
    yield from _commit("pin", 0, "The pin", None)
    for number in range(_FILES):
        yield from _file(number, {})
    ours: dict[int, dict[int, str]] = {}
    for patch in range(patches):
        yield from _commit("fork", patch + 1, f"Change {patch}", "pin" if not patch else None)
        for number in {draw.randrange(_FILES) for _ in range(draw.choice((1, 1, 2)))}:
            ours.setdefault(number, {})[draw.randrange(_LINES // 2 + 6, _LINES)] = f"int patched_by_{patch};"
            yield from _file(number, ours[number])
    theirs: dict[int, dict[int, str]] = {}
    for commit in range(commits):
        yield from _commit("upstream", commit + 1, f"Upstream {commit} (#{commit})", "pin" if not commit else None)
        for which in range(6):
            number = draw.choice(sorted(ours)) if which % 2 else draw.randrange(_FILES)
            line = draw.randrange(_LINES // 2)
            theirs.setdefault(number, {})[line] = f"int upstream_{commit};"
            if which == 1 and commit % 30 == 29:
                theirs[number][max(ours[number])] = f"int collides_{commit};"
            yield from _file(number, theirs[number])


def _commit(branch: str, number: int, message: str, parent: str | None) -> Iterator[bytes]:
    who = b"B <b@example.com> %d +0000" % (1_700_000_000 + number)
    yield b"commit refs/heads/%s\nauthor %s\ncommitter %s\n" % (branch.encode(), who, who)
    yield b"data %d\n%s\n" % (len(message), message.encode())
    if parent is not None:
        yield b"from refs/heads/%s\n" % parent.encode()


def _file(number: int, changed: dict[int, str]) -> Iterator[bytes]:
    text = text_of(number, changed)
    yield b"M 100644 inline %s\ndata %d\n%s\n" % (path_of(number).encode(), len(text), text)


class Case:
    """A repository with `pin`, `fork` and `upstream`, and the series as patch files."""

    def __init__(self, directory: Path, patches: int, commits: int, *, conflicts: bool = True) -> None:
        self.directory, self.repo, self.series = directory, directory / "repo", directory / "patches"
        directory.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", "--bare", self.repo], check=True, env=git_environment())
        data = b"".join(stream(patches, commits if conflicts else min(commits, 29)))
        subprocess.run(["git", "fast-import", "--quiet"], cwd=self.repo, input=data, check=True, env=git_environment())
        self.git("format-patch", "-q", "--full-index", "-o", str(self.series), "pin..fork")
        self.pin = self.git("rev-parse", "pin").strip()

    def git(self, *args: str) -> str:
        """Return the output of a git command."""
        ran = subprocess.run(["git", *args], cwd=self.repo, env=git_environment(), check=True, capture_output=True)
        return ran.stdout.decode()


class Took(NamedTuple):
    """The cost of programs and their children in seconds: wall time, and user and system time, which a busy machine
    changes less."""

    wall: float
    cpu: float


@contextlib.contextmanager
def watched(taken: list[Took]) -> Iterator[None]:
    """Record the cost of the programs that are run in a block."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    yield
    wall, after = perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    taken.append(Took(wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime))


def environment_of(root: Path, case: Case) -> dict[str, str]:
    """Return the environment in which a checkout runs."""
    environment = {name: value for name, value in git_environment().items() if not name.startswith("PYTHON")}
    environment |= {"PATCHSTACK_CACHE": str(case.directory / "cache"), "PYTHONPATH": str(root)}
    return environment | {"PYTHONPYCACHEPREFIX": str(case.directory / f"compiled-{root.name}")}


def byte_compile(root: Path, case: Case) -> None:
    """Compile a checkout, as an installed one is."""
    command = [sys.executable, "-m", "compileall", "-q", str(root / "patchstack")]
    subprocess.run(command, env=environment_of(root, case), check=True)


def patchstack(root: Path, case: Case, *args: str, cwd: Path | None = None) -> Took:
    """Return the cost of one run of a checkout."""
    environment = environment_of(root, case)
    cwd = cwd or case.directory  # Python prefers modules of the current directory to those of PYTHONPATH
    taken: list[Took] = []
    with watched(taken):
        ran = subprocess.run(
            [sys.executable, "-m", "patchstack", *args], cwd=cwd, env=environment, capture_output=True, text=True
        )
    if ran.returncode not in (0, 1):
        raise SystemExit(f"patchstack {' '.join(args)}: {ran.returncode}\n{ran.stderr}")
    return taken[0]


def apply_and_write(case: Case) -> Took:
    """Return the cost of one `git apply --cached` of all patches, and `git write-tree`."""
    with tempfile.TemporaryDirectory(dir=case.directory) as fresh:
        (Path(fresh) / "objects").mkdir()
        environment = git_environment() | {
            "GIT_DIR": str(case.repo),
            "GIT_INDEX_FILE": f"{fresh}/index",
            "GIT_OBJECT_DIRECTORY": f"{fresh}/objects",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(case.repo / "objects"),
        }
        files = [str(path) for path in sorted(case.series.iterdir())]
        taken: list[Took] = []
        with watched(taken):
            for args in (("read-tree", "pin"), (*_APPLY, "--cached", *files), ("write-tree",)):
                subprocess.run(["git", *args], cwd=fresh, env=environment, check=True, stdout=subprocess.DEVNULL)
        return taken[0]


def rebase(case: Case) -> Took:
    """Return the cost of `git rebase` in a work tree that was checked out before."""
    work = case.directory / "rebased"
    subprocess.run(["git", "clone", "-q", "-s", "-b", "fork", case.repo, work], check=True, env=git_environment())
    environment = git_environment() | {"GIT_COMMITTER_NAME": "B", "GIT_COMMITTER_EMAIL": "b@example.com"}
    taken: list[Took] = []
    command = ["git", "-c", "gc.auto=0", "rebase", "-q", "--onto", "origin/upstream", "origin/pin", "fork"]
    with watched(taken):
        subprocess.run(command, cwd=work, env=environment, check=True, capture_output=True)
    shutil.rmtree(work)
    return taken[0]


def sync(root: Path, case: Case) -> Took:
    """Return the cost of a whole sync, including its check-out."""
    place = case.directory / "workspace"
    place.mkdir()
    (place / "patchstack.yaml").write_text(
        f"series:\n  large:\n    patches: patches\n    upstream: {case.repo}\n    pin: {case.pin}\n"
        f"    fork: {case.repo}\n    fork_ref: fork\n"
    )
    (place / "patches").mkdir()
    patchstack(root, case, "export", cwd=place)
    taken = patchstack(root, case, "sync", "--to", "upstream", "--worktree", "work", cwd=place)
    shutil.rmtree(place)
    return taken


def measure(case: Case, what: str, rounds: int, before: Path | None) -> None:
    """Measure one thing in some rounds, and print medians and ratios."""
    sources = ("--patches", str(case.series), "--upstream", str(case.repo), "--pin", case.pin)
    canary = ("canary", *sources, "--to", "upstream", "--blame", "--json")
    runs: dict[str, Callable[[Path], Took]] = {
        "verify": lambda root: patchstack(root, case, "verify", "--apply-only", "--json", *sources),
        "strict": lambda root: patchstack(root, case, *canary, "--strict"),
        "threeway": lambda root: patchstack(root, case, *canary),
        "sync": lambda root: sync(root, case),
    }
    times: dict[str, list[Took]] = {}
    for root in filter(None, (_ROOT, before)):
        byte_compile(root, case)
    for number in range(rounds + (what == "verify")):
        taken = {"now": runs[what](_ROOT)}
        if before is not None:
            taken["before"] = runs[what](before)
        if what in ("verify", "sync"):
            taken["git"] = apply_and_write(case) if what == "verify" else rebase(case)
        if number or what != "verify":  # the first run compiles and warms the disk
            for name, took in taken.items():
                times.setdefault(name, []).append(took)
    told = ", ".join(
        f"{name} {median(one.wall for one in each):.2f} s (CPU {median(one.cpu for one in each):.2f} s)"
        for name, each in times.items()
    )
    ratios = []
    for name in ("git", "before"):
        if name in times:
            pairs = list(zip(times["now"], times[name], strict=True))
            wall, cpu = [one.wall / other.wall for one, other in pairs], [one.cpu / other.cpu for one, other in pairs]
            shown = f"{median(wall):.2f} ({min(wall):.2f} to {max(wall):.2f}; CPU {median(cpu):.2f})"
            ratios.append(f"now/{name} {shown}")
    print(f"{what}: {told}; {'; '.join(ratios)}", flush=True)


def main() -> int:
    """Generate, measure, print."""
    parser = argparse.ArgumentParser(description="Measure patchstack on a large generated series.")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="another checkout, measured in the same rounds")
    parser.add_argument("--only", action="append", choices=_WHAT, help="what to measure [all]; repeatable")
    parser.add_argument("--patches", type=int, default=3_000, help="patches for all but verify, which takes half")
    parser.add_argument("--commits", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    before = given.before.resolve() if given.before else None
    with tempfile.TemporaryDirectory(prefix="large-series-", dir=os.environ.get("TMPDIR")) as place:
        for what in given.only or _WHAT:
            count = given.patches // 2 if what == "verify" else given.patches
            case = Case(Path(place).resolve() / what, count, given.commits, conflicts=what != "sync")
            measure(case, what, given.rounds, before)
            shutil.rmtree(case.directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
