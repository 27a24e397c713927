"""Measure `patchstack verify` with an empty cache against a full clone and `git apply`.

`python -m benchmarks.ci_speed [--repo CLONE --pin SHA --patches DIR]` serves a repository and a fork of it over HTTP on
this machine, as a forge does (`uploadpack.allowFilter`), and runs, interleaved and independent of each other:

(A) `patchstack verify` by URL against the fork's branch, every prefix tree, into an empty cache;
(L) the same against only the tree (`--expect-tree`): upstream alone;
(B) `git clone` of all of it, a checkout of the pin, `git apply` of the series, `git add`, `git write-tree`.

Only the bodies of the server's answers are counted. There is no network latency, which favours (B), because it
downloads most. Without a clone, a repository of llama.cpp's shape is generated; it has no history to clone, so its
ratio is not judged.

A full clone needs every object, and some clones lack a few large ones. Then a copy of the pin's history without the
missing files is served: otherwise the same commits, trees and patches, with different ids. It is smaller than the real
one, which also favours (B).
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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import pygit2

from benchmarks.generate import git_environment
from benchmarks.http_git import Served, served
from benchmarks.verify_speed import Target, generated_case, git, make_case

_ROOT = Path(__file__).resolve().parent.parent
_NAMES = {
    "A": "patchstack verify by URL, against the fork",
    "L": "patchstack verify by URL, against a tree",
    "B": "git clone, checkout, apply, add, write-tree",
}
_DOWNLOAD = Target(what="A downloads, MB", bound=15)
_RATIO = Target(what="A/B in seconds", bound=0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One process: wall time, and bytes the server sent for it."""

    seconds: float
    received: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forge:
    """The served repositories: upstream and fork below `root`, the pin, and the tree that the series gives."""

    root: Path
    pin: str
    tree: str
    patches: tuple[Path, ...]
    left_out: int


def make_forge(repo: Path, pin: str, patches: tuple[Path, ...], root: Path) -> Forge:
    """Make complete repositories of upstream up to the pin, and of a fork with one commit for each patch. Both borrow
    the clone's objects."""
    missing = {
        line[1:] for line in git(repo, "rev-list", "--objects", "--missing=print", pin).splitlines() if line[0] == "?"
    }
    upstream, fork = root / "upstream.git", root / "fork.git"
    objects = (repo / git(repo, "rev-parse", "--git-path", "objects")).resolve()
    for path, borrowed in ((upstream, [objects]), (fork, [objects, upstream / "objects"])):
        git(root, "init", "--quiet", "--bare", str(path))
        (path / "objects" / "info" / "alternates").write_text("".join(f"{one}\n" for one in borrowed))
        for setting in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
            git(path, "config", setting, "true")
    whole = _without(upstream, pin, missing) if missing else pin
    git(upstream, "update-ref", "refs/heads/master", whole)
    git(upstream, "symbolic-ref", "HEAD", "refs/heads/master")
    if missing:
        git(upstream, "repack", "-a", "-d", "-q")  # one pack, as on a forge
        (upstream / "objects" / "info" / "alternates").unlink()
    tree = _commit_series(fork, whole, patches)
    return Forge(root=root, pin=whole, tree=tree, patches=patches, left_out=len(missing))


def _without(repository: Path, pin: str, missing: set[str]) -> str:
    """Rewrite the pin's history without the missing entries, and return the pin's new id."""
    repo = pygit2.Repository(str(repository))
    trees: dict[str, str] = {}
    commits: dict[str, str] = {}

    def tree(oid: str) -> str:
        if oid not in trees:
            found = repo[oid].peel(pygit2.Tree)
            builder = repo.TreeBuilder(found)
            for entry in found:
                own, name = str(entry.id), entry.name or ""
                if own in missing:
                    builder.remove(name)
                elif entry.filemode == 0o040000 and tree(own) != own:
                    builder.insert(name, pygit2.Oid(hex=tree(own)), entry.filemode)
            trees[oid] = str(builder.write())
        return trees[oid]

    for commit in repo.walk(pin, pygit2.enums.SortMode.TOPOLOGICAL | pygit2.enums.SortMode.REVERSE):
        parents = [pygit2.Oid(hex=commits[str(parent)]) for parent in commit.parent_ids]
        made = repo.create_commit(
            None, commit.author, commit.committer, commit.message, pygit2.Oid(hex=tree(str(commit.tree_id))), parents
        )
        commits[str(commit.id)] = str(made)
    return commits[pin]


