"""Measure checks over hundreds of upstream commits against a loop that checks out each commit and greps.

`python -m benchmarks.checks_speed --repo CLONE --to REF [--workspace patchstack.yaml --series paged]` examines every
commit from the pin on: (A) with the code for checks of `canary --blame`, in one process, and (L) with a loop of `git
read-tree -m -u` and `grep -rnP` in a work tree. Both read only upstream. Twenty checks are generated, with a fixed
seed, from words of lines that change between pin and tip; six are the series' own. The places of each pattern at each
commit must be the same, and so must the resulting verdicts; L must take at least twenty times as long as A. The loop
gets a sparse work tree of the directories that the checks read, which is to its advantage.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from benchmarks.generate import git_environment
from benchmarks.verify_speed import git

_DIRECTORIES = ("src", "common", "tools/server", "tools/completion", "tools/mtmd", "ggml/src/ggml-cuda", "ggml/include")
_OWN = (
    "exits-past-the-flush",
    "batch-fillers",
    "cublas-calls",
    "grouped-mmq-types",
    "kv-cache-classes",
    "kv-cell-changes",
)
_SEED, _GENERATED, _RATIO = 20, 20, 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A pattern in files: it must be present, absent, or in the same files as at the pin."""

    name: str
    kind: str
    pattern: str
    globs: tuple[str, ...]


Answer = list[dict[str, frozenset[tuple[str, int]]]]
"""For every commit, from the pin on, the places of each pattern: path and line."""


def generated(repo: Path, pin: str, tip: str) -> list[Question]:
    """Return questions with words from lines that upstream changed."""
    chosen = random.Random(_SEED)
    diff = git(repo, "diff", "-U0", pin, tip, "--", *(f"{name}/" for name in _DIRECTORIES))
    words = sorted(
        {word for line in diff.splitlines() if line[:1] in "+-" for word in re.findall(r"[a-z]\w{6,30}", line)}
    )
    made = []
    for number in range(_GENERATED):
        directory = chosen.choice(_DIRECTORIES)
        glob = f"{directory}/{chosen.choice(('**', '*.cpp', '*.h', '*'))}"
        kind = ("present", "absent", "sites")[number % 3]
        pattern = rf"\b{chosen.choice(words)}\b"
        made.append(Question(name=f"generated-{number}", kind=kind, pattern=pattern, globs=(glob,)))
    return made


def own(workspace: Path, series: str) -> list[Question]:
    """Return the checks of a series with patterns of one line."""
    from patchstack.checks.read import read_checks
    from patchstack.workspace import read_workspace

    checks = read_checks(read_workspace(workspace).select([series])[0])
    return [
        Question(name=one.name, kind=one.kind, pattern=one.settings.pattern.pattern, globs=one.files)
        for one in checks
        if one.name in _OWN
    ]


def by_patchstack(repo: Path, trees: Sequence[str], questions: Sequence[Question]) -> tuple[float, Answer]:
    """Return the seconds and the places found by patchstack."""
    begin = perf_counter()
    from patchstack.checks.kinds.sites import SitesSettings
    from patchstack.checks.model import Check
    from patchstack.checks.run import Checker, no_engine
    from patchstack.checks.scan import compiled
    from patchstack.git.objects import Objects, Repository

    objects = Objects()
    objects.add_directory(Repository.open(str(repo), repo).object_directory, str(repo))
    checker = Checker(objects, {}, no_engine)
    checks = [
        Check(
            name=one.name,
            kind="sites",  # the kind that reports every place
            patch=None,
            files=one.globs,
            at_patch=False,
            on_upstream=False,
            what="",
            seconds=60.0,
            file=repo,
            line=1,
            settings=SitesSettings(pattern=compiled(one.pattern), sites=None),
        )
        for one in questions
    ]
    found: Answer = [
        {one.name: frozenset((place.path, place.line) for place in checker.judge(one, tree).sites) for one in checks}
        for tree in trees
    ]
    return perf_counter() - begin, found


