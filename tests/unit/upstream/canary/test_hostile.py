"""Invalid and hostile patches: canary gives each a state, and the others keep theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import hostile_patches as family
from patchstack.git.objects import Objects
from patchstack.git.patch import effort, hunks
from patchstack.git.patch.effort import Effort
from patchstack.series.files.directory import load_series
from patchstack.upstream.canary import diagnose
from patchstack.upstream.canary.strict_chain import StrictChain
from patchstack.upstream.merge import patch_edits
from tests.conftest import RunCli
from tests.support.builders import RepoBuilder, edited, mail, new_file, new_link, write_series
from tests.support.moving import Steps, kernel, look, moved, told_by_git
from tests.support.oracle import Oracle, objects_of

ODD = {
    "empty": (b"", "malformed"),
    "no diff": (b"Subject: [PATCH] words\n\nonly words\n", "malformed"),
    "cut short": (mail("Cut", edited("src/kernel.cu", "@@ -1,3 +1,3 @@\n line 1\n")), "malformed"),
    "out of the tree": (mail("Out", new_file("../out")), "unsafe"),
    "into .git": (mail("Git", new_file(".git/hooks/post-checkout")), "unsafe"),
    "bytes that are not text": (b"\xff\xfe\0\0" * 30, "malformed"),
    "context-free": (mail("Bare", edited("src/kernel.cu", "@@ -10,0 +11 @@\n+x\n")), "offset"),
    "a link": (mail("Link", new_link("to", "/etc/passwd")), "clean"),
    "a file below a file": (mail("Below", new_file("README/below")), "conflict"),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_patch_between_others_gets_its_state(name: str, tmp_path: Path, run_cli: RunCli) -> None:
    data, strict = ODD[name]
    fork = moved(tmp_path, None, ("Ten (#1)", kernel(l10="u")), ("Notes", {"docs/notes.txt": "x\n"}))
    write_series(fork.series, {"0001-z-odd.patch": data})
    fork.patch(1).unlink()
    found = look(fork, run_cli, "--strict", "--blame", "--forecast")
    odd, *others = found["patches"]
    assert odd["file"] == "0001-z-odd.patch"
    assert odd["strict"] == strict, odd
    failed = [failed for _, failed in told_by_git(fork, tmp_path)]
    assert (odd["strict"] not in ("clean", "offset")) is (odd["file"] in failed[-1])
    assert [(one["state"], one["first_broken"]) for one in others] == [("clean", None)] * 2
    assert odd["first_broken"] is None or odd["first_broken"]["index"] == 0


def test_names_with_quotes_and_blanks_are_followed(tmp_path: Path, run_cli: RunCli) -> None:
    odd = 'src/a "b" ü.txt'
    fork = moved(
        tmp_path,
        (("Odd name", {odd: "one\ntwo\nthree\nfour\npatch\n"}),),
        ("Theirs (#2)", {odd: "one\ntwo\nthree\nfour\nupstream\n"}),
        files={odd: "one\ntwo\nthree\nfour\nfive\n", "README": "x\n"},
    )
    (patch,) = look(fork, run_cli, "--strict", "--blame")["patches"]
    assert (patch["state"], patch["first_broken"]["pr"]) == ("conflict", 2)


COSTLY = {
    "hunks at one place": family.hunks_at_one_place(150),
    "many hunks": family.many_hunks(200),
    "backwards": family.hunks_backwards(200),
    "far away": family.hunks_far_away(10),
    "a near match": family.near_match(20_000, 300),
    "a large file": family.new_large_file(120_000),
    "renames": family.renames(100),
    "twice": family.one_path_twice(100),
}


@pytest.mark.parametrize("most", [effort.MOST_HUNKS, 0], ids=["analysed", "not analysed"])
@pytest.mark.parametrize("name", COSTLY)
def test_a_costly_patch_applies_where_git_applies_it(
    name: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effort, "MOST_HUNKS", most)
    case = COSTLY[name]
    repo = RepoBuilder(tmp_path / "repo")
    repo.commit("The pin", dict(case.files))
    repo.commit("Moved", {path: b"moved\n" + text for path, text in list(case.files.items())[:20]})
    trees = [repo.git("rev-parse", f"{commit}^{{tree}}") for commit in ("HEAD~1", "HEAD")]
    (data,) = case.patches
    write_series(tmp_path / "series", {"0001-costly.patch": data})
    oracle = Oracle(tmp_path / "oracle", objects_of(repo.path))
    objects = Objects()
    objects.add_directory(objects_of(repo.path), "repo")
    with StrictChain(objects, load_series(tmp_path / "series").patches) as chain:
        found = [chain.run(tree).applied for tree in trees]
    assert found == [(oracle.apply(tree, data) is not None,) for tree in trees]


def test_paths_that_are_changed_twice_are_all_known(tmp_path: Path) -> None:
    case = family.one_path_twice(2600)
    repo = RepoBuilder(tmp_path / "repo")
    pin = repo.commit("The pin", dict(case.files))
    write_series(tmp_path / "series", {"0001-twice.patch": case.patches[0]})
    objects = Objects()
    objects.add_directory(objects_of(repo.path), "repo")
    with StrictChain(objects, load_series(tmp_path / "series").patches) as chain:
        assert chain.run(repo.git("rev-parse", f"{pin}^{{tree}}")).applied == (True,)
        (changes,) = chain.journal(repo.git("rev-parse", f"{pin}^{{tree}}"))
    assert changes is not None and len(changes) == 2600


def test_a_patch_too_large_to_analyse_has_a_state_and_breaks_no_other(
    tmp_path: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: Steps = (("One", kernel(l10="ours")), ("Two", {"README": "ours\n"}), ("Three", kernel(l10="ours", l50="o")))
    theirs = (("Far away (#1)", kernel(l250="theirs")), ("At the line (#2)", kernel(l10="theirs", l250="theirs")))
    fork = moved(tmp_path, steps, *theirs)
    expected = look(fork, run_cli, "--blame")["patches"]
    assert [patch["first_broken"] and patch["first_broken"]["pr"] for patch in expected] == [2, None, None]
    monkeypatch.setattr(effort, "MOST_HUNKS", 0)
    found = look(fork, run_cli, "--blame")["patches"]
    # Its lines are not compared: it merges only where upstream left the file alone.
    assert [patch["first_broken"] and patch["first_broken"]["pr"] for patch in found] == [1, None, 1]
    strict = [patch["strict"] for patch in expected]
    assert [patch["strict"] for patch in found] == strict
    assert [patch["threeway"] for patch in found] == ["conflict", "clean", "conflict"]
    told = look(fork, run_cli, "--blame", "--strict")["patches"]
    assert [patch["first_broken"] and patch["first_broken"]["pr"] for patch in told] == [2, None, None]


def test_without_work_left_only_the_file_of_a_failure_is_named(
    tmp_path: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork = moved(tmp_path, (("One", kernel(l10="ours")),), ("At the line (#1)", kernel(l10="theirs")))
    (expected,) = look(fork, run_cli, "--blame")["patches"]
    assert "hunk 1 (@@ -7,7 +7,7 @@): expected `line 10`" in expected["detail"]
    monkeypatch.setattr(diagnose, "REASONS", -(10**12))
    monkeypatch.setattr(hunks, "A_FILE_LINE", 0)
    monkeypatch.setattr(hunks, "A_PATCH_LINE", 0)
    (found,) = look(fork, run_cli, "--blame")["patches"]
    assert (found["state"], found["first_broken"]["pr"]) == (expected["state"], 1)
    told = "src/kernel.cu: its hunks do not match together (finding the place is too costly)"
    assert found["detail"].startswith(told)


def test_costly_patches_share_one_pool() -> None:
    pool = effort.Pool(100)
    first, second = effort.PooledEffort(10, pool), effort.PooledEffort(10, pool)
    first.spend(60)
    second.spend(60)
    assert pool.left == 0
    with pytest.raises(effort.TooCostly):
        effort.PooledEffort(10, pool).spend(11)
    effort.PooledEffort(10, effort.Pool(0)).spend(10)


def test_a_patch_too_costly_to_compare_merges_only_where_upstream_left_its_file_alone(
    tmp_path: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: Steps = (("One", kernel(l10="ours")), ("Two", {"README": "ours\n"}))
    fork = moved(tmp_path, steps, ("Far away (#1)", kernel(l250="theirs")))
    assert [patch["threeway"] for patch in look(fork, run_cli)["patches"]] == ["clean", "clean"]
    monkeypatch.setattr(patch_edits, "effort_for", lambda *_: Effort(-1))
    found = look(fork, run_cli)["patches"]
    assert [(patch["strict"], patch["threeway"]) for patch in found] == [("clean", "conflict"), ("clean", "clean")]
