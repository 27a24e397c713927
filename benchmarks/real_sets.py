"""Check that patchstack gives the same trees as other tools, on sets of patches that other people made.

`python -m benchmarks.real_sets --dsc FILE.dsc … --set NAME REPO PIN DIR …` prints a table with a row for each set:

- `--dsc` takes Debian source packages (`apt-get source --download-only PACKAGE`). The oracle is `dpkg-source -x`; the
  base is the package unpacked with `--skip-patches`, as a commit of a scratch repository; the patches are its
  `debian/patches`.
- `--set` takes a directory of patches, and the commit of a repository that they are for. The oracle is `quilt push -a`
  if the directory has a series file, or else GNU patch with `-p1`, file by file, in the order of the shell's glob.

Each set is verified (`--apply-only`), and adopted (`init --adopt`) if it applies. One that needs fuzz is refreshed
first. A set is `equal` if all trees are the oracle's, `refused` with the reason, `told` if patchstack warns that git
and GNU patch put a hunk in different places, or `DIFFERENT`: then the exit code is 1. All is done in a temporary
directory; nothing is written into a repository that is named.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.generate import git_environment

_PYTHON = sys.executable


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A set of patches: the repository and commit that they are for, and the tree that the oracle gives, if it gives
    one (else `said` is its message)."""

    name: str
    repo: Path
    pin: str
    patches: Path
    oracle: str
    tree: str | None
    said: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A row: the number of patches, the result, and the reason; `fuzz` is whether the set was refreshed."""

    name: str
    patches: int
    oracle: str
    answer: str
    why: str = ""


def main() -> int:
    """Print the table; 1 if any set is different."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dsc", nargs="*", type=Path, default=[], metavar="FILE.dsc")
    parser.add_argument("--set", nargs=4, action="append", default=[], metavar=("NAME", "REPO", "PIN", "DIR"))
    arguments = parser.parse_args()
    found: list[Found] = []
    for dsc in arguments.dsc:
        with tempfile.TemporaryDirectory(prefix="real-sets-") as scratch:
            case = _package(dsc.resolve(), Path(scratch))
            if not _has_patches(case.patches):
                print(f"{case.name} has no patches", file=sys.stderr)
                continue
            found.append(_judge(case, Path(scratch)))
            _print(found[-1])
    for name, repo, pin, patches in arguments.set:
        with tempfile.TemporaryDirectory(prefix="real-sets-") as scratch:
            found.append(_judge(_directory(name, Path(repo), pin, Path(patches), Path(scratch)), Path(scratch)))
            _print(found[-1])
    counts = {
        answer: sum(one.answer == answer for one in found) for answer in ("equal", "refused", "told", "DIFFERENT")
    }
    print(f"{len(found)} sets: " + ", ".join(f"{count} {answer}" for answer, count in counts.items()))
    return 1 if counts["DIFFERENT"] or not found else 0


def _print(one: Found) -> None:
    print(f"| {one.name} | {one.patches} | {one.oracle} | {one.answer} | {one.why} |", flush=True)


def _has_patches(directory: Path) -> bool:
    """Return whether a package has patches: some have an empty series file."""
    listed = directory / "series"
    lines = listed.read_text(errors="replace").splitlines() if listed.is_file() else []
    return any(line.strip() and not line.startswith("#") for line in lines)


def _package(dsc: Path, scratch: Path) -> Case:
    """Return a Debian source package."""
    name = dsc.stem
    base, patched = scratch / "base", scratch / "patched"
    _run(["dpkg-source", "--no-check", "--skip-patches", "-x", str(dsc), str(base)], cwd=scratch)
    done = _run(["dpkg-source", "--no-check", "-x", str(dsc), str(patched)], cwd=scratch, check=False)
    repo = _new_repository(scratch)
    tree = _tree(repo, base)
    pin = _git(repo, "commit-tree", tree, "-m", name)
    _git(repo, "update-ref", "refs/heads/main", pin)
    said = "" if done.returncode == 0 else _last(done)
    patches = scratch / "patches"
    shutil.copytree(base / "debian/patches", patches) if (base / "debian/patches").is_dir() else patches.mkdir()
    expected = None
    if not said:
        shutil.rmtree(patched / ".pc", ignore_errors=True)
        expected = _tree(repo, patched)
    return Case(name=name, repo=repo, pin=pin, patches=patches, oracle="dpkg-source", tree=expected, said=said)


def _directory(name: str, repo: Path, pin: str, patches: Path, scratch: Path) -> Case:
    """Return a directory of patches for a commit of a repository, which is borrowed."""
    ours = _new_repository(scratch)
    objects = next(path for path in (repo / "objects", repo / ".git/objects") if path.is_dir())
    (ours / "objects/info/alternates").write_text(f"{objects.resolve()}\n")
    full = subprocess.run(
        ["git", "rev-parse", "--verify", f"{pin}^{{commit}}"], cwd=repo, check=True, capture_output=True, text=True
    ).stdout.strip()
    _git(ours, "update-ref", "refs/heads/main", full)
    base = scratch / "base"
    _git(ours, "read-tree", full)
    base.mkdir()
    at_base = f"--work-tree={base}"
    _git(ours, at_base, "checkout-index", "--all", check=False)
    # Contents that a partial clone lacks; patches do not touch them.
    absent = _git(ours, at_base, "ls-files", "--deleted").splitlines()
    if absent:
        _git(ours, at_base, "update-index", "--skip-worktree", "--", *absent)
    said, oracle = "", "quilt" if (patches / "series").is_file() else "patch -p1"
    if oracle == "quilt":
        environment = _environment() | {"QUILT_PATCHES": str(patches.resolve()), "QUILT_PC": str(scratch / "pc")}
        done = _run(["quilt", "--quiltrc=-", "push", "-a"], cwd=base, check=False, environment=environment)
        said = "" if done.returncode == 0 else _last(done)
    else:
        names = sorted((one for one in os.listdir(patches) if one.endswith((".patch", ".diff"))), key=os.fsencode)
        for file in names:
            command = ["patch", "-p1", "-f", "--no-backup-if-mismatch", "-r-", "-i", str((patches / file).resolve())]
            done = _run(command, cwd=base, check=False)
            if done.returncode:
                said = f"{file}: {_last(done)}"
                break
    expected = None if said else _tree(ours, base, fresh=False)
    return Case(name=name, repo=ours, pin=full, patches=patches, oracle=oracle, tree=expected, said=said)


