"""Patches that upstream already has, unchanged or changed: the commit is named, and dropping them is suggested."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RunCli
from tests.support.builders import Changes, numbered
from tests.support.moving import Steps, asked, kernel, look, moved, states

BLOCK = "".join(f"    value = compute(value, {number});\n" for number in range(10))


def with_block(block: str, **changed: str) -> dict[str, str]:
    text = numbered(300, {int(name[1:]): line for name, line in changed.items()})
    return {"src/kernel.cu": text.replace("line 50\n", "line 50\n" + block)}


def test_a_patch_that_landed_as_it_is_names_its_commit_and_the_words_for_the_drop(
    tmp_path: Path, run_cli: RunCli
) -> None:
    fork = moved(
        tmp_path,
        None,
        ("Other (#1)", {"src/other.cpp": "x\n"}),
        ("Take the change (#2)", kernel(l20="changed by commit 2")),
        ("Something else (#3)", kernel(l20="changed by commit 2", l250="x")),
    )
    found = look(fork, run_cli)
    assert states(found) == ["clean", "landed", "clean"]
    second = found["patches"][1]
    assert (second["like"]["how"], second["like"]["score"], second["threeway"]) == ("tree", 1.0, "landed")
    assert second["like"]["commit"]["pr"] == 2
    landed = found["patches"][1]["like"]["commit"]["commit"][:12]
    assert second["like"]["drop_why"] == f"landed as upstream #2 ({landed}, 2025-06-15)"
    told = asked(fork, run_cli).stdout
    assert f'    drop it: --why "landed as upstream #2 ({landed}, 2025-06-15)"' in told


def test_a_patch_on_top_of_one_that_landed_with_it_has_landed_too(tmp_path: Path, run_cli: RunCli) -> None:
    steps: Steps = (("One", kernel(l10="p1")), ("Two", kernel(l10="p1", l11="p2")))
    fork = moved(tmp_path, steps, ("Both", kernel(l10="p1", l11="p2")))
    found = look(fork, run_cli)
    assert states(found) == ["landed", "landed"]
    commit = found["upstream"]["commit"][:12]
    assert found["patches"][0]["like"]["drop_why"] == f"landed as upstream {commit} (2025-06-15)"


def test_a_wholly_landed_series_has_nothing_left_to_carry(tmp_path: Path, run_cli: RunCli) -> None:
    changed = {f"l{number}0": f"changed by commit {number}" for number in (1, 2, 3)}
    ran = asked(moved(tmp_path, None, ("All of it", kernel(**changed))), run_cli)
    assert ran.code == 1
    assert "patches: all 3 patches have landed in " in ran.stdout
    assert ": nothing is left to carry" in ran.stdout


def test_what_landed_and_was_changed_again_has_landed_in_part_and_the_commit_is_named(
    tmp_path: Path, run_cli: RunCli
) -> None:
    steps: Steps = (("Block", with_block(BLOCK)),)
    fork = moved(
        tmp_path,
        steps,
        ("Take the block (#7)", with_block(BLOCK)),
        ("Rework it (#8)", with_block("    everything = other;\n", l49="x", l52="y")),
    )
    (patch,) = look(fork, run_cli)["patches"]
    assert (patch["state"], patch["like"]["how"], patch["like"]["commit"]["pr"]) == ("partly-landed", "patch-id", 7)
    assert patch["like"]["drop_why"] is None
    assert "upstream #7 (" in patch["detail"]
    assert ") took the whole patch, and later commits changed it" in patch["detail"]
    assert patch["remains"] == ["src/kernel.cu: hunk 1 (@@ -48,6 +48,16 @@)"]


def test_of_a_change_that_landed_in_part_the_hunks_that_remain_are_named(tmp_path: Path, run_cli: RunCli) -> None:
    steps: Steps = (("Three places", kernel(l50="first of ours", l150="second of ours", l250="third of ours")),)
    upstream = ("Take two of three (#7)", kernel(l50="first of ours", l150="second of ours", l252="theirs"))
    fork = moved(tmp_path, steps, upstream)
    (patch,) = look(fork, run_cli)["patches"]
    assert (patch["state"], patch["remains"]) == ("partly-landed", ["src/kernel.cu: hunk 3 (@@ -247,7 +247,7 @@)"])
    assert patch["like"]["drop_why"] is None and not look(fork, run_cli)["applies"]
    told = asked(fork, run_cli).stdout
    assert "drop it" not in told
    assert "    remains: src/kernel.cu: hunk 3 (@@ -247,7 +247,7 @@)" in told
    assert look(fork, run_cli, "--quick")["patches"][0]["state"] == "partly-landed"


def test_a_hunk_that_upstream_contains_with_more_around_it_has_landed(tmp_path: Path, run_cli: RunCli) -> None:
    theirs = "    their_first();\n" + BLOCK.replace("value, 4);\n", "value, 4);\n    their_own();\n")
    fork = moved(tmp_path, (("Block", with_block(BLOCK)),), ("Their block (#6)", with_block(theirs)))
    (patch,) = look(fork, run_cli)["patches"]
    assert (patch["state"], patch["like"]["how"], patch["like"]["commit"]["pr"]) == ("landed", "hunks", 6)
    assert patch["remains"] == []


def test_what_a_patch_removes_must_be_gone_before_it_has_landed(tmp_path: Path, run_cli: RunCli) -> None:
    steps: Steps = (("Replace a line", kernel(l50="value = ours(value);")),)
    both = numbered(300).replace("line 50\n", "value = ours(value);\nline 50\n")
    (patch,) = look(moved(tmp_path, steps, ("Add it (#6)", {"src/kernel.cu": both})), run_cli)["patches"]
    assert patch["state"] != "landed"


def test_a_patch_that_takes_back_another_s_lines_has_not_landed_with_them_absent(
    tmp_path: Path, run_cli: RunCli
) -> None:
    steps: Steps = (("Add a block", with_block(BLOCK)), ("Take its half back", with_block(BLOCK[: len(BLOCK) // 2])))
    fork = moved(tmp_path, steps, ("In the way (#6)", with_block("    other = 1;\n", l49="x", l51="y")))
    assert "landed" not in states(look(fork, run_cli)) and "partly-landed" not in states(look(fork, run_cli))


def test_a_patch_that_still_applies_forwards_has_not_landed_because_a_twin_looks_like_its_result(
    tmp_path: Path, run_cli: RunCli
) -> None:
    def twin(first: int, second: int, *top: str) -> Changes:
        body = (
            "{{\n    int before = 0;\n    int more = 1;\n    limit = {};\n    int after = 2;\n    int last = 3;\n}}\n"
        )
        return {"src/twin.c": "".join([*top, "f()\n", body.format(first), numbered(9), "g()\n", body.format(second)])}

    fork = moved(tmp_path, (("Raise the limit", twin(64, 64)),), ("Top", twin(32, 64, "// new\n")), files=twin(32, 64))
    assert states(look(fork, run_cli)) in (["offset"], ["stale"])


@pytest.mark.parametrize("algorithm", ["patience", "histogram", "minimal", "myers"])
def test_the_patch_id_is_found_whatever_algorithm_wrote_the_patch(
    algorithm: str, tmp_path: Path, run_cli: RunCli
) -> None:
    old = "a\nb\nc\n}\n\nx\ny\n}\n" + numbered(30)
    new = "x\ny\n}\n\na\nb\nc\n}\n\nb\n}\n" + numbered(30)
    fork = moved(
        tmp_path,
        (("Turn", {"src/t.c": new}),),
        ("Turn (#4)", {"src/t.c": new}),
        ("Away (#5)", {"src/t.c": "gone\n" * 30}),
        files={"src/t.c": old},
    )
    for path in fork.series.iterdir():
        path.unlink()
    fork.repo.git("format-patch", "-q", f"--diff-algorithm={algorithm}", "-o", fork.series, f"{fork.pin}..product")
    (patch,) = look(fork, run_cli)["patches"]
    assert (patch["state"], patch["like"]["how"], patch["like"]["commit"]["pr"]) == ("partly-landed", "patch-id", 4)


def test_a_patch_that_landed_with_changes_is_told_with_how_much_of_it(tmp_path: Path, run_cli: RunCli) -> None:
    theirs = BLOCK.replace("value, 3", "value, 33").replace("value, 7", "value, 77")
    fork = moved(tmp_path, (("Block", with_block(BLOCK)),), ("Their block (#6)", with_block(theirs)))
    (patch,) = look(fork, run_cli)["patches"]
    assert (patch["state"], patch["like"]["how"], patch["like"]["score"]) == ("partly-landed", "similar", 0.8)
    assert patch["like"]["drop_why"] is None
    assert ") has 80% of the patch's lines; remains: src/kernel.cu: hunk 1 (" in patch["detail"]
    (quick,) = look(fork, run_cli, "--quick")["patches"]
    assert (quick["state"], quick["like"]) == ("conflict", None)


def test_a_commit_of_the_same_name_is_mentioned_but_is_no_landing(tmp_path: Path, run_cli: RunCli) -> None:
    steps: Steps = (("perf: NVFP4 activation-quantize de-dup", kernel(l10="ours")),)
    fork = moved(
        tmp_path,
        steps,
        *((f"Other work {number}", {"src/other.cpp": f"{number}\n"}) for number in range(3)),
        ("CUDA: dedup MoE activation quantization (#25)", kernel(l10="theirs")),
    )
    (patch,) = look(fork, run_cli)["patches"]
    assert (patch["state"], patch["like"]["how"], patch["like"]["drop_why"]) == ("conflict", "title", None)
    assert (
        "upstream has a commit with a similar title: #25 (CUDA: dedup MoE activation quantization)" in patch["detail"]
    )


def test_a_change_that_landed_elsewhere_in_the_file_applies_backwards(tmp_path: Path, run_cli: RunCli) -> None:
    lines = numbered(300).splitlines(keepends=True)
    block = [line.replace("line 10\n", "changed by commit 1\n") for line in lines[:40]]
    fork = moved(tmp_path, None, ("Move it down (#8)", {"src/kernel.cu": "".join([*lines[40:], *block])}))
    first = look(fork, run_cli)["patches"][0]
    assert (first["state"], first["like"]["how"], first["like"]["commit"]["pr"]) == ("landed", "reverse", 8)


def test_what_upstream_had_at_the_pin_has_landed_long_ago(tmp_path: Path, run_cli: RunCli) -> None:
    fork = moved(tmp_path, None, ("Elsewhere", kernel(l250="u")))
    data = fork.patch(1).read_bytes()
    swapped = data.replace(b"\n-line 10\n+changed by commit 1\n", b"\n-changed by commit 1\n+line 10\n")
    assert swapped != data
    fork.patch(1).write_bytes(swapped)
    first = look(fork, run_cli)["patches"][0]
    assert (first["state"], first["threeway"]) == ("fails-at-pin", None), "it never applied, so nothing of it can land"


def test_a_change_that_upstream_took_back_has_not_landed(tmp_path: Path, run_cli: RunCli) -> None:
    fork = moved(tmp_path, None, ("Take", kernel(l10="changed by commit 1")), ("Revert", kernel()))
    assert states(look(fork, run_cli)) == ["clean", "clean", "clean"]
