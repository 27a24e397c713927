"""Debian source packages: `dpkg-source` judges the result of their patches."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.conftest import RunCli
from tests.support.builders import RepoBuilder, numbered, run_git
from tests.support.oracle import hermetic_environment
from tests.support.quilt import needs_dpkg

CONTROL = "Source: thing\nMaintainer: A <a@example.com>\n\nPackage: thing\nArchitecture: all\nDescription: x\n y\n"
CHANGELOG = "thing (1.0-1) unstable; urgency=low\n\n  * x\n\n -- A <a@example.com>  Sun, 15 Jun 2025 15:06:40 +0000\n"
CHANGES = st.lists(
    st.tuples(st.sampled_from(["f", "below/g", "new"]), st.integers(1, 30), st.sampled_from(["x", "y", ""])),
    min_size=1,
    max_size=4,
)


def by_dpkg(directory: Path, repo: RepoBuilder, pin: str, patches: Path) -> str | None:
    """Return the tree that `dpkg-source` gives, or None if it refuses."""
    tree = directory / "thing-1.0"
    run_git("clone", "-q", repo.path, tree, cwd=directory)
    run_git("checkout", "-q", pin, cwd=tree)
    (tree / "debian/source").mkdir(parents=True)
    for name, text in {"control": CONTROL, "changelog": CHANGELOG, "source/format": "3.0 (quilt)\n"}.items():
        (tree / "debian" / name).write_text(text)
    shutil.copytree(patches, tree / "debian/patches")
    ran = subprocess.run(
        ["dpkg-source", "--before-build", tree], cwd=directory, capture_output=True, env=hermetic_environment()
    )
    # If the first patch does not apply, it assumes that all are already applied, and succeeds.
    if ran.returncode or not (tree / ".pc" / "applied-patches").is_file():
        return None
    shutil.rmtree(tree / "debian")
    shutil.rmtree(tree / ".pc", ignore_errors=True)
    run_git("add", "-A", cwd=tree)
    return run_git("write-tree", cwd=tree).stdout.decode().strip()


@needs_dpkg
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(changes=[("f", 1, "x"), ("f", 1, "x")], kept={1}, git=False)  # the first patch listed does not apply
@given(changes=CHANGES, kept=st.sets(st.integers(0, 3)), git=st.booleans())
def test_patches_of_a_package_give_the_tree_that_dpkg_source_gives(
    tmp_path_factory: pytest.TempPathFactory,
    run_cli: RunCli,
    changes: list[tuple[str, int, str]],
    kept: set[int],
    git: bool,
) -> None:
    directory = tmp_path_factory.mktemp("debian")
    repo = RepoBuilder(directory / "repo")
    files = {"f": numbered(30), "below/g": numbered(30)}
    pin = before = repo.commit("Base", dict(files))
    patches = directory / "patches"
    patches.mkdir()
    listed: list[str] = []
    for count, (path, line, text) in enumerate(changes):
        files[path] = files.get(path, "") + f"{text} {count}\n" if path == "new" else _changed(files[path], line, text)
        after = repo.commit(f"Change {count}", {path: files[path]})
        diff = run_git("diff", before, after, cwd=repo.path).stdout
        if not git:
            diff = diff[diff.find(b"--- ") :] if b"\n--- " in diff else diff
        before = after
        name = f"{9 - count}-change" if count % 2 else f"{9 - count}-change.patch"
        (patches / name).write_bytes(b"Description: change\n Why.\n\n" + diff)
        listed.append(name if count in kept or not diff else f"# {name}")
    if not any(line and not line.startswith("#") for line in listed):
        listed[0] = listed[0].removeprefix("# ")
    (patches / "series").write_text("# order\n\n" + "".join(f"{line}\n" for line in listed))
    expected = by_dpkg(directory, repo, pin, patches)
    sources = ["--upstream", str(repo.path), "--pin", pin]
    ran = run_cli("verify", "--patches", patches, *sources, "--apply-only", "--json")
    assert (ran.document["applied_tree"] if ran.code == 0 else None) == expected
    shutil.rmtree(directory)


def _changed(text: str, line: int, new: str) -> str:
    lines = text.split("\n")
    lines[line - 1] = f"{new} {lines[line - 1]}!"
    return "\n".join(lines)