def _commit_series(fork: Path, pin: str, patches: tuple[Path, ...]) -> str:
    """Commit each patch on the branch `series`, and return the last tree."""
    script = (
        'git read-tree "$PIN"; head=$PIN; for patch; do git -c apply.whitespace=nowarn apply --cached "$patch"; '
        'head=$(git commit-tree -p "$head" -m "${patch##*/}" "$(git write-tree)"); done; '
        'git update-ref refs/heads/series "$head"; git write-tree'
    )
    who = {f"GIT_{role}_{key}": "bench@example.com" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    environment = git_environment() | who | {"PIN": pin, "GIT_DIR": str(fork), "GIT_INDEX_FILE": str(fork / "index")}
    command = ["sh", "-ec", script, "sh", *map(str, patches)]
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def subjects(forge: Forge, server: Served, scratch: Path) -> dict[str, Callable[[], Run]]:
    """Return the measured commands, by letter. Each call uses a new directory."""
    upstream, fork = f"{server.url}/upstream.git", f"{server.url}/fork.git"
    series = ["--patches", str(forge.patches[0].parent), "--upstream", upstream, "--pin", forge.pin]
    script = (
        f"git clone --quiet --no-checkout {upstream} clone; cd clone; git checkout --quiet --detach {forge.pin}; "
        'git -c apply.whitespace=nowarn apply "$@"; git add --all --force; git write-tree'
    )

    def run(command: list[str]) -> Run:
        place = Path(tempfile.mkdtemp(dir=scratch))
        environment = {name: value for name, value in git_environment().items() if not name.startswith("PYTHON")}
        environment |= {"PATCHSTACK_CACHE": str(place / "cache"), "PYTHONPATH": str(_ROOT), "HOME": str(place)}
        environment |= {"GIT_ALLOW_PROTOCOL": "http", "PYTHONPYCACHEPREFIX": str(scratch / "compiled")}
        server.reset()
        start = perf_counter()
        done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
        seconds = perf_counter() - start
        if done.returncode or forge.tree not in done.stdout:
            raise SystemExit(f"{command[:4]} exited {done.returncode}: {done.stdout[-500:]} {done.stderr[-2_000:]}")
        shutil.rmtree(place)
        return Run(seconds=seconds, received=server.sent)

    verify = [sys.executable, "-m", "patchstack", "verify", "--json", *series]
    return {
        "A": lambda: run([*verify, "--fork", fork, "--fork-ref", "series"]),
        "L": lambda: run([*verify, "--expect-tree", forge.tree]),
        "B": lambda: run(["sh", "-ec", script, "sh", *map(str, forge.patches)]),
    }


def measure(forge: Forge, rounds: int, scratch: Path) -> dict[str, list[Run]]:
    """Measure in rounds of alternating order, after a run of A and L that only compiles byte code."""
    with served(forge.root) as server:
        found = subjects(forge, server, scratch)
        for letter in "AL":
            found[letter]()
        runs: dict[str, list[Run]] = {letter: [] for letter in found}
        for number in range(rounds):
            for letter in list(found) if number % 2 == 0 else list(found)[::-1]:
                runs[letter].append(found[letter]())
        return runs


def report(forge: Forge, runs: dict[str, list[Run]], *, judged: bool) -> bool:
    """Print the figures, and return whether the bounds are kept. The ratio counts only if `judged`."""
    print(f"{platform.machine()}, {os.cpu_count()} processors, git {git(_ROOT, 'version').split()[-1]}")
    print(f"{len(forge.patches)} patches on {forge.pin[:12]}; files left out for want of contents: {forge.left_out}")
    middle = {letter: median(run.seconds for run in found) for letter, found in runs.items()}
    for letter, found in runs.items():
        spread = ", ".join(f"{run.seconds:.2f}" for run in found)
        print(f"{letter}  {_NAMES[letter]:44}  {middle[letter]:8.2f} s  {found[0].received / 1e6:9.2f} MB   ({spread})")
    download = max(run.received for run in runs["A"]) / 1e6
    ratio = middle["A"] / middle["B"]
    print(f"{_DOWNLOAD.what}: {download:.2f}  {_DOWNLOAD.verdict(download)}")
    print(f"{_RATIO.what}: {ratio:.3f}  {_RATIO.verdict(ratio) if judged else '(not judged)'}")
    print(json.dumps({"seconds": middle, "received": {letter: found[0].received for letter, found in runs.items()}}))
    return _DOWNLOAD.met(download) and (_RATIO.met(ratio) or not judged)


def main() -> int:
    """Exit status: 0 the bounds are kept, 1 not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repo", type=Path, help="a clone that has the pin's whole history")
    parser.add_argument("--pin")
    parser.add_argument("--patches", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="patchstack-ci-speed-") as directory:
        scratch = Path(directory)
        given = [args.repo, args.pin, args.patches]
        if any(given) and not all(given):
            parser.error("--repo, --pin and --patches go together")
        case = make_case(args.repo, args.pin, args.patches, "") if args.repo else generated_case(scratch / "made")
        root = scratch / "forge"
        root.mkdir()
        forge = make_forge(case.repo, case.pin, case.patches, root)
        return 0 if report(forge, measure(forge, args.rounds, scratch), judged=args.repo is not None) else 1


if __name__ == "__main__":
    sys.exit(main())
