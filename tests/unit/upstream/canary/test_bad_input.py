"""Canary's errors for an unusable upstream: no traceback, and a hint."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.conftest import RunCli
from tests.support.builders import Fork, RepoBuilder, run_git, write_series
from tests.support.moving import asked, kernel, look, moved, states


def three(directory: Path) -> Fork:
    return moved(directory, None, ("One (#1)", kernel(l10="u")), ("Two", {"docs/notes.txt": "x\n"}))


def test_the_pin_itself_is_an_upstream_that_has_not_moved(tmp_path: Path, run_cli: RunCli) -> None:
    fork = three(tmp_path)
    found = look(fork, run_cli, "--to", fork.pin, "--blame", "--strict")
    assert (found["commits"], found["applies"], states(found)) == (0, True, ["clean"] * 3)
    assert [patch["first_broken"] for patch in found["patches"]] == [None] * 3
    assert f"({fork.pin[:12]}), the pin itself: 3 of 3" in asked(fork, run_cli, "--to", fork.pin).stdout


def test_a_ref_older_than_the_pin_is_refused(tmp_path: Path, run_cli: RunCli) -> None:
    fork = three(tmp_path)
    ran = asked(fork, run_cli, "--to", f"{fork.pin}~1")
    assert ran.code == 2
    assert f"is older than the pin {fork.pin[:12]}\n\nhint: name a commit that came after the pin" in ran.stderr


def test_a_rewritten_upstream_is_told_with_the_commit_at_which_it_parts(tmp_path: Path, run_cli: RunCli) -> None:
    fork = three(tmp_path)
    begin = fork.upstream.parent(fork.pin)
    fork.upstream.branch("main", begin)
    fork.upstream.commit("Rewritten", kernel())
    ran = asked(fork, run_cli)
    assert ran.code == 2
    told = f"does not descend from the pin {fork.pin[:12]}: they diverge at {begin[:12]} (Begin)"
    assert told in ran.stderr
    assert "upstream may have been rewritten" in ran.stderr


def test_a_branch_of_another_project_is_told_to_have_nothing_in_common(tmp_path: Path, run_cli: RunCli) -> None:
    fork = three(tmp_path)
    (tmp_path / "other").mkdir()
    other = RepoBuilder(tmp_path / "other" / "repo")
    other.commit("Alien", {"x": "x\n"})
    fork.upstream.git("fetch", "-q", other.path, "main:refs/heads/alien")
    ran = asked(fork, run_cli, "--to", "alien")
    assert ran.code == 2
    assert "they have no common ancestor" in ran.stderr


def test_a_ref_that_is_not_there_is_missing(tmp_path: Path, run_cli: RunCli) -> None:
    ran = asked(three(tmp_path), run_cli, "--to", "nowhere")
    assert ran.code == 3
    assert "error: --to nowhere is not in " in ran.stderr


def test_without_a_ref_it_is_the_newest_that_the_clone_knows_of_its_upstream(tmp_path: Path, run_cli: RunCli) -> None:
    fork = three(tmp_path)
    clone = tmp_path / "clone"
    run_git("clone", "-q", "--template=", fork.upstream.path, clone, cwd=tmp_path)
    run_git("switch", "-q", "--detach", fork.pin, cwd=clone)
    ran = run_cli("canary", "--patches", fork.series, "--upstream", clone, "--pin", fork.pin, "--json")
    assert ran.document["upstream"] == {
        "repository": str(clone),
        "ref": "origin/HEAD",
        "commit": fork.upstream.head(),
        "tree": fork.upstream.tree("main"),
    }


def shallow(fork: Fork, directory: Path, depth: int) -> Path:
    """Return a shallow clone of upstream that also has the pin, but no commit between."""
    clone = directory / "shallow"
    url = fork.upstream.path.as_uri()
    run_git("clone", "-q", "--template=", "--bare", f"--depth={depth}", url, clone, cwd=directory)
    run_git("fetch", "-q", "--depth=1", url, fork.pin, cwd=clone)
    return clone


def test_a_shallow_clone_without_the_range_is_completed_in_our_cache(tmp_path: Path, run_cli: RunCli) -> None:
    fork = three(tmp_path)
    clone = shallow(fork, tmp_path, 1)
    ran = run_cli("canary", "--patches", fork.series, "--upstream", clone, "--pin", fork.pin, "--to", "main", "--json")
    assert ran.code == 1, ran
    assert ran.document["commits"] == 2
    assert states(ran.document) == ["conflict", "clean", "clean"]


def test_a_shallow_clone_offline_says_what_to_fetch(tmp_path: Path, run_cli: RunCli) -> None:
    fork = three(tmp_path)
    clone = shallow(fork, tmp_path, 1)
    options = ["--patches", fork.series, "--upstream", clone, "--pin", fork.pin, "--to", "main"]
    ran = run_cli("canary", *options, "--offline")
    assert ran.code == 3
    assert f"{clone} is shallow: it lacks commits between the pin {fork.pin[:12]} and main" in ran.stderr
    assert f"hint: run 'git -C {clone} fetch --deepen=1000', or use --unshallow" in ran.stderr


def test_a_shallow_clone_whose_source_is_gone_says_what_failed_and_what_to_fetch(
    tmp_path: Path, run_cli: RunCli
) -> None:
    fork = three(tmp_path)
    clone = shallow(fork, tmp_path, 1)
    shutil.rmtree(fork.upstream.path)
    ran = run_cli("canary", "--patches", fork.series, "--upstream", clone, "--pin", fork.pin, "--to", "main")
    assert ran.code == 3
    assert "is shallow: it lacks commits" in ran.stderr and "could not be fetched" in ran.stderr
    assert "hint: run 'git -C " in ran.stderr


def test_an_upstream_by_url_is_fetched_into_the_cache_and_later_used_offline(tmp_path: Path, run_cli: RunCli) -> None:
    fork = three(tmp_path)
    options = ["--patches", fork.series, "--upstream", fork.upstream.path.as_uri(), "--pin", fork.pin, "--to", "main"]
    ran = run_cli("canary", *options, "--json", "--blame", "--strict")
    assert (ran.code, states(ran.document)) == (1, ["conflict", "clean", "clean"])
    assert ran.document["patches"][0]["first_broken"]["pr"] == 1
    shutil.rmtree(fork.upstream.path)
    again = run_cli("canary", *options, "--json", "--blame", "--strict", "--offline")
    assert again.document == ran.document
    lost = run_cli("canary", *options)
    assert lost.code == 3
    assert "error: ref main could not be fetched from file://" in lost.stderr


def test_contents_that_get_lost_on_the_way_are_named(tmp_path: Path, run_cli: RunCli) -> None:
    fork = three(tmp_path)
    blob = fork.upstream.blob("main", "src/kernel.cu")
    fork.upstream.loose(blob).unlink()
    ran = asked(fork, run_cli)
    assert ran.code == 3
    assert f"blob of src/kernel.cu {blob} is not in " in ran.stderr or f"{blob} is not in " in ran.stderr


def test_an_empty_series_is_no_success(tmp_path: Path, run_cli: RunCli) -> None:
    fork = three(tmp_path)
    empty = write_series(tmp_path / "empty", {})
    ran = run_cli("canary", "--patches", empty, "--upstream", fork.upstream.path, "--pin", fork.pin)
    assert ran.code == 2
    assert "there are no patches in " in ran.stderr


def test_options_that_need_others_say_so(tmp_path: Path, run_cli: RunCli) -> None:
    fork = three(tmp_path)
    for options, told in (
        (["--strict"], "error: --strict needs --blame"),
        (["--svg", "x.svg"], "error: --svg needs --forecast"),
        (["--forecast", "--days", "0"], "error: --days 0 is not a positive number of days"),
    ):
        ran = asked(fork, run_cli, *options)
        assert ran.code == 2 and told in ran.stderr


def test_a_merge_of_upstream_is_one_commit_of_its_main_line(tmp_path: Path, run_cli: RunCli) -> None:
    fork = three(tmp_path)
    main = fork.upstream.head()
    fork.upstream.branch("side", main)
    side = fork.upstream.commit("On the side", kernel(l10="u", l20="side"))
    fork.upstream.branch("main", main)
    fork.upstream.commit("Meanwhile", {"docs/notes.txt": "y\n"})
    merge = fork.upstream.merge("Merge the side (#4)", side)
    found = look(fork, run_cli, "--strict", "--blame")
    listed = fork.upstream.git("rev-list", "--reverse", "--first-parent", f"{fork.pin}..main").split()
    second = found["patches"][1]["first_broken"]
    assert (found["commits"], second["index"], second["commit"]) == (len(listed), listed.index(merge), merge)
