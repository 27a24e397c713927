"""Measure `patchstack canary --blame` over hundreds of upstream commits, against one `git apply` process.

`python -m benchmarks.blame_speed --repo CLONE --pin SHA --to REF (--patches DIR | --made 31) [--before CHECKOUT]`
measures whole processes, interleaved: (S) `canary --strict --blame`, (T) `canary --blame`, three-way, and (B) git: read
the pin's tree, apply all patches in one `git apply --cached`, write the tree. `--only` leaves S or T out. The ratios
S/B and T/B are of CPU time (user and system, with all child processes), which a busy machine changes less.

`--made N` makes a series of N patches from the clone: each adds a few lines to one to three of the 20 files that
upstream changes most often after the pin. The same clone, pin and tip always give the same series.
`--before` names another checkout of patchstack: it is measured in the same rounds, and must give the same answers.

The figures in docs/explanation/speed.md come from a clone of ggml-org/llama.cpp (`--made 31`), and from that clone with
the patches of mudler/LocalAI, branch worktree-feat+paged-attention. Nothing is written into the clone. Standard
library and git only; the Python that runs it also runs the measured programs.
"""

from __future__ import annotations

import argparse
import difflib
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import verify_speed
from benchmarks.canary_speed import Case, make_case
from benchmarks.generate import git_environment
from benchmarks.verify_speed import Run, git, timed

_ROOT = Path(__file__).resolve().parent.parent
_KINDS = (".c", ".cpp", ".cu", ".cuh", ".h", ".txt")
_OPTIONS = {"S": ("--strict", "--blame"), "T": ("--blame",)}
_TIMES = ("took", "seconds")  # differs between two equal runs


def made_series(repo: Path, pin: str, to: str, count: int) -> Iterator[bytes]:
    """Return a series on the files that upstream changes most often between two commits."""
    log = git(repo, "log", "--first-parent", "--no-renames", "--name-only", "--format=", f"{pin}..{to}")
    often = Counter(line for line in log.split("\n") if line.endswith(_KINDS))
    there = set(git(repo, "ls-tree", "-r", "--name-only", pin).split("\n"))
    paths = [path for path, _ in sorted(often.items(), key=lambda one: (-one[1], one[0])) if path in there][:20]
    draw = random.Random(31)
    texts = {path: content(repo, f"{pin}:{path}").split("\n") for path in paths}
    for number in range(1, count + 1):
        diffs: list[str] = []
        for path in draw.sample(paths, draw.choice((1, 2, 3))):
            old, new = texts[path], list(texts[path])
            for _ in range(draw.choice((1, 2, 4))):
                at = draw.randrange(20, len(new) - 5)
                new[at:at] = [f"// ours {number} {draw.randrange(999)}"]
            texts[path] = new
            diffs.append(f"diff --git a/{path} b/{path}")
            diffs += difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", lineterm="", n=3)
        head = f"From {'0' * 40} Mon Sep 17 00:00:00 2001\nFrom: A <a@example.com>\n"
        head += f"Subject: [PATCH] Ours {number}\n\n---\n"
        yield (head + "\n".join(diffs) + "\n-- \n2.39\n\n").encode(errors="surrogateescape")


def content(repo: Path, name: str) -> str:
    """Return a file of a commit, as bytes."""
    ran = subprocess.run(["git", "-C", repo, "show", name], env=git_environment(), capture_output=True, check=True)
    return ran.stdout.decode(errors="surrogateescape")


def environment_of(root: Path, scratch: Path) -> dict[str, str]:
    """Return the environment in which a checkout runs, byte-compiled like an installed one."""
    environment = {name: value for name, value in git_environment().items() if not name.startswith("PYTHON")}
    environment |= {"PATCHSTACK_CACHE": str(scratch / "cache"), "PYTHONPATH": str(root)}
    return environment | {"PYTHONPYCACHEPREFIX": str(scratch / f"compiled-{root.name}")}


def canary(root: Path, case: Case, scratch: Path, which: str) -> Run:
    """Run a checkout once."""
    args = ["--patches", str(case.patches[0].parent), "--upstream", str(case.repo), "--pin", case.pin, "--json"]
    script = 'python=$1; shift; "$python" -m patchstack "$@" || [ $? -eq 1 ]'  # 1: patches fail, which is an answer
    command = ["sh", "-c", script, "sh", sys.executable, "canary", *_OPTIONS[which], *args, "--to", case.commits[-1]]
    return timed(command, environment_of(root, scratch), scratch)


def answer(run: Run) -> dict[str, Any]:
    """Return what a run reports about the patches."""
    document: dict[str, Any] = json.loads(run.output)
    return {name: value for name, value in document.items() if name not in _TIMES}


def measure(case: Case, scratch: Path, wanted: Sequence[str], before: Path | None, rounds: int) -> bool:
    """Measure in turn and print. Return whether both checkouts give the same answers."""
    objects = (case.repo / git(case.repo, "rev-parse", "--git-path", "objects")).resolve()
    applied = verify_speed.Case(repo=case.repo, objects=objects, pin=case.pin, patches=case.patches, tree="")
    runs: dict[str, list[float]] = {}
    same = True
    for root in filter(None, (_ROOT, before)):
        command = [sys.executable, "-m", "compileall", "-q", str(root / "patchstack")]
        subprocess.run(command, env=environment_of(root, scratch), check=True)
    verify_speed.run_git("B", applied, scratch)  # warms the disk's cache
    for _ in range(rounds):
        taken = {"B": verify_speed.run_git("B", applied, scratch)}
        for which in wanted:
            taken[which] = canary(_ROOT, case, scratch, which)
            if before is not None:
                taken[f"{which} before"] = canary(before, case, scratch, which)
                same = same and answer(taken[which]) == answer(taken[f"{which} before"])
        for name, run in taken.items():
            runs.setdefault(name, []).append(run.cpu)
    for name, each in runs.items():
        ratios = [one / other for one, other in zip(each, runs["B"], strict=True)]
        shown = "" if name == "B" else f"{median(ratios):9.2f} x B ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"{name:12}{len(each):4} rounds  CPU {median(each):8.3f} s{shown}")
    if before is not None:
        print("both checkouts give the same answers" if same else "THE ANSWERS DIFFER")
    return same


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description="Measure `patchstack canary --blame` against one `git apply`.")
    parser.add_argument("--repo", type=Path, required=True, help="a clone of upstream with the commits after the pin")
    parser.add_argument("--pin", required=True)
    parser.add_argument("--to", required=True, help="the last commit that is looked at")
    series = parser.add_mutually_exclusive_group(required=True)
    series.add_argument("--patches", type=Path, help="the directory of a series on the pin")
    series.add_argument("--made", type=int, metavar="N", help="make a series of N patches")
    parser.add_argument("--only", choices=sorted(_OPTIONS), help="measure this one alone")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="another checkout, measured in the same rounds")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds [3]")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="blame-speed-") as place:
        scratch = Path(place).resolve()
        patches = given.patches
        if patches is None:
            patches = scratch / "made"
            patches.mkdir()
            for number, text in enumerate(made_series(given.repo, given.pin, given.to, given.made), 1):
                (patches / f"{number:04d}-ours-{number}.patch").write_bytes(text)
        case = make_case(given.repo, given.pin, patches, given.to)
        print(f"{len(case.patches)} patches, {len(case.commits)} commits after the pin", flush=True)
        wanted = [given.only] if given.only else list(_OPTIONS)
        before = given.before.resolve() if given.before else None
        return 0 if measure(case, scratch, wanted, before, given.rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
