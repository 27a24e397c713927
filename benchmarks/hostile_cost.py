"""Measure the cost of hostile patches against git itself.

`python -m benchmarks.hostile_cost` runs `patchstack verify`, `verify --apply-only`, `lint` and `canary`, and `git
read-tree; git apply --cached; git write-tree`, on a generated family of patches, one after the other in one run, and
prints time and memory of each. `canary` looks at one more commit, which adds a first line to the files; git's time is
then that of both commits. It fails if a command takes more than three times git's time plus half a second, start-up
included, or more memory than three times the patches plus 100 MB. Time is processor time of the process and its
children: other work on the machine does not count. Standard library and git only.
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
_SCRIPT = f'git read-tree "$PIN"; for patch; do {_GIT_APPLY} "$patch" || $ELSE; done; git write-tree'
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
    """One case and command: sizes in MB, seconds, and git's answer."""

    case: str
    command: str
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


COMMANDS: dict[str, tuple[str, ...]] = {
    "verify": ("verify", "--json"),
    "apply-only": ("verify", "--apply-only", "--json"),
    "lint": ("lint", "--json"),
    "canary": ("canary", "--blame", "--to", "next", "--json"),
}
"""The measured commands, by their names in the table. `verify` also gets git's tree."""
ANSWERS = {"verify": ((0,), (1, 2)), "apply-only": ((0,), (1, 2)), "lint": ((0, 1), (1, 2)), "canary": ((0, 1), (1, 2))}
"""Exit codes for a patch that git accepts, and for one that it refuses. Lint may have findings for one that applies,
and it may fail on canary's commit."""
_MOVED = 20
"""The number of files that the commit after the pin changes."""


def write_case(hostile: Hostile, place: Path) -> str:
    """Write repository and patches, and return the pin. The commit `next` comes after it."""
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
    _write(files, out)
    out.write(b"commit refs/heads/next\ncommitter A <a@example.com> 1700000001 +0000\ndata 5\nnext\n\n")
    out.write(b"from refs/heads/pin\n")
    _write({path: b"moved\n" + files[path] for path in list(files)[:_MOVED]}, out)


def _write(files: Mapping[str, bytes], out: IO[bytes]) -> None:
    for path, content in files.items():
        out.write(b"M 100644 inline %s\ndata %d\n" % (path.encode(), len(content)) + content + b"\n")


def run_git(place: Path, pin: str, patches: Sequence[Path], *, keep_going: bool = False) -> Cost:
    """Apply the patches to a new index with git, up to the first that does not apply, or all of them."""
    with tempfile.TemporaryDirectory(dir=place) as fresh:
        (Path(fresh) / "objects").mkdir()
        own = {
            "PIN": pin,
            "ELSE": ":" if keep_going else "exit 7",
            "GIT_DIR": str(place / "repo"),
            "GIT_INDEX_FILE": f"{fresh}/index",
        }
        own |= {"GIT_OBJECT_DIRECTORY": f"{fresh}/objects"}
        own |= {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(place / "repo" / "objects")}
        return measured(["sh", "-ec", _SCRIPT, "sh", *map(str, patches)], git_environment() | own, Path(fresh))


def run_patchstack(place: Path, pin: str, tree: str, command: str) -> Cost:
    """Return a command of this checkout's patchstack, byte-compiled like an installed one."""
    environment = {name: value for name, value in git_environment().items() if not name.startswith("PYTHON")}
    scratch = place.parent
    environment |= {"PATCHSTACK_CACHE": str(scratch / "cache"), "PYTHONPYCACHEPREFIX": str(scratch / "compiled")}
    environment["PYTHONPATH"] = str(_ROOT)
    args = [sys.executable, "-m", "patchstack", *COMMANDS[command], "--patches", str(place / "patches")]
    args += ["--upstream", str(place / "repo"), "--pin", pin]
    args += ["--expect-tree", tree] if command == "verify" else []
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
    """Run both once on almost nothing, to compile byte code and read files."""
    place = scratch / "case"
    place.mkdir()
    pin = write_case(many_hunks(1), place)
    run_git(place, pin, sorted((place / "patches").iterdir()))
    for command in (*COMMANDS, *COMMANDS):
        run_patchstack(place, pin, "0" * 40, command)
    shutil.rmtree(place)


