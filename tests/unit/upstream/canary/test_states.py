"""Every state of a patch on a newer upstream in `canary --json`."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import RunCli
from tests.support.builders import Changes, File, numbered
from tests.support.moving import asked, kernel, look, moved, states

FUNCTION = """\
#include "a.h"

static int shape(int rows) {{
    int n = rows;
    {one}
    int a = 1;
    int b = 2;
    int c = 3;
    int d = 4;
    {two}
    return n;
}}

int other(int x) {{
    return x;
}}
"""


def test_patches_upstream_has_not_touched_are_clean(tmp_path: Path, run_cli: RunCli) -> None:
    found = look(moved(tmp_path, None, ("Other file", {"src/other.cpp": "x\n"})), run_cli)
    assert states(found) == ["clean", "clean", "clean"]
    assert [(one["strict"], one["threeway"]) for one in found["patches"]] == [("clean", "clean")] * 3
    assert (found["applies"], found["applied_count"], found["commits"]) == (True, 3, 1)


def test_lines_that_moved_are_an_offset_and_apply(tmp_path: Path, run_cli: RunCli) -> None:
    text = "new\nnew\n" + numbered(300)
    found = look(moved(tmp_path, None, ("Two lines on top", {"src/kernel.cu": text})), run_cli)
    assert states(found) == ["offset"] * 3
    assert found["patches"][0]["detail"] == "its lines are 2 lines further down"
    assert found["applies"]


def test_a_changed_line_is_a_conflict_and_upstream_s_commit_is_named(tmp_path: Path, run_cli: RunCli) -> None:
    fork = moved(tmp_path, None, ("Rework line ten (#77)", kernel(l10="upstream")))
    first, *others = look(fork, run_cli)["patches"]
    assert (first["state"], first["strict"], first["threeway"]) == ("conflict", "conflict", "conflict")
    assert "expected `line 10` at line 10, found `upstream`" in first["detail"]
    assert "in the way: #77 (Rework line ten)" in first["detail"]
    assert [commit["pr"] for commit in first["collides"]] == [77]
    assert [patch["state"] for patch in others] == ["clean", "clean"]


def test_changed_context_conflicts_strictly_and_merges_three_way(tmp_path: Path, run_cli: RunCli) -> None:
    found = look(moved(tmp_path, None, ("Beside it", kernel(l12="upstream"))), run_cli)
    first = found["patches"][0]
    assert (first["state"], first["strict"], first["threeway"]) == ("conflict", "conflict", "clean")
    assert not found["applies"]


def test_a_file_that_is_gone_is_a_deleted_source(tmp_path: Path, run_cli: RunCli) -> None:
    fork = moved(tmp_path, None, ("No kernel any more", {"src/kernel.cu": None}))
    found = look(fork, run_cli)
    assert states(found) == ["deleted-source"] * 3
    assert found["patches"][0]["strict"] == "missing-file"
    assert "src/kernel.cu: the file does not exist" in found["patches"][0]["detail"]


def test_a_file_that_moved_is_a_renamed_source_and_its_new_name_is_told(tmp_path: Path, run_cli: RunCli) -> None:
    text = numbered(300, {200: "upstream"})
    fork = moved(tmp_path, None, ("Move", {"src/kernel.cu": None, "gpu/kernel.cu": text}))
    first = look(fork, run_cli)["patches"][0]
    assert (first["state"], first["strict"], first["threeway"]) == ("renamed-source", "missing-file", "clean")
    assert first["renamed"] == [{"from": "src/kernel.cu", "to": "gpu/kernel.cu"}]
    assert "src/kernel.cu is gpu/kernel.cu now" in first["detail"]


def test_a_patch_that_fails_only_because_of_another_is_a_cascade_and_names_it(tmp_path: Path, run_cli: RunCli) -> None:
    steps = (
        ("Make the pager", {"src/pager.cpp": numbered(40), **kernel(l10="p1")}),
        ("Grow the pager", {"src/pager.cpp": numbered(40, {20: "grown"})}),
        ("Far away", kernel(l10="p1", l200="p3")),
    )
    found = look(moved(tmp_path, steps, ("Line ten", kernel(l10="upstream"))), run_cli)
    assert states(found) == ["conflict", "cascade", "clean"]
    second = found["patches"][1]
    assert second["caused_by"] == "0001-Make-the-pager.patch"
    assert second["detail"].endswith("only because of 0001-Make-the-pager.patch")
    assert second["strict"] == "missing-file"


def test_a_cascade_over_two_patches_names_the_one_that_fails_by_itself(tmp_path: Path, run_cli: RunCli) -> None:
    steps = (
        ("One", {"src/pager.cpp": numbered(40), **kernel(l10="p1")}),
        ("Two", {"src/pager.cpp": numbered(40, {20: "two"})}),
        ("Three", {"src/pager.cpp": numbered(40, {20: "three"})}),
    )
    found = look(moved(tmp_path, steps, ("Line ten", kernel(l10="upstream"))), run_cli)
    assert [patch["caused_by"] for patch in found["patches"]] == [None, "0001-One.patch", "0001-One.patch"]


def test_context_of_a_patch_that_fails_makes_a_cascade(tmp_path: Path, run_cli: RunCli) -> None:
    steps = (("One", kernel(l10="p1")), ("Two", kernel(l10="p1", l12="p2")))
    found = look(moved(tmp_path, steps, ("Line ten", kernel(l10="upstream"))), run_cli)
    assert states(found) == ["conflict", "cascade"]


def test_a_patch_that_upstream_breaks_as_well_is_no_cascade_but_names_what_it_stands_on(
    tmp_path: Path, run_cli: RunCli
) -> None:
    steps = (("One", kernel(l10="p1")), ("Two", kernel(l10="p2")))
    found = look(moved(tmp_path, steps, ("Line ten", kernel(l10="upstream"))), run_cli)
    assert states(found) == ["conflict", "conflict"]
    assert "it also needs 0001-One.patch" in found["patches"][1]["detail"]
    assert found["patches"][1]["caused_by"] is None


def test_a_patch_on_top_of_one_that_applies_is_no_cascade_of_it(tmp_path: Path, run_cli: RunCli) -> None:
    steps = (("One", kernel(l10="p1")), ("Two", kernel(l10="p1", l12="p2")))
    found = look(moved(tmp_path, steps, ("Below both", kernel(l15="upstream"))), run_cli)
    assert states(found) == ["clean", "conflict"]
    assert "it also needs" not in found["patches"][1]["detail"]


def test_a_patch_whose_own_change_merges_is_a_cascade_though_upstream_stands_close_to_it_too(
    tmp_path: Path, run_cli: RunCli
) -> None:
    steps = (("One", kernel(l10="p1")), ("Two", kernel(l10="p1", l12="p2", l100="p2")))
    found = look(moved(tmp_path, steps, ("Both", kernel(l10="upstream", l102="upstream"))), run_cli)
    assert states(found) == ["conflict", "cascade"]
    assert found["patches"][1]["threeway"] == "clean"


def test_a_patch_beside_a_failing_one_is_not_its_cascade(tmp_path: Path, run_cli: RunCli) -> None:
    steps = (("One", kernel(l10="p1")), ("Two", kernel(l10="p1", l100="p2")))
    fork = moved(tmp_path, steps, ("Two lines", kernel(l10="upstream", l102="upstream")))
    assert states(look(fork, run_cli)) == ["conflict", "conflict"]


def test_a_function_that_changed_around_a_patch_makes_it_stale(tmp_path: Path, run_cli: RunCli) -> None:
    def source(one: str, two: str) -> Changes:
        return {"src/shape.cpp": FUNCTION.format(one=one, two=two)}

    fork = moved(
        tmp_path,
        (("Double", source("n *= 4;", "n += 1;")),),
        ("Round up (#5)", source("n *= 2;", "n += 16;")),
        files=source("n *= 2;", "n += 1;"),
    )
    found = look(fork, run_cli)
    assert states(found) == ["stale"]
    assert found["applies"], "a stale patch applies"
    assert found["patches"][0]["detail"] == "src/shape.cpp: shape(), which the patch changes, has changed with #5"


def test_a_name_that_upstream_has_now_is_told_and_makes_no_patch_stale(tmp_path: Path, run_cli: RunCli) -> None:
    steps = (("Add a knob", {"src/knob.h": "#define PAGED_ROWS 4\n"}),)
    upstream = ("Their knob", {"src/theirs.h": "#define PAGED_ROWS 8\n"})
    fork = moved(tmp_path, steps, upstream)
    found = look(fork, run_cli)
    assert states(found) == ["clean"], "upstream has not touched a function that it changes"
    assert found["patches"][0]["detail"] == "PAGED_ROWS, which the patch adds, is also in src/theirs.h now"
    told = asked(fork, run_cli).stdout
    assert "0001-Add-a-knob.patch: clean\n    PAGED_ROWS, which the patch adds, is also in src/theirs.h now\n" in told
    (quick,) = look(fork, run_cli, "--quick")["patches"]
    assert quick["detail"] == "", "quick looks at the series' own files alone"


def test_a_patch_that_does_not_apply_to_its_own_pin_is_not_blamed_on_upstream(tmp_path: Path, run_cli: RunCli) -> None:
    fork = moved(tmp_path, None, ("Other", {"src/other.cpp": "x\n"}), ("Line thirty (#7)", kernel(l30="upstream")))
    fork.edit_patch(2, "line 19", "line nineteen")
    for options in (("--blame", "--strict"), ("--blame",)):
        found = look(fork, run_cli, *options)
        assert states(found) == ["clean", "fails-at-pin", "conflict"]
        second = found["patches"][1]
        assert (second["threeway"], second["first_broken"], second["collides"]) == (None, None, [])
        assert second["detail"].startswith("it does not apply at its own pin: see patchstack verify; src/kernel.cu: ")
        assert "expected `line nineteen` at line 19, found `line 19`" in second["detail"]
        assert second["line"] == fork.patch(2).read_bytes().split(b"\n").index(b" line nineteen") + 1
        assert [one["patches"] for one in found["breaking"]] == [["0003-Change-3-of-a-kernel.patch"]]


def test_what_fails_at_the_pin_before_a_patch_in_the_same_file_is_named(tmp_path: Path, run_cli: RunCli) -> None:
    steps = (("One", kernel(l10="p1")), ("Two", kernel(l10="p2")))
    fork = moved(tmp_path, steps, ("Other", {"src/other.cpp": "x\n"}))
    fork.edit_patch(1, "line 9", "line nine")
    found = look(fork, run_cli)
    assert states(found) == ["fails-at-pin", "fails-at-pin"]
    assert found["patches"][1]["detail"].endswith("earlier patches that fail in the same files: 0001-One.patch")


def test_a_mode_and_a_binary_file_are_judged_by_git(tmp_path: Path, run_cli: RunCli) -> None:
    steps = (
        ("Not executable", {"tools/run.sh": File("#!/bin/sh\necho run\n")}),
        ("New weights", {"big/weights.bin": b"\0\1\2" * 40}),
    )
    fork = moved(tmp_path, steps, ("Other", {"src/other.cpp": "x\n"}))
    fork.repo.git("format-patch", "-q", "--binary", "-o", fork.series, f"{fork.pin}..product")
    assert states(look(fork, run_cli)) == ["clean", "clean"]
    fork.upstream.commit("Theirs", {"big/weights.bin": b"\0other" * 9, "tools/run.sh": None})
    assert states(look(fork, run_cli)) == ["deleted-source", "conflict"]


def test_the_table_tells_both_columns_and_one_line_of_truth(tmp_path: Path, run_cli: RunCli) -> None:
    fork = moved(tmp_path, None, ("Rework (#77)", kernel(l10="upstream")))
    ran = asked(fork, run_cli)
    lines = ran.stdout.splitlines()
    assert ran.code == 1
    assert lines[0].split("  ")[0] == "number" and lines[0].rstrip().endswith("because of")
    assert lines[1].split() == ["0001", "Change", "1", "of", "a", "kernel", "conflict", "conflict", "conflict", "#77"]
    assert lines[4] == (
        f"patches: does not apply to {fork.upstream.path} main ({fork.upstream.head()[:12]}), 1 commit after the pin "
        f"{fork.pin[:12]}: 2 of 3 patches apply as they are, 2 merge three-way (2 clean, 1 conflict)"
    )
    assert "\x1b" not in ran.stdout + ran.stderr
    blamed = asked(fork, run_cli, "--blame").stdout
    assert "; commit 0 after the pin)" in blamed and "behind" not in blamed
