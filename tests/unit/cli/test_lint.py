"""`patchstack lint`: table, line, document, exit codes, configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RunCli
from tests.support.builders import Fork, a_fork, new_file, write_series
from tests.support.linting import KEY


def workspace(fork: Fork, extra: str = "") -> None:
    (fork.series.parent / "patchstack.yaml").write_text(
        f"series:\n  product:\n    patches: patches\n    upstream: upstream\n    pin: {fork.pin}\n{extra}"
    )


ADDITIVE = "    lint:\n      additive: true\n"


def test_a_clean_series_is_one_line_and_exit_0(tmp_path: Path, run_cli: RunCli) -> None:
    ran = run_cli("lint", *a_fork(tmp_path).sources)
    assert (ran.code, ran.stdout, ran.stderr) == (0, "PASS  patches: clean: 3 patches\n", "")


def test_findings_are_a_table_a_line_and_exit_1(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path)
    (fork.series / "0002-Change-2-of-a-kernel.patch").rename(fork.series / "0002-other.patch")
    write_series(fork.series, {"0004-x.patch": new_file("notes.md", "/home/jane "), "readme": new_file("x")})
    ran = run_cli("lint", *fork.sources)
    assert ran.code == 1
    subject = "the subject is `Change 2 of a kernel`: git would name the file 0002-Change-2-of-a-kernel.patch"
    assert ran.stdout.splitlines() == [
        "patch  line  rule        message",
        f"0002   4     names       {subject}",
        "0004   1     paths       notes.md: *.md is scratch, not source: keep it out of the product's tree",
        "0004   7     whitespace  notes.md: trailing blanks",
        "0004   7     home-path   /home/jane is a path of one person's machine",
        "FAIL  patches: 4 findings in 2 of 4 patches (home-path 1, names 1, paths 1, whitespace 1)",
    ]


def test_the_policy_and_the_waivers_of_the_workspace_are_used(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path)
    waivers = "".join(f"      - {{rule: additive, patch: {n}, why: the bug is upstream's}}\n" for n in (1, 2))
    workspace(fork, f"{ADDITIVE}    waive:\n{waivers}")
    ran = run_cli("lint", "product")
    assert ran.code == 1
    assert ran.stdout.splitlines()[-1] == "FAIL  product: 1 finding in 1 of 3 patches (additive 1); 2 waived"
    workspace(fork, f"{ADDITIVE}    waive:\n      - {{rule: additive, why: all of it is one bug}}\n")
    ran = run_cli("lint")
    assert (ran.code, ran.stdout) == (0, "PASS  product: clean: 3 patches; 3 waived\n")


def test_every_policy_can_be_configured(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path)
    workspace(
        fork,
        "    lint:\n      paths: {allow: [docs/**], deny: [], scratch: []}\n      trailers: [Switch]\n"
        "      size: {patch_kib: 1, file_lines: 1}\n",
    )
    (fork.series / "0004-x.patch").write_bytes(new_file("docs/x.md", "x" * 2000))
    documents = run_cli("lint", "--json").document
    assert {(found["rule"], found["number"]) for found in documents["findings"]} == {
        *(("trailers", number) for number in range(1, 5)),
        *(("paths", number) for number in range(1, 4)),
        ("size", 4),
    }


def test_an_unused_waiver_points_into_the_workspace(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path)
    workspace(fork, "    waive:\n      - {rule: size, patch: 1, why: it was large once}\n")
    ran = run_cli("lint", "--json")
    found = ran.document["findings"][0]
    assert (ran.code, found["rule"], found["number"], found["line"]) == (1, "unused-waiver", None, 7)
    assert Path(found["file"]).name == "patchstack.yaml"


@pytest.mark.parametrize(
    ("waiver", "words"),
    [
        ("{rule: aditive, patch: 1, why: x}", ":7: waive: there is no rule aditive, perhaps you meant additive"),
        ("{rule: additive, patch: 1}", ":7: series.product.waive: why is missing"),
        ("{patch: 1, why: x}", ":7: series.product.waive: rule is missing"),
        ("{rule: additive, patch: 1, why: ' '}", ":7: waive: a waiver of additive needs a reason: why"),
        ("{rule: unreadable, why: x}", ":7: waive: unreadable cannot be waived"),
        ("{rule: additive, patches: 1, why: x}", "patches: unknown key, perhaps you meant patch"),
        ("additive", "waive: not a mapping of keys to values"),
    ],
)
def test_a_waiver_that_cannot_be_is_a_configuration_error(
    tmp_path: Path, run_cli: RunCli, waiver: str, words: str
) -> None:
    workspace(a_fork(tmp_path), f"{'    waive:'}\n      - {waiver}\n")
    ran = run_cli("lint")
    assert ran.code == 2
    assert words in ran.stderr


@pytest.mark.parametrize(
    ("lint", "words"),
    [
        ("additive: perhaps", "series.product.lint.additive: 'perhaps' is neither true nor false"),
        ("trailers: Switch", "series.product.lint.trailers: not a list of strings"),
        ("size: {patch_kib: big}", "series.product.lint.size.patch_kib: "),
        ("paths: {alow: [x]}", "series.product.lint.paths.alow: unknown key, perhaps you meant allow"),
        ("additve: true", "series.product.lint.additve: unknown key, perhaps you meant additive"),
    ],
)
def test_a_policy_that_cannot_be_is_a_configuration_error(
    tmp_path: Path, run_cli: RunCli, lint: str, words: str
) -> None:
    workspace(a_fork(tmp_path), f"    lint:\n      {lint}\n")
    ran = run_cli("lint")
    assert ran.code == 2
    assert words in ran.stderr


def test_the_document_has_rules_findings_and_waivers(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path)
    waiver = "{rule: additive, patch: 1, why: the bug is upstream's}"
    workspace(fork, f"{ADDITIVE}    waive:\n      - {waiver}\n")
    document = run_cli("lint", "--json").document
    assert document.keys() == {
        *("schema", "series", "base", "patch_count", "clean", "rules", "findings", "waived", "checks"),
    }
    assert (document["schema"], document["series"], document["clean"]) == ("patchstack.lint/1", "product", False)
    assert (document["base"], document["patch_count"]) == ({"commit": fork.pin}, 3)
    assert [rule["id"] for rule in document["rules"]] == [
        *("unreadable", "numbering", "names", "duplicate", "message", "trailers", "new-gate", "paths", "scope"),
        *("additive", "anchored", "size", "whitespace", "secrets", "home-path", "unused-waiver"),
    ]
    assert all(rule["reason"] for rule in document["rules"])
    file = "0001-Change-1-of-a-kernel.patch"
    text = fork.patches[0].read_text().splitlines()
    assert document["waived"] == [
        {
            "rule": "additive",
            "file": file,
            "number": 1,
            "line": text.index("-line 10") + 1,
            "message": "src/kernel.cu: removes or changes upstream's line `line 10`",
            "why": "the bug is upstream's",
        }
    ]
    assert [found["number"] for found in document["findings"]] == [2, 3]


def test_the_rules_are_listed_with_their_reasons(run_cli: RunCli) -> None:
    ran = run_cli("lint", "--rules")
    assert ran.code == 0
    assert "additive       a patch that only adds lines stops applying far less often" in ran.stdout
    assert len(ran.stdout.splitlines()) == 17
    assert run_cli("lint", "--rules", "--json").document["rules"][0]["id"] == "unreadable"


def test_no_secret_reaches_the_screen_or_the_document(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path)
    write_series(fork.series, {"0004-x.patch": new_file("src/x.cpp", f"// {KEY} \x1b[31m/home/jane")})
    for options in ((), ("--json",)):
        ran = run_cli("lint", *fork.sources, *options)
        assert ran.code == 1
        assert KEY not in ran.told and "\x1b" not in ran.told
        assert "AKIA..." in ran.told


def test_patches_that_cannot_be_read_are_findings_with_exit_1(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path)
    write_series(fork.series, {"0004-x.patch": b"\0diff --git a/x b/x\n@@ -1 +1 @@\n", "0005-y.patch": b""})
    ran = run_cli("lint", *fork.sources)
    assert ran.code == 1
    assert "there is no diff in it" in ran.stdout
    assert "0004   2     unreadable" in ran.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--pin", "abc"], "error: --pin cannot be used without --patches"),
        (["--patches", "patches"], "error: --patches needs --pin"),
        (["--patches", "patches", "--pin", "abc"], "error: --patches needs --upstream"),
        (["product", "--patches", "patches"], "error: give a series of the workspace or --patches, not both"),
        (["nosuch"], "error: there is no series nosuch"),
    ],
)
def test_wrong_usage_is_exit_2(tmp_path: Path, run_cli: RunCli, options: list[str], words: str) -> None:
    workspace(a_fork(tmp_path))
    ran = run_cli("lint", *options)
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(words)


def test_a_pin_that_is_not_there_is_exit_3(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path)
    fork.pin = "1" * 40
    ran = run_cli("lint", *fork.sources, "--offline")
    assert (ran.code, ran.stdout) == (3, "")


def test_one_series_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path)
    workspace(fork, f"  gone:\n    patches: gone\n    upstream: upstream\n    pin: {fork.pin}\n")
    ran = run_cli("lint")
    assert ran.code == 2
    assert ran.stdout == "PASS  product: clean: 3 patches\n"
    assert ran.stderr.startswith("error: gone: ")
