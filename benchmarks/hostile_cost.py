"""Measure the cost of hostile patches against git itself.

`python -m benchmarks.hostile_cost` runs `patchstack verify` and `git read-tree; git apply --cached; git write-tree` on
a generated family of patches, one after the other in one run, and prints time, ratio and memory of each. It fails if
patchstack takes more than three times git's time plus half a second, start-up included, or more memory than three times
the patches plus 100 MB. Time is processor time of the process and its children: other work on the machine does not
count. Standard library and git only.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from benchmarks.generate import git_environment
from benchmarks.hostile_patches import CASES, Hostile, many_hunks

TIMES, SECONDS = 3.0, 0.5
SIZES, MEGABYTES = 3.0, 100.0
_ROOT = Path(__file__).resolve().parent.parent
_GIT_APPLY = "git -c apply.whitespace=nowarn -c core.protectNTFS=true -c core.protectHFS=true apply --cached"
_SCRIPT = f'git read-tree "$PIN"; for patch; do {_GIT_APPLY} "$patch" || exit 7; done; git write-tree'
_MEASURE = """
import json, os, resource, subprocess, sys, tempfile
resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
child = subprocess.Popen(sys.argv[1:], stderr=tempfile.TemporaryFile())
_, status, usage = os.wait4(child.pid, 0)
peak = usage.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
seconds, code = usage.ru_utime + usage.ru_stime, os.waitstatus_to_exitcode(status)
print(json.dumps({"seconds": seconds, "peak_mb": peak, "code": code}), file=sys.stderr)
"""
"""Run a program from a small process, because a child's peak memory is at least that of its parent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a program: CPU seconds including its children's, and the memory of the largest process in MB."""

    seconds: float
    peak_mb: float
    code: int
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case: sizes in MB, seconds, and what patchstack's answer was."""

    case: str
    size_mb: float
    git_seconds: float
    seconds: float
    git_mb: float
    peak_mb: float
    applies: bool

    @property
    def allowed(self) -> float:
        """The seconds that patchstack may take."""
        return TIMES * self.git_seconds + SECONDS

    @property
    def allowed_mb(self) -> float:
        """The memory that patchstack may take."""
        return SIZES * self.size_mb + MEGABYTES

    @property
    def holds(self) -> bool:
        """Whether both bounds are kept."""
        return self.seconds <= self.allowed and self.peak_mb <= self.allowed_mb


def write_case(hostile: Hostile, place: Path) -> str:
    """Write repository and patches, and return the pin."""
    repo, patches = place / "repo", place / "patches"
    subprocess.run(["git", "init", "--quiet", "--bare", str(repo)], env=git_environment(), check=True)
    command = ["git", "-C", str(repo), "fast-import", "--quiet"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=git_environment()) as importer:
        assert importer.stdin is not None
        _import(hostile.files, importer.stdin)
    assert importer.returncode == 0
    patches.mkdir()
    for number, data in enumerate(hostile.patches, 1):
        (patches / f"{number:04d}-hostile.patch").write_bytes(data)
    found = subprocess.run(
        ["git", "-C", str(repo), "rev-parse", "pin"], env=git_environment(), check=True, capture_output=True, text=True
    )
    return found.stdout.strip()


def _import(files: Mapping[str, bytes], out: IO[bytes]) -> None:
    out.write(b"commit refs/heads/pin\ncommitter A <a@example.com> 1700000000 +0000\ndata 4\npin\n\n")
    for path, content in files.items():
        out.write(b"M 100644 inline %s\ndata %d\n" % (path.encode(), len(content)) + content + b"\n")


def run_git(place: Path, pin: str, patches: Sequence[Path]) -> Cost:
    """Apply the patches to a new index with git."""
    with tempfile.TemporaryDirectory(dir=place) as fresh:
        (Path(fresh) / "objects").mkdir()
        own = {"PIN": pin, "GIT_DIR": str(place / "repo"), "GIT_INDEX_FILE": f"{fresh}/index"}
        own |= {"GIT_OBJECT_DIRECTORY": f"{fresh}/objects"}
        own |= {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(place / "repo" / "objects")}
        return measured(["sh", "-ec", _SCRIPT, "sh", *map(str, patches)], git_environment() | own, Path(fresh))