def measure(name: str, scratch: Path, rounds: int, commands: Sequence[str]) -> list[Row]:
    """Measure a case: the least of each program's times, interleaved."""
    hostile = CASES[name]()
    place = scratch / "case"
    place.mkdir()
    pin = write_case(hostile, place)
    size = hostile.size / 1e6
    del hostile
    patches = sorted((place / "patches").iterdir())
    theirs: list[Cost] = []
    all_of_them: list[Cost] = []
    moved: list[Cost] = []
    ours: dict[str, list[Cost]] = {command: [] for command in commands}
    for _ in range(rounds):
        theirs.append(run_git(place, pin, patches))
        tree = theirs[-1].output.strip() if theirs[-1].code == 0 else "0" * 40
        if len(patches) > 1 and theirs[-1].code != 0:
            all_of_them.append(run_git(place, pin, patches, keep_going=True))
        if "canary" in commands:
            moved.append(run_git(place, "next", patches, keep_going=True))
        for command, found in ours.items():
            found.append(run_patchstack(place, pin, tree, command))
    applies = theirs[0].code == 0
    for command, found in ours.items():
        # Exit 2 means that it is not a patch. patchstack splits a mailbox.
        if found[0].code not in ANSWERS[command][0 if applies else 1] and "mailbox" not in name:
            told = found[0].output[-2000:]
            raise SystemExit(f"{name}: git exits {theirs[0].code}, patchstack {command} {found[0].code}: {told}")
    shutil.rmtree(place)
    return [
        Row(
            case=name,
            command=command,
            size_mb=size,
            git_seconds=_seconds(command, theirs, all_of_them, moved),
            seconds=min(one.seconds for one in found),
            git_mb=max(one.peak_mb for one in theirs),
            peak_mb=max(one.peak_mb for one in found),
            applies=applies,
        )
        for command, found in ours.items()
    ]


def _seconds(command: str, theirs: Sequence[Cost], all_of_them: Sequence[Cost], moved: Sequence[Cost]) -> float:
    """Return git's time for what a command looks at. Lint and canary look at every patch, also after one that does not
    apply; canary on two commits."""
    at_pin = theirs if command in ("verify", "apply-only") else all_of_them or theirs
    seconds = min(one.seconds for one in at_pin)
    return seconds + min(one.seconds for one in moved) if command == "canary" else seconds


def line(rows: Sequence[Row]) -> str:
    """Return the commands of one case as a row of the table, in Markdown."""
    first = rows[0]
    seconds = " | ".join(f"{row.seconds:.2f} s{'' if row.seconds <= row.allowed else ' **over**'}" for row in rows)
    memory = max(row.peak_mb for row in rows)
    over = "" if memory <= first.allowed_mb else " **over**"
    return (
        f"| {first.case} | {first.size_mb:.1f} MB | {'yes' if first.applies else 'no'} | {first.git_seconds:.2f} s "
        f"| {first.allowed:.2f} s | {seconds} | {memory:.0f} MB{over} | {first.allowed_mb:.0f} MB |"
    )


def main() -> None:
    """Measure, print the table, and fail if a bound is broken."""
    parser = argparse.ArgumentParser(description="Hold the cost of hostile patches against git's, in one run.")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each program; the least time counts [2]")
    parser.add_argument("--only", metavar="GLOB", help="cases of such names alone")
    parser.add_argument("--command", action="append", choices=COMMANDS, help="this command alone (repeat)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    rows: list[Row] = []
    commands = tuple(given.command or COMMANDS)
    print(f"| patch | size | applies | git | allowed | {' | '.join(commands)} | most memory | allowed |")
    print(f"| --- | --- | --- | --- | --- |{' --- |' * len(commands)} --- | --- |")
    with tempfile.TemporaryDirectory(prefix="patchstack-hostile-") as directory:
        warm_up(Path(directory))
        for name in CASES:
            if given.only is None or fnmatch.fnmatch(name, given.only):
                measured_now = measure(name, Path(directory), given.rounds, commands)
                rows += measured_now
                print(line(measured_now), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    over = [f"{row.case}: {row.command}" for row in rows if not row.holds]
    print(f"\n{len(rows) - len(over)} of {len(rows)} keep both bounds", *over, sep="\n")
    raise SystemExit(1 if over else 0)


if __name__ == "__main__":
    main()
