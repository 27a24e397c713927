"""`patchstack bisect`: the first patch, or upstream commit, that makes a command fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Patchstack, RunCli
from tests.support.builders import Fork, a_fork, kernel_steps, numbered

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    """Return eight patches; the fifth adds a file that the command searches for."""
    steps = [(s, {**c, "src/bad.h": "x\n"} if s.startswith("Change 5") else c) for s, c in kernel_steps(range(1, 9))]
    return a_fork(tmp_path, steps=steps)


BAD_FROM_5 = "test ! -e src/bad.h"


def said(document: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["said"] for one in document["log"]}


def test_the_patch_that_makes_a_command_fail_is_found(fork: Fork, run_cli: RunCli) -> None:
    ran = run_cli("bisect", *fork.sources, "--run", BAD_FROM_5)
    assert ran.code == 0, ran
    assert ran.stdout == "first bad: 0005 Change 5 of a kernel (5 of 9 tried); 0004 is good\n"
    lines = ran.stderr.splitlines()
    assert lines[0] == f"patches, 8 patches on {fork.pin[:12]}"
    assert lines[1].startswith("bad   0008  Change 8 of a kernel (exit 1, ")
    assert lines[2].startswith("good  the pin  Add the kernel (exit 0, ")


def test_the_document_has_the_log_of_all_that_was_tried(fork: Fork, run_cli: RunCli) -> None:
    document = run_cli(
        "bisect", *fork.sources, "--run", f"sh -c 'echo $PATCHSTACK_POINT; {BAD_FROM_5}'", "--json"
    ).document
    assert (document["schema"], document["over"], document["points"]) == ("patchstack.bisect/1", "series", 9)
    assert (document["ending"], document["turns_back"]) == ("first-bad", None)
    assert document["first_bad"] == {"name": "0005", "subject": "Change 5 of a kernel", "number": 5, "commit": None}
    assert said(document) == {"0008": "bad", "the pin": "good", "0004": "good", "0006": "bad", "0005": "bad"}
    for one in document["log"]:
        assert Path(one["log"]).read_text() == f"{one['name']}\n"
        assert one["code"] == (1 if one["said"] == "bad" else 0)


def test_every_tree_is_the_one_git_has(fork: Fork, run_cli: RunCli, tmp_path_factory: pytest.TempPathFactory) -> None:
    seen = tmp_path_factory.mktemp("seen")
    script = f'mkdir {seen}/"$PATCHSTACK_POINT" && cp -r . {seen}/"$PATCHSTACK_POINT" && {BAD_FROM_5}'
    run_cli("bisect", *fork.sources, "--run", f"sh -c '{script}'")
    assert len(list(seen.iterdir())) == 5
    for directory in seen.iterdir():
        commit = fork.pin if directory.name == "the pin" else fork.commits[int(directory.name) - 1]
        listed = fork.repo.git("ls-tree", "-r", "--name-only", commit).splitlines()
        assert sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()) == listed
        for path in listed:
            if not path.endswith(".gguf"):
                assert (directory / path).read_text().strip() == fork.repo.git("show", f"{commit}:{path}").strip()


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("true", 1, "true does not fail at 0008 (Change 8 of a kernel): there is nothing to find"),
        ("false", 1, "false fails at the pin (Add the kernel) already: no later point is the cause"),
        ("sh -c 'exit 125'", 4, "0008 (Change 8 of a kernel) is an end of the range and was skipped"),
        ("sh -c 'exit 127'", 1, "fails at the pin"),
        (f"sh -c '{BAD_FROM_5} || exit 124'", 0, "first bad: 0005"),
    ],
)
def test_exit_codes_are_gits(fork: Fork, run_cli: RunCli, command: str, code: int, told: str) -> None:
    ran = run_cli("bisect", *fork.sources, "--run", command)
    assert (ran.code, told in ran.stdout) == (code, True), ran


@pytest.mark.parametrize(
    ("script", "how"),
    [("exit 128", "exited with 128"), ("exit 255", "exited with 255"), ("kill -9 $$", "was killed by signal 9")],
)
def test_128_and_signals_end_the_search(fork: Fork, run_cli: RunCli, script: str, how: str) -> None:
    ran = run_cli("bisect", *fork.sources, "--run", f"sh -c '{script}'")
    assert ran.code == 4
    assert f"error: the search was aborted: the command {how} at 0008 (Change 8 of a kernel)" in ran.stderr


def test_where_all_between_was_skipped_none_is_named(fork: Fork, run_cli: RunCli) -> None:
    # The patches between the third and the sixth cannot be judged.
    script = 'n=$(grep -c "changed by" src/kernel.cu); test $n -lt 3 && exit 0; test $n -gt 5 && exit 1; exit 125'
    ran = run_cli("bisect", *fork.sources, "--run", f"sh -c '{script}'")
    assert ran.code == 4
    lines = ran.stdout.splitlines()
    assert lines[0] == "the first bad point is unknown (7 of 9 tried), because points were skipped. It is one of:"
    assert [line.split()[0] for line in lines[1:]] == ["0003", "0004", "0005", "0006"]


def test_good_and_bad_narrow_the_search(fork: Fork, run_cli: RunCli) -> None:
    document = run_cli("bisect", *fork.sources, "--run", BAD_FROM_5, "--good", "3", "--bad", "6", "--json").document
    assert document["first_bad"]["number"] == 5
    assert set(said(document)) <= {"0003", "0004", "0005", "0006"}
    ran = run_cli("bisect", *fork.sources, "--run", BAD_FROM_5, "--good", "6")
    assert ran.code == 1 and "fails at 0006 (Change 6 of a kernel) already" in ran.stdout
    ran = run_cli("bisect", *fork.sources, "--run", "true", "--good", "6", "--bad", "3")
    assert ran.code == 2 and "error: patch 6 is not before patch 3" in ran.stderr
    ran = run_cli("bisect", *fork.sources, "--run", "true", "--bad", "99")
    assert ran.code == 2 and "error: patches: no patch has number 99" in ran.stderr
    ran = run_cli("bisect", *fork.sources, "--run", "true", "--good", "8")
    assert ran.code == 2 and "error: patch 8 is not before patch 0008" in ran.stderr


def test_patches_of_one_number_are_told_apart_by_their_names(fork: Fork, run_cli: RunCli) -> None:
    for path in fork.patches:
        name = path.name.replace("0006-", "0005-x-")
        path.rename(path.with_name(name))
    sources = [*fork.sources, "--run", BAD_FROM_5]
    document = run_cli("bisect", *sources, "--good", "0004-Change-4", "--bad", "0005-x-Change-6", "--json").document
    assert document["first_bad"]["name"] == "0005-Change-5-of-a-kernel"
    assert set(said(document)) == {"0004", "0005-Change-5-of-a-kernel", "0005-x-Change-6-of-a-kernel"}
    ran = run_cli("bisect", *sources, "--bad", "5")
    assert ran.code == 2
    assert "error: patches: more than one patch has number 5" in ran.stderr
    assert "hint: use the name of the patch, for example 0005-Change-5-of-a-kernel" in ran.stderr
    ran = run_cli("bisect", *sources, "--bad", "0005-y")
    assert ran.code == 2 and "error: patches: no patch is named 0005-y" in ran.stderr


def test_a_command_that_says_one_thing_and_then_another_is_not_believed(
    fork: Fork, run_cli: RunCli, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ran = run_cli("bisect", *fork.sources, "--run", BAD_FROM_5, "--confirm")
    assert ran.code == 0 and ran.stderr.count("  0004  ") == ran.stderr.count("  0005  ") == 2
    count = tmp_path_factory.mktemp("count") / "runs"
    fickle = f"echo x >>{count}; test $(wc -l <{count}) -gt 5 && exit 0; {BAD_FROM_5}"
    ran = run_cli("bisect", *fork.sources, "--run", f"sh -c '{fickle}'", "--confirm")
    assert ran.code == 4
    assert "0005 (Change 5 of a kernel) was bad and is good now, so the command is not reliable" in ran.stderr


def test_a_program_is_found_from_here_or_in_the_tree(fork: Fork, run_cli: RunCli, tmp_path: Path) -> None:
    script = tmp_path / "check.sh"
    script.write_text(f"#!/bin/sh\n{BAD_FROM_5}\n")
    script.chmod(0o755)
    assert "first bad: 0005" in run_cli("bisect", *fork.sources, "--run", "./check.sh").stdout
    assert "there is nothing to find" in run_cli("bisect", *fork.sources, "--run", "tools/run.sh").stdout
    ran = run_cli("bisect", *fork.sources, "--run", "./nowhere.sh")
    assert ran.code == 4
    assert "is an end of the range and was skipped, so nothing was searched: the tree has no ./nowhere.sh" in ran.stdout
    ran = run_cli("bisect", *fork.sources, "--run", "no-such-program")
    assert ran.code == 2 and "error: program no-such-program does not exist" in ran.stderr
    for bad, told in (("", "--run CMD is missing"), ("'", "No closing quotation")):
        ran = run_cli("bisect", *fork.sources, "--run", bad)
        assert ran.code == 2 and told in ran.stderr


def test_what_the_command_spoils_is_put_back_and_what_it_builds_stays(fork: Fork, run_cli: RunCli) -> None:
    script = f"test ! -e spoilt || test -e built; echo >src/other.cpp; touch built; {BAD_FROM_5}"
    ran = run_cli("bisect", *fork.sources, "--run", f"sh -ec '{script}'")
    assert "first bad: 0005" in ran.stdout
    assert "note: the command changed 1 file of the tree, which patchstack restored" in ran.stderr


def test_a_hang_ends_the_search(fork: Fork, run_cli: RunCli) -> None:
    ran = run_cli("bisect", *fork.sources, "--run", "sleep 60", "--time", "0.2s")
    assert ran.code == 4, ran
    assert "error: the search was aborted: the command exceeded its time limit of 0.2 s" in ran.stderr


def test_git_variables_of_a_hook_do_not_reach_the_command(
    fork: Fork, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("OURS", "kept")
    ran = run_cli(
        "bisect", *fork.sources, "--run", f"sh -c 'test -z \"$GIT_DIR\" && test $OURS = kept && {BAD_FROM_5}'"
    )
    assert "first bad: 0005" in ran.stdout


def test_a_series_that_does_not_apply_is_refused(fork: Fork, run_cli: RunCli) -> None:
    fork.edit_patch(2, "-line 20", "-line 21")
    ran = run_cli("bisect", *fork.sources, "--run", "true")
    assert ran.code == 1 and "does not apply: 0002-" in ran.stderr


@pytest.fixture
def moved(fork: Fork) -> list[str]:
    """Add five upstream commits far from the patches, of which the third breaks the command."""
    return [
        fork.upstream.commit(
            f"Upstream {number}", {"src/other.cpp": numbered(40 + number, {1: "third"} if number > 2 else None)}
        )
        for number in range(1, 6)
    ]


def test_over_upstream_the_series_is_on_top_of_every_commit(fork: Fork, moved: list[str], run_cli: RunCli) -> None:
    whole = 'test -e src/bad.h && test $(grep -c "changed by" src/kernel.cu) = 8'
    script = f"{whole} || exit 255; ! grep -q third src/other.cpp"
    ran = run_cli("bisect", *fork.sources, "--to", "main", "--run", f"sh -c '{script}'", "--json")
    assert ran.code == 0, ran
    assert ran.document["over"] == "upstream"
    assert ran.document["first_bad"]["commit"] == moved[2]
    assert ran.document["first_bad"]["subject"] == "Upstream 3"
    assert f"5 upstream commits from {fork.pin[:12]} to {moved[-1][:12]}, patches on top" in ran.stderr


def test_an_upstream_commit_that_the_series_does_not_merge_onto_is_skipped(
    fork: Fork, moved: list[str], run_cli: RunCli
) -> None:
    fork.upstream.commit("In the way", {"src/kernel.cu": numbered(300, {20: "other"})})
    last = fork.upstream.commit("Out of it", {"src/kernel.cu": numbered(300), "last": "x\n"})
    ran = run_cli("bisect", *fork.sources, "--to", "main", "--run", "test ! -e last", "--json")
    assert ran.code == 4
    assert [one["commit"] for one in ran.document["candidates"]] == [fork.upstream.parent(last), last]
    (skipped,) = (one for one in ran.document["log"] if one["said"] == "skip")
    assert "does not merge onto it: src/kernel.cu" in skipped["why"] and skipped["code"] is None


def test_patch_numbers_do_not_go_with_upstream_commits(fork: Fork, moved: list[str], run_cli: RunCli) -> None:
    ran = run_cli("bisect", *fork.sources, "--to", "main", "--good", "1", "--run", "true")
    assert ran.code == 2 and "--good and --bad name patches, so they cannot be combined with --to" in ran.stderr
    ran = run_cli("bisect", *fork.sources, "--to", fork.pin, "--run", "true")
    assert ran.code == 2 and "is the pin: there are no upstream commits to try" in ran.stderr


def test_a_workspace_s_series_is_bisected_by_name(
    fork: Fork, patchstack: Patchstack, tmp_path: Path, capsys: Printed
) -> None:
    (tmp_path / "patchstack.yaml").write_text(
        f"series:\n  product:\n    patches: patches\n    upstream: upstream\n    pin: {fork.pin}\n"
    )
    capsys.readouterr()
    assert patchstack("bisect", "product", "--run", BAD_FROM_5, "--json") == 0
    assert json.loads(capsys.readouterr().out)["series"] == "product"
