"""Adoption: patches of any origin become a branch and a mirror that give the same tree, and then are a normal
series."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from patchstack.series.mirror import adopt as adopting
from patchstack.workspace import write
from tests.conftest import Patchstack, Ran
from tests.support.builders import Fork, a_fork, edited, new_file, run_git, snapshot, write_series

DEP3 = (
    b"Description: Say zero first\n It was left out.\n .\n Nobody knows why.\n"
    b"Author: Ann Other <ann@example.com>\nForwarded: no\n---\nThis patch header follows DEP-3.\n"
) + edited("docs/notes.txt", "@@ -1,3 +1,4 @@\n+zero\n one\n two\n three\n").partition(b"\n")[2]
MERCURIAL = (
    b"# HG changeset patch\n# User Bob <bob@example.com>\n# Date 1750000000 -7200\n# Node ID 12\n# Parent  11\n"
    b"Add four\n\nIt was missing.\n\ndiff -r 11 -r 12 docs/notes.txt\n"
    b"--- a/docs/notes.txt\tThu Jan 01 00:00:00 1970 +0000\n+++ b/docs/notes.txt\tSun Jun 15 15:06:40 2025 +0000\n"
    b"@@ -2,3 +2,4 @@\n one\n two\n three\n+four\n"
)
SUBVERSION = (
    b"Index: docs/more.txt\n" + b"=" * 67 + b"\n--- docs/more.txt\t(nonexistent)\n+++ docs/more.txt\t(working copy)\n"
    b"@@ -0,0 +1 @@\n+more\n"
)


@pytest.fixture
def fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fork:
    fork = a_fork(tmp_path, 3)
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    return fork


class Adopting:
    """Run patchstack in a workspace that it writes."""

    def __init__(self, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]) -> None:
        self._patchstack, self._capsys = patchstack, capsys

    def __call__(self, *args: str | Path) -> Ran:
        self._capsys.readouterr()
        code = self._patchstack(*args)
        printed = self._capsys.readouterr()
        return Ran(code=code, stdout=printed.out, stderr=printed.err)


@pytest.fixture
def run(patchstack: Patchstack, capsys: pytest.CaptureFixture[str]) -> Adopting:
    return Adopting(patchstack, capsys)


def adopt(run: Adopting, fork: Fork, patches: Path, *options: str) -> Ran:
    return run("init", "--patches", patches, "--adopt", fork.upstream.path, "--pin", fork.pin, *options)


def quilt(fork: Fork) -> Path:
    directory = fork.series.parent / "debian"
    return write_series(
        directory,
        {
            "zero": DEP3,
            "four.diff": MERCURIAL,
            "more.patch": SUBVERSION,
            "off.patch": DEP3,
            "series": b"zero\nfour.diff # hg\nmore.patch -p0\n",
        },
    )


def test_a_quilt_directory_becomes_a_branch_and_a_mirror_of_the_same_tree(fork: Fork, run: Adopting) -> None:
    ran = adopt(run, fork, quilt(fork))
    expected = fork.repo.tree(
        _commit(fork, {"docs/notes.txt": "zero\none\ntwo\nthree\nfour\n", "docs/more.txt": "more\n"})
    )
    git = fork.upstream.git
    head = git("rev-parse", "debian")
    assert ran.code == 0, ran.told
    assert ran.stdout == (
        f"{fork.series.parent}/debian: 3 patches on {fork.pin} give tree {expected}\n"
        f"{fork.upstream.path}: new branch debian at {head}, with one commit for each patch\n"
        "patches/debian: its mirror, 3 patches and series.lock\n"
        f"debian: holds: base {fork.pin} + 3 of 3 patches = {expected}; "
        f"expected {expected} from fork ../upstream debian ({head[:12]})\n"
    )
    assert ran.stderr == (
        "warning: off.patch is not applied: series does not list it\n"
        "next: commit patchstack.yaml and patches/debian; work on debian, then patchstack export debian\n"
    )
    assert git("rev-parse", "debian^{tree}") == expected
    assert git("log", "--format=%an <%ae> %at %s", "--reverse", f"{fork.pin}..debian").splitlines() == [
        f"Ann Other <ann@example.com> {_pin_date(fork)} Say zero first",
        "Bob <bob@example.com> 1750000000 Add four",
        f"patchstack <patchstack@localhost> {_pin_date(fork)} more",
    ]
    assert git("log", "-1", "--format=%b", "debian~2").startswith("It was left out.\n\nNobody knows why.\n")
    assert git("log", "-1", "--format=%b%ai", "debian~1").startswith("It was missing.\n")


def _commit(fork: Fork, changes: dict[str, str]) -> str:
    fork.repo.branch("expected", fork.pin)
    return fork.repo.commit("Expected", changes)


def _pin_date(fork: Fork) -> str:
    return fork.upstream.git("log", "-1", "--format=%ct", fork.pin)


def test_from_there_on_it_is_a_series_like_others(fork: Fork, run: Adopting) -> None:
    assert adopt(run, fork, quilt(fork), "--name", "product", "--fork-ref", "our/branch").code == 0
    assert run("export", "product").stdout.splitlines()[-1].startswith("product: up to date")
    assert run("verify", "product").code == 0
    assert run("status").code == 0
    assert run("lint").code in (0, 1)
    again = Path("again")
    assert run("checkout", "product", again).code == 0
    assert run_git("rev-parse", "HEAD", cwd=again).stdout.decode().strip() == fork.upstream.git(
        "rev-parse", "our/branch"
    )


def test_nothing_of_the_clone_but_the_branch_is_changed(fork: Fork, run: Adopting) -> None:
    clone = fork.upstream.path
    before = {path: told for path, told in snapshot(clone).items() if "/objects" not in path}
    assert adopt(run, fork, quilt(fork)).code == 0
    after = {path: told for path, told in snapshot(clone).items() if "/objects" not in path}
    changed = {str(Path(path).relative_to(clone)) for path in after if before.get(path) != after[path]}
    branch = {f".git/{place}refs/heads{name}" for place in ("", "logs/") for name in ("", "/debian")}
    assert changed <= {".git", ".git/logs", *branch}, changed


def test_adopting_twice_gives_the_same_commits(fork: Fork, run: Adopting) -> None:
    patches = quilt(fork)
    assert adopt(run, fork, patches).code == 0
    head = fork.upstream.git("rev-parse", "debian")
    ran = adopt(run, fork, patches)
    assert (ran.code, ran.stderr) == (
        2,
        "error: patchstack.yaml already has a series debian\n\nhint: choose a different name with --name\n",
    )
    shutil.rmtree("patches")
    Path("patchstack.yaml").unlink()
    assert adopt(run, fork, patches).code == 0
    assert fork.upstream.git("rev-parse", "debian") == head


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (
            {"0001-a.patch": edited("docs/notes.txt", "@@ -1,3 +1,4 @@\n+zero\n one\n two\n drei\n")},
            "  - 0001-a.patch: docs/notes.txt: hunk 1 (@@ -1,3 +1,4 @@): expected `drei` at line 3, found `three`; "
            "hunk 1 applies with fuzz 1 at line 1: refresh it\n\n"
            "hint: run 'patchstack refresh DIR' with the same --patches and --pin to write copies that need no fuzz\n",
        ),
        (
            {"0001-a.patch": edited("src/kernel.cu", "@@ -40,0 +41 @@\n+new\n")},
            "  - 0001-a.patch: src/kernel.cu: @@ -40,0 +41 @@ has no context, so git apply puts its lines at the end",
        ),
        ({"0001-a.patch": b"no diff\n"}, "  - 0001-a.patch: there is no diff in it\n"),
    ],
    ids=["fuzz", "no context", "no diff"],
)
def test_what_cannot_be_adopted_leaves_nothing_behind(
    fork: Fork, run: Adopting, files: dict[str, bytes], told: str
) -> None:
    before = snapshot(fork.upstream.path)
    ran = adopt(run, fork, write_series(fork.series.parent / "s", files))
    assert ran.code == 1
    assert told in ran.stderr
    assert snapshot(fork.upstream.path) == before
    assert list(Path.cwd().iterdir()) == []


def test_a_branch_that_is_elsewhere_and_a_directory_in_use_are_refused(fork: Fork, run: Adopting) -> None:
    fork.upstream.git("branch", "debian", fork.pin)
    ran = adopt(run, fork, quilt(fork))
    assert ran.code == 2
    assert "cannot create branch debian: " in ran.stderr
    assert ran.stderr.endswith("hint: choose a different name with --fork-ref NAME\n")
    write_series(Path("patches/debian"), {"README": b"x"})
    ran = adopt(run, fork, quilt(fork))
    assert ran.code == 2
    assert ran.stderr.endswith("hint: choose a different name for the series and its directory with --name NAME\n")


@pytest.mark.parametrize("after", ["objects", "branch", "mirror"])
def test_a_killed_run_is_finished_by_the_same_command(
    fork: Fork, run: Adopting, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    patches = quilt(fork)
    fork.upstream.git("branch", "unconcerned")
    step = {"objects": (adopting, "read_fork"), "branch": (adopting, "carry_out"), "mirror": (write, "add_series")}
    with monkeypatch.context() as patched:
        owner, name = step[after]
        patched.setattr(owner, name, killed)
        assert adopt(run, fork, patches).code == 130
    assert Path("patches/debian").exists() == (after == "mirror")
    assert not Path("patchstack.yaml").exists()
    again = adopt(run, fork, patches)
    assert again.code == 0, again
    left = contents(Path.cwd())
    shutil.rmtree("patches")
    Path("patchstack.yaml").unlink()
    fork.upstream.git("branch", "-D", "debian")
    assert adopt(run, fork, patches).stdout == again.stdout
    assert contents(Path.cwd()) == left


def contents(directory: Path) -> dict[Path, bytes]:
    """Return every file below a directory."""
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("changed", ["file", "patches", "branch", "lock"])
def test_a_mirror_of_anything_else_is_never_taken_for_a_killed_run_s(fork: Fork, run: Adopting, changed: str) -> None:
    patches = quilt(fork)
    assert adopt(run, fork, patches).code == 0
    Path("patchstack.yaml").unlink()
    mirror = Path("patches/debian")
    options: list[str] = []
    if changed == "file":
        one = next(mirror.glob("*.patch"))
        one.write_bytes(one.read_bytes().replace(b"zero", b"ZERO"))
    elif changed == "patches":
        (patches / "zero").write_bytes(DEP3.replace(b"Say zero first", b"Say nought first"))
        fork.upstream.git("branch", "-D", "debian")
    elif changed == "branch":
        options = ["--fork-ref", "other"]
    else:
        (mirror / "series.lock").write_bytes(b"nothing of ours")
    before = snapshot(Path.cwd())
    branches = fork.upstream.git("branch", "--list")
    ran = adopt(run, fork, patches, *options)
    assert ran.stdout == ""
    assert ran.code == 2
    assert ran.stderr == (
        "error: patches/debian already exists\n\n"
        "hint: choose a different name for the series and its directory with --name NAME\n"
    )
    assert snapshot(Path.cwd()) == before
    assert fork.upstream.git("branch", "--list") == branches


def test_a_path_that_patches_may_not_touch_is_adopted_with_a_waiver(fork: Fork, run: Adopting) -> None:
    patches = write_series(
        fork.series.parent / "s", {"0001-a.patch": new_file("a.txt"), "0002-b.patch": new_file("NOTES.md")}
    )
    ran = adopt(run, fork, patches)
    assert ran.code == 0, ran.told
    assert "note: patchstack.yaml waives the rule paths for 1 patch: they are adopted unchanged\n" in ran.stderr
    assert "rule: paths\n      patch: 2\n      why: adopted unchanged\n" in Path("patchstack.yaml").read_text()
    assert run("export").code == 0


def test_a_description_that_looks_like_a_diff_stays_a_description(fork: Fork, run: Adopting) -> None:
    shown = b" --- a/docs/notes.txt\n +++ b/docs/notes.txt\n @@ -1 +1 @@\n -one\n +eins\n"
    data = DEP3.replace(b" It was left out.\n", shown)
    ran = adopt(run, fork, write_series(fork.series.parent / "s", {"0001-a.patch": data}))
    assert ran.code == 0, ran.told
    assert "    --- a/docs/notes.txt\n" in fork.upstream.git("log", "-1", "--format=%b", "s")


def test_lines_that_git_leaves_out_are_told(fork: Fork, run: Adopting) -> None:
    data = edited("docs/notes.txt", "@@ -1,3 +1,4 @@\n+zero\n one\n two\n three\n+lost\n")
    ran = adopt(run, fork, write_series(fork.series.parent / "s", {"0001-a.patch": data}))
    assert ran.code == 0
    assert "warning: 0001-a.patch: line 9: `+lost` is more than @@ -1,3 +1,4 @@ counts: git ignores it\n" in ran.stderr


def test_options_that_do_not_go_together_are_told(fork: Fork, run: Adopting) -> None:
    assert run("init", "--adopt", fork.upstream.path, "--pin", fork.pin).code == 2
    assert run("init", "--patches", fork.series, "--adopt", fork.upstream.path).code == 2
    assert run("init", "--patches", fork.series, "--adopt", "https://example.com/x.git", "--pin", fork.pin).code == 2
    assert run("init", "--patches", fork.series, "--upstream", "x", "--pin", fork.pin, "-p", "0").code == 2
