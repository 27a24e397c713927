"""Measure `patchstack export`, `status` and `--help`, each against its reference.

`python -m benchmarks.mirror_speed [--repo REPO --pin SHA --fork-ref REF]` measures whole processes, interleaved, each
run in a new process: `export` of an up-to-date series against `git format-patch` of the same range, once with the cache
of an earlier run and once with an empty one (which formats and proves every commit); `status` against `verify`;
`--help` against `python -c 'import typer'`. Without a repository it generates one of llama.cpp's shape. Nothing is
written into the repository. Standard library and git only; the Python that runs it also runs patchstack.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.generate import git_environment
from benchmarks.verify_speed import Run, Target, git, timed

_ROOT = Path(__file__).resolve().parent.parent
_RATIOS = {
    "export / git format-patch": Target(what="E/G", bound=1.5),
    "export, empty cache / git format-patch": Target(what="C/G", bound=2.0),
    "status / verify": Target(what="S/V", bound=1.5),
    "--help / import typer": Target(what="H/T", bound=1.5),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A repository that has pin and fork, and the directory of the workspace that names them."""

    repo: Path
    pin: str
    fork_ref: str
    workspace: Path


def a_workspace(repo: Path, pin: str, fork_ref: str, scratch: Path) -> Case:
    """Write a workspace and let `export` write its series."""
    commit = git(repo, "rev-parse", f"{pin}^{{commit}}")
    workspace = scratch / "workspace"
    workspace.mkdir()
    case = Case(repo=repo.resolve(), pin=commit, fork_ref=fork_ref, workspace=workspace)
    told = {"patches": "patches", "upstream": str(case.repo), "pin": commit, "fork": str(case.repo)}
    series = {"measured": {**told, "fork_ref": fork_ref}}
    (workspace / "patchstack.yaml").write_text(json.dumps({"series": series}))
    for command in ("export", "verify"):
        run_patchstack(case, scratch / "cache", scratch, command)
    return case


def run_patchstack(case: Case, cache: Path, scratch: Path, *args: str) -> Run:
    """Run patchstack once in the workspace, from this checkout, byte-compiled like an installed one."""
    environment = {name: value for name, value in git_environment().items() if not name.startswith("PYTHON")}
    environment |= {"PATCHSTACK_CACHE": str(cache), "PYTHONPYCACHEPREFIX": str(scratch / "compiled")}
    if (_ROOT / "patchstack" / "__main__.py").is_file():
        environment["PYTHONPATH"] = str(_ROOT)
    return timed([sys.executable, "-m", "patchstack", *args], environment, case.workspace, keep=False)


def subjects(case: Case, scratch: Path) -> Mapping[str, Callable[[], Run]]:
    """Return the measured commands, by letter."""
    empty, out = scratch / "empty", scratch / "out"

    def with_an_empty_cache() -> Run:
        shutil.rmtree(empty, ignore_errors=True)
        return run_patchstack(case, empty, scratch, "export")

    def format_patch() -> Run:
        shutil.rmtree(out, ignore_errors=True)
        command = ["git", "-C", str(case.repo), "format-patch", "--quiet", f"--output-directory={out}"]
        return timed([*command, f"{case.pin}..{case.fork_ref}"], git_environment(), scratch, keep=False)

    def import_typer() -> Run:
        environment = {"PYTHONPYCACHEPREFIX": str(scratch / "compiled"), "PATH": os.environ["PATH"]}
        return timed([sys.executable, "-c", "import typer"], environment, scratch, keep=False)

    def patchstack(*args: str) -> Callable[[], Run]:
        return lambda: run_patchstack(case, scratch / "cache", scratch, *args)

    return {
        "E patchstack export, nothing to write": patchstack("export"),
        "C patchstack export, with an empty cache": with_an_empty_cache,
        "G git format-patch": format_patch,
        "S patchstack status": patchstack("status"),
        "V patchstack verify": patchstack("verify"),
        "H patchstack --help": patchstack("--help"),
        "T python -c 'import typer'": import_typer,
    }


def measure(case: Case, scratch: Path, rounds: int) -> dict[str, list[Run]]:
    """Measure all round-robin, after a round that warms up."""
    measured = subjects(case, scratch)
    runs: dict[str, list[Run]] = {name: [] for name in measured}
    for number in range(rounds + 1):
        for name, subject in measured.items():
            run = subject()
            if number:
                runs[name].append(run)
    return runs


def report(runs: Mapping[str, Sequence[Run]]) -> tuple[dict[str, Any], bool]:
    """Print the times and the ratios, and return them with whether every target is met."""
    print(f"{'':44}{'rounds':>7}{'median':>10}{'min':>10}{'peak RSS':>10}")
    seconds = {name[0]: [run.seconds for run in own] for name, own in runs.items()}
    for name, own in runs.items():
        times, peak = seconds[name[0]], max(run.peak_mb for run in own)
        print(f"{name:44}{len(times):7}{median(times):8.3f} s{min(times):8.3f} s{peak:7.0f} MB")
    print(f"\n{'ratio, round by round':44}{'median':>8}{'range':>18}   target")
    ratios: dict[str, Any] = {}
    for told, target in _RATIOS.items():
        above, below = target.what.split("/")
        each = [one / other for one, other in zip(seconds[above], seconds[below], strict=True)]
        middle = median(each)
        ratios[target.what] = {"what": told, "rounds": each, "median": middle, "met": target.met(middle)}
        print(f"{told:44}{middle:8.2f}{min(each):9.2f} ..{max(each):6.2f}   {target.verdict(middle)}")
    return {"seconds": seconds, "ratios": ratios}, all(ratio["met"] for ratio in ratios.values())


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure export, status and --help, interleaved in one run.")
    for name in ("--repo", "--pin", "--fork-ref"):
        parser.add_argument(name, help="a repository with pin and fork, instead of a generated one; all three together")
    parser.add_argument("--rounds", type=int, default=15, help="measured rounds [15]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    parser.add_argument("--no-fail", action="store_true", help="exit 0 even where a target is missed")
    given = parser.parse_args()
    real = (given.repo, given.pin, given.fork_ref)
    if any(real) and not all(real):
        parser.error("--repo, --pin and --fork-ref go together")
    if given.rounds < 1:
        parser.error("one round at least")
    return given


def main() -> int:
    """Measure, print, and return the exit status."""
    given = options()
    machine = {"python": platform.python_version(), "git": git(Path("/"), "version"), "cpus": os.cpu_count()}
    print(f"Python {machine['python']}, {machine['git']}, {machine['cpus']} CPUs")
    with tempfile.TemporaryDirectory(prefix="mirror-speed-") as directory:
        scratch = Path(directory).resolve()
        repo, pin, fork_ref = Path(given.repo or scratch / "generated" / "repo"), given.pin or "pin", given.fork_ref
        if not given.repo:
            command = [sys.executable, "-m", "benchmarks.generate", str(scratch / "generated")]
            subprocess.run(command, check=True, cwd=_ROOT)
        case = a_workspace(repo, pin, fork_ref or "fork", scratch)
        count = len(list((case.workspace / "patches").glob("*.patch")))
        print(f"{'given' if given.repo else 'generated'} repository; {count} patches\n", flush=True)
        data, met = report(measure(case, scratch, given.rounds))
    if given.json:
        given.json.write_text(json.dumps({"machine": machine, **data}, indent=1) + "\n")
    return 0 if met or given.no_fail else 1


if __name__ == "__main__":
    sys.exit(main())
