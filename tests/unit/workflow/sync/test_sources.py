"""Inputs of a sync: forks with merges, series without a fork, anchored patches; and refused ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import Patchstack
from tests.support.builders import a_fork, numbered, run_git
from tests.support.syncing import Moved, fates, kernel, moved, of

Printed = pytest.CaptureFixture[str]


def test_a_fork_with_merges_is_made_linear(tmp_path: Path, patchstack: Patchstack, capsys: Printed) -> None:
    found = moved(tmp_path, patchstack, 2)
    fork = found.fork.repo
    fork.branch("topic", found.fork.commits[0])
    topic = fork.commit("On a topic", {"src/topic.cpp": "topic\n"})
    fork.branch("product", found.fork.commits[-1])
    merge = fork.merge("Merge topic", topic)
    fork.commit("After the merge", {"src/after.cpp": "after\n"})
    found.upstream("Elsewhere", {"src/other.cpp": numbered(41)})
    capsys.readouterr()
    assert patchstack("sync", "--to", "main", "--worktree", "work", "--json") == 0
    printed = capsys.readouterr()
    assert f"note: merge {merge[:12]} (Merge topic) is omitted\n" in printed.err
    document = json.loads(printed.out)
    assert [patch["number"] for patch in document["patches"]].count(None) == 2
    assert sorted(found.lines()) == sorted(
        ["Change 1 of a kernel", "Change 2 of a kernel", "On a topic", "After the merge"]
    )
    assert found.git("rev-list", "--merges", "--count", "HEAD") == "0"
    assert found.git("diff", "--name-only", fork.head(), "HEAD") == "src/other.cpp"
    capsys.readouterr()
    assert patchstack("sync", "--drop", "99", "--why", "x") == 2
    assert "error: no such patch: 99\n\nhint: the patches are 0001, " in capsys.readouterr().err
    assert patchstack("sync", "--drop", topic[:10], "--why", "a commit without a patch goes by its id") == 0
    assert patchstack("sync", "--accept") == 0
    assert patchstack("verify") == 0
    assert "On a topic" not in fork.git("log", "--format=%s", found.settings.read_text().split()[-1])


def test_what_a_merge_itself_changed_is_told(tmp_path: Path, patchstack: Patchstack, capsys: Printed) -> None:
    found = moved(tmp_path, patchstack, 1)
    fork = found.fork.repo
    fork.branch("topic", found.fork.pin)
    topic = fork.commit("On a topic", {"src/kernel.cu": kernel({10: "topic's"})})
    run_git("checkout", "-q", "product", cwd=fork.path)
    run_git("merge", "-q", topic, cwd=fork.path, check=False)
    (fork.path / "src/kernel.cu").write_text(kernel({10: "both"}))
    run_git("commit", "-q", "-a", "-m", "Merge topic by hand", cwd=fork.path)
    found.upstream("Elsewhere", {"src/other.cpp": numbered(41)})
    capsys.readouterr()
    patchstack("sync", "--to", "main", "--worktree", "work")
    assert "is omitted; its own changes are lost: src/kernel.cu" in capsys.readouterr().err


def without_fork(found: Moved) -> None:
    lines = found.settings.read_text().splitlines(keepends=True)
    found.settings.write_text("".join(line for line in lines if "fork" not in line))


@pytest.mark.parametrize("lock", [True, False])
def test_a_series_without_a_fork_gets_the_commits_of_its_lock_or_mails(
    tmp_path: Path, patchstack: Patchstack, capsys: Printed, lock: bool
) -> None:
    found = moved(tmp_path, patchstack)
    without_fork(found)
    if not lock:
        (found.fork.series / "series.lock").unlink()
    to = found.upstream("Nearby", {"src/kernel.cu": kernel({12: "upstream's"})})
    capsys.readouterr()
    assert patchstack("sync", "--to", "main", "--worktree", "work", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert fates(document) == ["context only", "unchanged", "unchanged"]
    assert [patch["number"] for patch in document["patches"]] == [1, 2, 3]
    if lock:
        assert [patch["commit"] for patch in document["patches"]] == found.fork.commits
    assert found.git("show", "HEAD:src/kernel.cu") + "\n" == kernel({12: "upstream's"}, of(1, 2, 3))
    shutil.move(found.root / "fork", found.root / "gone")
    assert patchstack("sync", "--accept") == 0
    printed = capsys.readouterr()
    assert "it can be the fork of the workspace" in printed.err
    assert found.work.is_dir() and f"pin: {to}" in found.settings.read_text()
    assert patchstack("verify") == 0


def test_anchored_patches_go_over_from_their_blobs(tmp_path: Path, patchstack: Patchstack) -> None:
    found = moved(tmp_path, patchstack, extra="    form: anchored\n")
    assert [path.suffix for path in found.fork.series.glob("0*")] == [".anchored"] * 3
    found.upstream("Above it all", {"src/kernel.cu": "above\n" + kernel()})
    assert patchstack("sync", "--to", "main", "--worktree", "work") == 0
    assert found.git("show", "HEAD:src/kernel.cu") + "\n" == "above\n" + kernel(of(1, 2, 3))
    assert patchstack("sync", "--accept") == 0
    assert [path.suffix for path in found.fork.series.glob("0*")] == [".anchored"] * 3
    assert patchstack("verify") == 0


def test_an_anchored_series_without_fork_and_lock_goes_over_too(tmp_path: Path, patchstack: Patchstack) -> None:
    found = moved(tmp_path, patchstack, extra="    form: anchored\n")
    without_fork(found)
    (found.fork.series / "series.lock").unlink()
    found.upstream("Above it all", {"src/kernel.cu": "above\n" + kernel()})
    assert patchstack("sync", "--to", "main", "--worktree", "work") == 0
    assert found.git("show", "HEAD:src/kernel.cu") + "\n" == "above\n" + kernel(of(1, 2, 3))


def test_upstream_by_url_is_fetched_into_the_cache(tmp_path: Path, patchstack: Patchstack) -> None:
    found = moved(tmp_path, patchstack)
    upstream = found.fork.upstream
    for name in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        upstream.git("config", name, "true")
    text = found.settings.read_text().replace("upstream: upstream", f"upstream: file://{upstream.path}")
    found.settings.write_text(text)
    found.upstream("Elsewhere", {"src/other.cpp": numbered(41)})
    to = found.upstream("Nearby", {"src/kernel.cu": kernel({12: "upstream's"})})
    assert patchstack("sync", "--to", "main", "--worktree", "work") == 0
    assert found.git("show", "HEAD:src/kernel.cu") + "\n" == kernel({12: "upstream's"}, of(1, 2, 3))
    assert found.git("status", "--porcelain") == ""
    assert patchstack("sync", "--accept") == 0
    assert f"pin: {to}" in found.settings.read_text()
    assert patchstack("verify") == 0


def test_the_default_place_is_beside_the_workspace(tmp_path: Path, patchstack: Patchstack, capsys: Printed) -> None:
    (tmp_path / "ws").mkdir()
    found = moved(tmp_path / "ws", lambda *args: patchstack(*args, "--workspace", "ws/patchstack.yaml"))
    to = found.upstream("Elsewhere", {"src/other.cpp": numbered(41)})
    capsys.readouterr()
    assert patchstack("sync", "--to", "main", "--workspace", "ws/patchstack.yaml") == 0
    place = tmp_path / f"ws-product-sync-{to[:9]}"
    assert f"working in {place}" in capsys.readouterr().err
    assert (place / ".git").is_dir()


def test_a_second_sync_names_its_branch_after_the_fork_not_after_the_first(
    tmp_path: Path, patchstack: Patchstack
) -> None:
    found = moved(tmp_path, patchstack)
    for subject in ("One", "Two"):
        to = found.upstream(subject, {"src/other.cpp": f"{subject}\n"})
        assert patchstack("sync", "--to", "main", "--worktree", "work") == 0
        assert patchstack("sync", "--accept") == 0
        assert f"fork_ref: product-sync-{to[:9]}\n" in found.settings.read_text()
    assert patchstack("verify") == 0


def refused(patchstack: Patchstack, capsys: Printed, code: int, *options: str) -> str:
    capsys.readouterr()
    assert patchstack("sync", *options) == code
    return capsys.readouterr().err


def test_a_target_that_does_not_descend_from_the_pin_is_refused(
    tmp_path: Path, patchstack: Patchstack, capsys: Printed
) -> None:
    found = moved(tmp_path, patchstack)
    upstream = found.fork.upstream
    older = upstream.parent(found.fork.pin)
    assert "is older than the pin" in refused(patchstack, capsys, 2, "--to", older)
    upstream.branch("rewritten", older)
    upstream.commit("History is written anew", {"x": "x\n"})
    assert "does not descend from the pin" in refused(patchstack, capsys, 2, "--to", "rewritten")
    assert "--to nowhere is not in ./upstream" in refused(patchstack, capsys, 3, "--to", "nowhere")
    assert not (tmp_path / ".patchstack").exists()


def test_a_shallow_upstream_is_told_to_be_deepened(tmp_path: Path, patchstack: Patchstack, capsys: Printed) -> None:
    found = moved(tmp_path, patchstack)
    for number in range(3):
        found.upstream(f"Upstream {number}", {"src/other.cpp": f"{number}\n"})
    url = f"file://{found.fork.upstream.path}"
    run_git("clone", "-q", "--depth=1", url, "shallow", cwd=tmp_path)
    run_git("fetch", "-q", "--depth=1", "origin", found.fork.pin, cwd=tmp_path / "shallow")
    found.settings.write_text(found.settings.read_text().replace("upstream: upstream", "upstream: shallow"))
    told = refused(patchstack, capsys, 3, "--to", "main")
    assert "shallow" in told and "git -C ./shallow fetch --deepen=1000" in told


def test_a_series_that_does_not_hold_is_refused(tmp_path: Path, patchstack: Patchstack, capsys: Printed) -> None:
    found = moved(tmp_path, patchstack)
    found.upstream("Elsewhere", {"src/other.cpp": numbered(41)})
    found.fork.edit_patch(2, "changed by commit 2", "changed by hand")
    told = refused(patchstack, capsys, 1, "--to", "main")
    assert "error: product does not hold on the old pin: 0002-" in told
    assert "run 'patchstack verify product', and fix the problem" in told


def test_names_that_are_taken_are_refused(tmp_path: Path, patchstack: Patchstack, capsys: Printed) -> None:
    found = moved(tmp_path, patchstack)
    found.upstream("Elsewhere", {"src/other.cpp": numbered(41)})
    found.work.mkdir()
    (found.work / "mine").write_text("mine\n")
    told = refused(patchstack, capsys, 2, "--to", "main", "--worktree", "work")
    assert f"error: {found.work} already exists\n\nhint: name a directory that does not exist: --worktree DIR" in told
    told = refused(patchstack, capsys, 2, "--to", "main", "--worktree", "new", "--branch", "product")
    assert "error: the fork ./fork already has a branch product\n\nhint: use --branch NAME" in told
    told = refused(patchstack, capsys, 2, "--to", "main", "--branch", "no..name")
    assert "error: 'no..name' is not a valid branch name" in told
    assert (found.work / "mine").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--continue", "--skip"), "--continue and --skip cannot be used together"),
        (("--drop", "2"), "--drop and --why must be used together"),
        (("--drop", "2", "--why", " "), "--drop and --why must be used together"),
        (("--continue", "--branch", "x"), "--worktree and --branch require --to"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path, patchstack: Patchstack, capsys: Printed, options: tuple[str, ...], complaint: str
) -> None:
    moved(tmp_path, patchstack, 1)
    assert complaint in refused(patchstack, capsys, 2, *options)


def test_a_bad_policy_is_named_by_its_line(tmp_path: Path, patchstack: Patchstack, capsys: Printed) -> None:
    moved(tmp_path, lambda *args: 0, 1, extra='    sync: {require: ["\'", [], {a: b}, 3], pin: x}\n')
    told = refused(patchstack, capsys, 2, "--to", "main")
    for text in ("No closing quotation", "a list is not a command", "a mapping is not a command", "3 is not a command"):
        assert text in told, told
    assert "sync.pin: unknown key" in told


def test_two_series_need_a_name(tmp_path: Path, patchstack: Patchstack, capsys: Printed) -> None:
    fork = a_fork(tmp_path)
    one = (
        f"    patches: patches\n    upstream: upstream\n    pin: {fork.pin}\n    fork: fork\n    fork_ref: {fork.ref}\n"
    )
    (tmp_path / "patchstack.yaml").write_text(f"series:\n  one:\n{one}  two:\n{one}")
    assert "name one of one, two" in refused(patchstack, capsys, 2, "--to", "main")