def by_loop(repo: Path, commits: Sequence[str], questions: Sequence[Question], scratch: Path) -> tuple[float, Answer]:
    """Return the seconds and the places found by git and grep."""
    clone = scratch / "clone"
    environment = {**git_environment(), "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}

    def run(*words: str, cwd: Path = clone, ok: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, check=False)
        if done.returncode not in ok:
            raise SystemExit(f"{' '.join(words)}: {done.stderr.decode()}")
        return done.stdout.decode("utf-8", "replace")

    run("git", "clone", "-q", "--shared", "--no-checkout", str(repo), str(clone), cwd=scratch)
    run("git", "sparse-checkout", "set", "--cone", *_DIRECTORIES)
    found: Answer = []
    begin = perf_counter()
    for number, commit in enumerate(commits):
        run("git", "read-tree", "-m", "-u", commit)
        found.append({one.name: _grepped(one, clone, run) for one in questions})
        if number % 50 == 0:
            print(f"  loop: {number} of {len(commits)}, {perf_counter() - begin:.0f} s", flush=True)
    return perf_counter() - begin, found


def _grepped(one: Question, clone: Path, run: object) -> frozenset[tuple[str, int]]:
    assert callable(run)
    found = set()
    for glob in one.globs:
        directory, _, name = glob.rpartition("/")
        deep = "**" in glob
        base = directory.removesuffix("/**").removesuffix("**").rstrip("/") or "."
        include = [] if name in ("**", "*") else [f"--include={name}"]
        if (clone / glob).is_file():
            base, include, deep = glob, [], False
        words = ["grep", "-rnIP" if deep else "-nIP", "-d", "recurse" if deep else "skip", *include]
        if deep or (clone / base).is_file():
            places = [base]
        else:
            places = sorted(str(path.relative_to(clone)) for path in (clone / base).glob(name if name != "**" else "*"))
        if not places or not all((clone / place).exists() for place in places):
            continue
        for line in run(*words, "-H", "-e", one.pattern, "--", *places, ok=(0, 1)).splitlines():
            path, number, _ = line.split(":", 2)
            found.add((path.removeprefix("./"), int(number)))
    return frozenset(found)


def verdicts(answers: Answer, one: Question) -> list[bool]:
    """Return whether a check holds at each commit, by the places of its pattern."""
    if one.kind == "present":
        return [bool(answer[one.name]) for answer in answers]
    if one.kind == "absent":
        return [not answer[one.name] for answer in answers]
    paths = [frozenset(path for path, _ in answer[one.name]) for answer in answers]
    return [now == paths[0] for now in paths]


def main() -> None:
    """Measure, compare, and exit with 1 if an answer differs or the ratio is not reached."""
    parser = argparse.ArgumentParser(description="Compare checks over upstream's commits with a loop that greps.")
    parser.add_argument("--repo", type=Path, required=True, help="a clone with the pin and the commits after it")
    parser.add_argument("--to", required=True, help="the newest commit")
    parser.add_argument("--workspace", type=Path, default=Path("patchstack.yaml"))
    parser.add_argument("--series", default="paged")
    arguments = parser.parse_args()
    from patchstack.workspace import read_workspace

    pin = read_workspace(arguments.workspace).select([arguments.series])[0].pin
    os.environ["GIT_NO_LAZY_FETCH"] = "1"
    repo = arguments.repo.resolve()
    listed = git(repo, "rev-list", "--reverse", "--first-parent", f"{pin}..{arguments.to}").split()
    commits = [pin, *listed]
    trees = [git(repo, "rev-parse", f"{commit}^{{tree}}").strip() for commit in commits]
    questions = [*generated(repo, pin, arguments.to), *own(arguments.workspace, arguments.series)]
    print(f"{len(commits)} commits, {len(questions)} checks")
    seconds, ours = by_patchstack(repo, trees, questions)
    print(f"A  patchstack  {seconds:8.2f} s", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        looped, theirs = by_loop(repo, commits, questions, Path(scratch))
    print(f"L  loop        {looped:8.2f} s   L/A {looped / seconds:.1f}")
    different = 0
    for one in questions:
        places = sum(mine[one.name] != other[one.name] for mine, other in zip(ours, theirs, strict=True))
        same = verdicts(ours, one) == verdicts(theirs, one)
        changes = len({answer[one.name] for answer in ours})
        first = next((at for at, holds in enumerate(verdicts(ours, one)) if not holds), None)
        told = "same" if same and not places else f"DIFFERENT at {places} commits"
        print(f"   {one.name:<22} {one.kind:<8} {changes:4} sets of places, fails first at {first}: {told}")
        different += bool(places) or not same
    if different or looped < _RATIO * seconds:
        raise SystemExit(f"{different} answers differ, ratio {looped / seconds:.1f} (at least {_RATIO:g})")


if __name__ == "__main__":
    main()
