"""The upstream commit that broke a patch, and the patch that causes a cascade."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import RunCli
from tests.support.builders import Changes, numbered
from tests.support.moving import Steps, asked, kernel, look, moved


def test_a_cascade_goes_back_to_the_patch_it_needs_not_to_the_last_one_that_fails_in_the_file(
    tmp_path: Path, run_cli: RunCli
) -> None:
    steps: Steps = (
        ("Needed", {"src/pager.cpp": numbered(40), **kernel(l10="p1")}),
        ("Bystander", {"src/pager.cpp": numbered(40, {5: "p2"}), **kernel(l10="p1", l200="p2")}),
        ("On the first", {"src/pager.cpp": numbered(40, {5: "p2", 30: "p3"})}),
    )
    fork = moved(
        tmp_path,
        steps,
        ("Two hundred (#1)", kernel(l200="upstream")),
        ("Ten (#2)", kernel(l200="upstream", l10="upstream")),
    )
    one, two, three = (patch["first_broken"] for patch in look(fork, run_cli, "--blame")["patches"])
    assert (one["pr"], two["pr"], three["pr"]) == (2, 1, 2)
    assert (one["root"], two["root"], three["root"]) == (True, True, False)
    assert three["caused_by"] == "0001-Needed.patch"
    assert three["causes"] == ["0001-Needed.patch"]


def test_what_to_mend_is_grouped_by_commit_and_what_frees_the_most_comes_first(tmp_path: Path, run_cli: RunCli) -> None:
    steps: Steps = (
        ("Bystander", kernel(l200="p1")),
        ("Needed", {"src/pager.cpp": numbered(40), **kernel(l10="p2", l200="p1")}),
        ("Also there", kernel(l10="p3", l200="p1")),
        ("On the second", {"src/pager.cpp": numbered(40, {5: "p4"})}),
        ("On the fourth", {"src/pager.cpp": numbered(40, {5: "p5"})}),
    )
    fork = moved(
        tmp_path,
        steps,
        ("Two hundred (#1)", kernel(l200="upstream")),
        ("Ten (#2)", kernel(l200="upstream", l10="upstream")),
    )
    first, second = look(fork, run_cli, "--blame")["mend"]
    assert (first["commit"]["pr"], first["patches"]) == (2, ["0002-Needed.patch", "0003-Also-there.patch"])
    assert (first["frees"], first["freed_count"]) == (["0004-On-the-second.patch", "0005-On-the-fourth.patch"], 2)
    assert (second["commit"]["pr"], second["patches"]) == (1, ["0001-Bystander.patch"])
    assert (second["frees"], second["freed_count"]) == ([], 0)
    shown = asked(fork, run_cli, "--blame").stdout
    lines = [line.split(" (")[0] for line in shown.splitlines() if line.startswith(("mend ", "    frees "))]
    heads = ["mend 2 patches, which frees 2 more: #2 Ten", "mend 1 patch: #1 Two hundred"]
    assert lines == [heads[0], "    frees 0004, 0005", heads[1]]


def test_a_cascade_of_two_patches_names_both(tmp_path: Path, run_cli: RunCli) -> None:
    steps: Steps = (
        ("One", {"src/one.cpp": numbered(40), **kernel(l10="p1")}),
        ("Two", {"src/two.cpp": numbered(40), **kernel(l10="p1", l200="p2")}),
        ("On both", {"src/one.cpp": numbered(40, {20: "p3"}), "src/two.cpp": numbered(40, {20: "p3"})}),
    )
    fork = moved(tmp_path, steps, ("Both (#1)", kernel(l10="upstream", l200="upstream")))
    third = look(fork, run_cli, "--blame")["patches"][2]["first_broken"]
    assert (third["root"], third["causes"]) == (False, ["0001-One.patch", "0002-Two.patch"])
    assert "    0003 cascade, because of 0001 and 0002\n" in asked(fork, run_cli, "--blame").stdout


def test_two_commits_that_break_a_patch_only_together_are_both_named(tmp_path: Path, run_cli: RunCli) -> None:
    def text(letters: str) -> Changes:
        return {"src/a.c": "".join(f"{letter} of the text\n" for letter in letters)}

    fork = moved(
        tmp_path,
        (("Ours", text("a-cc-a--")),),
        ("One (#1)", text("a-cc--}a-")),
        ("Elsewhere (#2)", {"src/other.cpp": "x\n"}),
        ("Two (#3)", text("aab-cc--}a-")),
        files=text("a-cc--"),
    )
    (patch,) = look(fork, run_cli, "--blame")["patches"]
    broken = patch["first_broken"]
    assert (broken["pr"], [commit["pr"] for commit in broken["together"]]) == (3, [1])
    told = asked(fork, run_cli, "--blame").stdout
    assert "    0001 root: Ours (only together with #1; neither breaks it alone)\n" in told
    # The second commit alone, on the pin, breaks nothing: git says so.
    (tmp_path / "alone").mkdir()
    alone = moved(tmp_path / "alone", (("Ours", text("a-cc-a--")),), ("Two", text("aab-cc--")), files=text("a-cc--"))
    assert look(alone, run_cli, "--blame")["patches"][0]["first_broken"] is None


def test_a_commit_that_breaks_a_patch_by_itself_is_named_alone(tmp_path: Path, run_cli: RunCli) -> None:
    fork = moved(
        tmp_path, None, ("Thirty (#1)", kernel(l30="upstream")), ("Ten (#2)", kernel(l30="upstream", l10="upstream"))
    )
    for options in (("--blame",), ("--blame", "--strict")):
        first, _, third = look(fork, run_cli, *options)["patches"]
        assert (first["first_broken"]["pr"], first["first_broken"]["together"]) == (2, [])
        assert (third["first_broken"]["pr"], third["first_broken"]["together"]) == (1, [])