def run_patchstack(place: Path, pin: str, tree: str) -> Cost:
    """`patchstack verify` of this checkout, byte-compiled as an installed one is."""
    environment = {name: value for name, value in git_environment().items() if not name.startswith("PYTHON")}
    scratch = place.parent
    environment |= {"PATCHSTACK_CACHE": str(scratch / "cache"), "PYTHONPYCACHEPREFIX": str(scratch / "compiled")}
    environment["PYTHONPATH"] = str(_ROOT)
    args = [sys.executable, "-m", "patchstack", "verify", "--json", "--patches", str(place / "patches")]
    args += ["--upstream", str(place / "repo"), "--pin", pin, "--expect-tree", tree]
    return measured(args, environment, place)


def measured(args: Sequence[str], environment: Mapping[str, str], cwd: Path) -> Cost:
    """Run a program to its end, from a separate process that measures only it and its children."""
    with tempfile.TemporaryFile() as out:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _MEASURE, *args],
            env=dict(environment),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            check=False,
        )
        out.seek(0)
        told = json.loads(done.stderr.decode().splitlines()[-1])
        return Cost(output=out.read(1 << 20).decode("utf-8", "replace"), **told)


def warm_up(scratch: Path) -> None:
    """Run both once on next to nothing: byte code is compiled, files are read."""
    place = scratch / "case"
    place.mkdir()
    pin = write_case(many_hunks(1), place)
    run_git(place, pin, sorted((place / "patches").iterdir()))
    for _ in range(2):
        run_patchstack(place, pin, "0" * 40)
    shutil.rmtree(place)


def measure(name: str, scratch: Path, rounds: int) -> Row:
    """Measure a case: the least of each program's times, interleaved."""
    hostile = CASES[name]()
    place = scratch / "case"
    place.mkdir()
    pin = write_case(hostile, place)
    size = hostile.size / 1e6
    del hostile
    patches = sorted((place / "patches").iterdir())
    theirs, ours = [], []
    for _ in range(rounds):
        theirs.append(run_git(place, pin, patches))
        tree = theirs[-1].output.strip() if theirs[-1].code == 0 else "0" * 40
        ours.append(run_patchstack(place, pin, tree))
    applies = theirs[0].code == 0
    # Exit 0: the tree that git gives; 1: the patch does not apply; 2: it is not a patch. A mailbox is split here.
    if ours[0].code not in ((0,) if applies else (1, 2)) and "mailbox" not in name:
        raise SystemExit(f"{name}: git exits {theirs[0].code}, patchstack {ours[0].code}: {ours[0].output[-2000:]}")
    shutil.rmtree(place)
    return Row(
        case=name,
        size_mb=size,
        git_seconds=min(one.seconds for one in theirs),
        seconds=min(one.seconds for one in ours),
        git_mb=max(one.peak_mb for one in theirs),
        peak_mb=max(one.peak_mb for one in ours),
        applies=applies,
    )


def line(row: Row) -> str:
    """Return a row of the table, in Markdown."""
    ratio = row.seconds / row.git_seconds if row.git_seconds else float("inf")
    verdict = "" if row.holds else " **over**"
    return (
        f"| {row.case} | {row.size_mb:.1f} MB | {'yes' if row.applies else 'no'} | {row.git_seconds:.2f} s "
        f"| {row.seconds:.2f} s | {ratio:.1f} | {row.allowed:.2f} s{verdict} | {row.peak_mb:.0f} MB "
        f"| {row.allowed_mb:.0f} MB |"
    )


def main() -> None:
    """Measure, print the table, and fail if a bound is broken."""
    parser = argparse.ArgumentParser(description="Hold the cost of hostile patches against git's, in one run.")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each program; the least time counts [2]")
    parser.add_argument("--only", metavar="GLOB", help="cases of such names alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    rows = []
    print("| patch | size | applies | git | patchstack | ratio | allowed | memory | allowed |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="patchstack-hostile-") as directory:
        warm_up(Path(directory))
        for name in CASES:
            if given.only is None or fnmatch.fnmatch(name, given.only):
                rows.append(measure(name, Path(directory), given.rounds))
                print(line(rows[-1]), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    over = [row.case for row in rows if not row.holds]
    print(f"\n{len(rows) - len(over)} of {len(rows)} keep both bounds")
    raise SystemExit(1 if over else 0)


if __name__ == "__main__":
    main()