def _judge(case: Case, scratch: Path) -> Found:
    """Compare patchstack's result for a set with the oracle's."""
    mine = scratch / "mine"
    mine.mkdir()
    sources = ["--upstream", str(case.repo), "--pin", case.pin]
    patches = case.patches
    code, document, told = _patchstack(mine, "verify", "--patches", str(patches), *sources, "--apply-only", "--json")
    refreshed = ""
    if document is not None and any("refreshed copies:" in one for one in document["warnings"]):
        out = scratch / "refreshed"
        code, done, refusal = _patchstack(mine, "refresh", str(out), "--patches", str(patches), *sources, "--json")
        if done is not None:
            count = sum(bool(one["hunks"]) for one in done["patches"])
            patches, refreshed = out, f"after `refresh` of {count} that need fuzz"
            code, document, told = _patchstack(
                mine, "verify", "--patches", str(patches), *sources, "--apply-only", "--json"
            )
        else:
            told = refusal
    count = document["patch_count"] if document is not None else 0

    def row(answer: str, why: str) -> Found:
        return Found(name=case.name, patches=count, oracle=case.oracle, answer=answer, why=why.replace("|", "\\|"))

    if code or document is None:
        reason = (document or {}).get("first_problem") or told
        oracle = f"; {case.oracle} too: {case.said}" if case.said else ""
        return row("refused", f"exit {code}: {reason}{oracle}")
    if case.tree is None:
        return row("DIFFERENT", f"applied here; {case.oracle} refuses: {case.said}")
    code, _, told = _patchstack(
        mine, "init", "--patches", str(patches), "--adopt", str(case.repo), "--pin", case.pin, "--name", "adopted"
    )
    apart = [one for one in document["warnings"] if "in different places" in one]
    if apart and document["applied_tree"] != case.tree:
        return row("told", apart[0])
    adopted = "" if code else _git(case.repo, "rev-parse", "adopted^{tree}")
    if {document["applied_tree"], adopted or case.tree} != {case.tree}:
        return row("DIFFERENT", _difference(case.repo, case.tree, adopted or document["applied_tree"]))
    if code:
        return row("equal", f"{refreshed}; not adopted: {told}".removeprefix("; "))
    return row("equal", f"{refreshed}, adopted".removeprefix(", "))


def _patchstack(directory: Path, *arguments: str) -> tuple[int, dict[str, Any] | None, str]:
    """Return the exit status, the JSON document if there is one, and the messages on one line."""
    environment = _environment() | {"PATCHSTACK_CACHE": str(directory.parent / "cache")}
    done = _run([_PYTHON, "-m", "patchstack", *arguments], cwd=directory, check=False, environment=environment)
    document = json.loads(done.stdout) if done.stdout.startswith("{") else None
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip() and not line.startswith("warning:")]
    return done.returncode, document if document and "error" not in document else None, " / ".join(lines[:6])


def _difference(repo: Path, expected: str, given: str) -> str:
    done = _run(["git", "diff-tree", "-r", "--name-status", expected, given], cwd=repo, check=False)
    return (
        f"trees differ: {' '.join(done.stdout.split()[:8])}" if done.returncode == 0 else "the tree is unknown to git"
    )


def _new_repository(scratch: Path) -> Path:
    repo = scratch / "repo.git"
    _run(["git", "init", "--quiet", "--bare", "--template=", "--initial-branch=main", str(repo)], cwd=scratch)
    (repo / "info").mkdir(exist_ok=True)
    (repo / "info/attributes").write_text("* -text -filter -ident -working-tree-encoding -eol\n")
    return repo


def _tree(repo: Path, directory: Path, *, fresh: bool = True) -> str:
    """Return the tree of a directory's files, ignored ones included; `fresh` forgets what was in the index."""
    index = repo / "index"
    if fresh:
        index.unlink(missing_ok=True)
    environment = _environment() | {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(directory), "GIT_DIR": str(repo)}
    _run(["git", "add", "--all", "--force", "."], cwd=directory, environment=environment)
    return _run(["git", "write-tree", "--missing-ok"], cwd=directory, environment=environment).stdout.strip()


def _git(repo: Path, *arguments: str, check: bool = True) -> str:
    environment = _environment() | {"GIT_INDEX_FILE": str(repo / "index"), "GIT_DIR": str(repo)}
    return _run(["git", *arguments], cwd=repo, environment=environment, check=check).stdout.strip()


def _environment() -> dict[str, str]:
    root = str(Path(__file__).resolve().parent.parent)
    who = {f"GIT_{role}_{key}": "real-sets@localhost" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    return {**git_environment(), **who, "LC_ALL": "C.UTF-8", "PYTHONPATH": root}


def _last(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return lines[-1] if lines else f"exit {done.returncode}"


def _run(
    command: Sequence[str], *, cwd: Path, check: bool = True, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        list(command),
        cwd=cwd,
        env=environment or _environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if check and done.returncode:
        raise SystemExit(f"{' '.join(command[:3])}: {_last(done)}")
    return done


if __name__ == "__main__":
    raise SystemExit(main())
