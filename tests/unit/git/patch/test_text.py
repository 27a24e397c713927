"""The rules of lint that look at text, waivers, and patches that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.git.patch.diff import parse_diffs
from patchstack.git.patch.text import read_text
from patchstack.series.lint.runner import waiver_problems
from patchstack.workspace import LintPolicy, Waiver
from tests.support.builders import (
    Changes,
    Content,
    Fork,
    a_fork,
    edited,
    executable,
    mail,
    new_file,
    new_link,
    numbered,
    write_series,
)
from tests.support.linting import KEY, Linted, line_of, of, told

# whitespace


@pytest.mark.parametrize(
    ("line", "what"),
    [("x  ", "trailing blanks"), ("x\t", "trailing blanks"), (" \tx", "a space before a tab"), ("x\r", "a CR at the")],
)
def test_blanks_that_nobody_sees_are_named_at_their_first_line(
    linted: Linted, tmp_path: Path, line: str, what: str
) -> None:
    result = linted(("Blanks", {"src/other.cpp": numbered(40, {3: line, 30: line})}))
    assert [finding.rule for finding in result.findings] == ["whitespace"]
    finding = result.findings[0]
    assert finding.message.startswith(f"src/other.cpp: {what}") and finding.message.endswith("(also line 27)")
    assert line_of(tmp_path, result) == f"+{line}"


@pytest.mark.parametrize("line", ["x  ", " \tx", "x\r"])
def test_a_file_that_has_the_like_already_may_have_more(tmp_path: Path, line: str) -> None:
    fork = a_fork(tmp_path, 0)
    fork.pin = fork.upstream.commit("Blanks", {"blanks": numbered(9, {5: line})})
    fork.repo.git("fetch", "-q", fork.upstream.path)
    fork.repo.branch("product", fork.pin)
    fork.repo.commit("More", {"blanks": numbered(9, {5: line, 6: line})})
    fork.export()
    assert of(fork).clean


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("run.bat", "one\r\ntwo\r\n"),
        ("src/x.cpp", "\tx\n\t  y\n  z\n\nvalue \t// comment\n"),
        ("x.markdown", "one  \ntwo\n"),
    ],
)
def test_a_new_crlf_file_tabs_in_place_and_hard_breaks_are_no_errors(linted: Linted, path: str, content: str) -> None:
    assert linted(("New file", {path: content})).clean


def test_removed_blanks_are_welcome(linted: Linted, tmp_path: Path) -> None:
    steps: list[tuple[str, Changes]] = [("With", {"own": "a \n"}), ("Without", {"own": "a\n"})]
    assert [finding.number for finding in linted(*steps).findings] == [1]


# secrets and home paths

SECRETS = {
    "a private key": "-----BEGIN OPENSSH PRIVATE KEY-----",
    "an AWS access key": KEY,
    "a GitHub token": "ghp_" + "a1B2" * 9,
    "a Hugging Face token": "hf_" + "aBcD" * 8 + "Ef",
    "a Slack token": "xoxb-" + "123456789012-abcdef",
    "a value for db.password": 'db.password = "hunter2hunter2"',
    "a value for API_KEY": "API_KEY: 'q8w7e6r5t4'",
}


@pytest.mark.parametrize("what", SECRETS)
def test_a_likely_secret_is_named_and_never_printed_whole(linted: Linted, tmp_path: Path, what: str) -> None:
    secret = SECRETS[what]
    result = linted(("Add code", {"src/key.cpp": f"// {secret}\n"}))
    assert [finding.rule for finding in result.findings] == ["secrets"]
    assert result.findings[0].message.startswith(f"this looks like {what}")
    bare = secret.split("= ")[-1].split(": ")[-1].strip("\"'")
    assert bare not in result.findings[0].message
    assert line_of(tmp_path, result) == f"+// {secret}"


def test_no_other_rule_prints_a_secret_whole_either(linted: Linted) -> None:
    def wrong_name(fork: Fork) -> None:
        fork.patches[0].rename(fork.series / "0001-wrong.patch")

    result = linted((f"Use {KEY}", {"src/x.cpp": "x\n"}), by_hand=wrong_name)
    assert [finding.rule for finding in result.findings] == ["names", "secrets"]
    assert KEY not in str([finding.message for finding in result.findings])


@pytest.mark.parametrize(
    "text",
    [
        'password = "${PASSWORD}"',
        'password = "<your password>"',
        "password = 'xxxxxxxx'",
        'if (params.api_key == "none12345")',
        'std::string token = "<|im_end|>"',
        "password = read_password()",
        "hf_repo = user/model; hf_token",
        "sk-learn is no key; ghp_short",
        "-----BEGIN CERTIFICATE-----",
    ],
)
def test_what_only_resembles_a_secret_is_no_finding(linted: Linted, text: str) -> None:
    assert linted(("Add code", {"src/key.cpp": f"{text}\n"})).clean


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('"/home/ettore/models"', "/home/ettore"),
        ("see file:///Users/jane/x", "/Users/jane"),
        (r"C:\Users\Jane\x", r"C:\Users\Jane"),
        (r"c:\\Users\\jane", r"c:\\Users\\jane"),
    ],
)
def test_a_personal_home_path_is_named(linted: Linted, tmp_path: Path, text: str, path: str) -> None:
    result = linted(("Add code", {"src/key.cpp": f"// {text}\n"}))
    assert told(result) == [("home-path", 1, f"{path} is a path of one person's machine")]
    assert line_of(tmp_path, result) == f"+// {text}"


@pytest.mark.parametrize(
    "text", ["/home/user/models", "/home/$USER", "/home/<name>", "example.com/home/page", "api/Users/list", "/home/*"]
)
def test_a_home_path_of_nobody_is_no_finding(linted: Linted, text: str) -> None:
    assert linted(("Add code", {"src/key.cpp": f"// {text}\n"})).clean


def test_the_message_is_looked_through_as_well(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 0)
    fork.repo.commit("Subject", {"src/x.cpp": "x\n"}, body=f"Run on /home/ettore\nwith {KEY}.")
    fork.export()
    assert [(finding.rule, finding.line) for finding in of(fork).findings] == [("home-path", 6), ("secrets", 7)]


def test_a_secret_that_is_removed_or_stands_around_is_not_the_patchs(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 0)
    fork.pin = fork.upstream.commit("Keys", {"keys": f"a\n{KEY}\nb\n{KEY}\n"})
    fork.repo.git("fetch", "-q", fork.upstream.path)
    fork.repo.branch("product", fork.pin)
    fork.repo.commit("Remove", {"keys": f"a\n{KEY}\nb\n"})
    fork.export()
    assert of(fork).clean


# size and trailers


def test_a_patch_and_an_addition_over_the_limit_are_named(linted: Linted) -> None:
    result = linted(("Much", {"src/much.cpp": numbered(900)}), patch_kib=8, file_lines=800)
    assert told(result) == [
        ("size", 1, "the patch has 10 KiB, more than 8"),
        ("size", 1, "src/much.cpp: 900 added lines, more than 800"),
    ]


def test_a_small_edit_of_a_large_file_is_no_finding(linted: Linted) -> None:
    assert linted(file_lines=200).clean


def test_trailers_the_policy_asks_for_are_missed(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 0)
    bodies = ["Text.\n\nswitch: LLAMA_KV_PAGED\nDefault: off", "Text.\n\nSwitch: X\nDefault:", "Switch: X in text."]
    for number, body in enumerate(bodies, 1):
        fork.repo.commit(f"Step {number}", {"src/x.cpp": f"{number}\n"}, body=body)
    fork.export()
    assert of(fork).clean
    assert told(of(fork, LintPolicy(trailers=("Switch", "Default")))) == [
        ("trailers", 2, "the message has no trailer Default"),
        ("trailers", 3, "the message has no trailer Default"),
    ]


def test_a_new_gate_that_names_none_is_told(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 0)
    bodies = ["New-Gate: paged", "New-Gate: switches/paged, ops", "New-Gate:", "New-Gate: a/b/c", "New-Gate: -x"]
    for number, body in enumerate(bodies, 1):
        fork.repo.commit(f"Step {number}", {"src/x.cpp": f"{number}\n"}, body=body)
    fork.export()
    assert told(of(fork)) == [
        ("new-gate", 3, "New-Gate names no gate: NAME or SUITE/NAME"),
        ("new-gate", 4, "New-Gate names no gate with 'a/b/c': NAME or SUITE/NAME"),
        ("new-gate", 5, "New-Gate names no gate with '-x': NAME or SUITE/NAME"),
    ]


# anchored


def test_an_anchored_patch_that_carries_upstreams_text_is_named(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 0)
    text = "static void upstreams_own_function(int n) {\n    return;\n}\n"
    fork.pin = fork.upstream.commit("Text", {"src/u.cpp": text + "#include <a_header_of_theirs.h>\n"})
    ours = "}\n    return;\nint ours_alone_and_long_enough = 1;\n  static void upstreams_own_function(int n) {\n"
    after = fork.upstream.commit("Ours", {"src/u.cpp": ours + text + "#include <a_header_of_theirs.h>\n"})
    diff = fork.upstream.diff(fork.pin, after, "-U0", "--full-index")
    write_series(fork.series, {"0001-Ours.anchored": mail("Ours", diff)})
    result = of(fork)
    assert told(result) == [
        (
            "anchored",
            1,
            "src/u.cpp: adds a line that upstream's file has: `static void upstreams_own_function(int n) {`",
        )
    ]
    assert line_of(tmp_path, result) == "+  static void upstreams_own_function(int n) {"
    write_series(fork.series, {"0001-Ours.patch": mail("Ours", fork.upstream.diff(fork.pin, after))})
    (fork.series / "0001-Ours.anchored").unlink()
    assert of(fork).clean


# unreadable


def test_a_patch_that_does_not_apply_is_a_finding_at_its_hunk_and_the_rest_is_looked_at(linted: Linted) -> None:
    def spoil(fork: Fork) -> None:
        fork.edit_patch(2, " line 19\n", " line nineteen\n")
        write_series(fork.series, {"0004-Blank.patch": mail("Blank", new_file("src/x", "x "))})

    result = linted(by_hand=spoil)
    assert [(finding.rule, finding.number) for finding in result.findings] == [("unreadable", 2), ("whitespace", 4)]
    assert "expected `line nineteen`" in result.findings[0].message
    assert line_of(Path.cwd(), result) == " line nineteen"


@pytest.mark.parametrize(
    "data",
    [
        b"\0\1\2",
        mail("Bad", b"diff --git a/x b/x\n@@ garbage"),
        mail("Bad", edited("src/other.cpp", "@@ -1,9 +1,9 @@\n-line 1\n")),
        mail("Bad", new_file("../escape")),
        mail("Bad", new_file(".git/config")),
        mail("Bad", b"@@ -1 +1 @@\n-a\n+b\n"),
        b"diff --git",
        b"From ",
        b"Subject:",
        b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n",
        b'diff --git "a/\\3" "b/\nindex 1..2\n--- "\n+++ \n@@ -1 +1 @@\n\\ x\n',
    ],
)
def test_bad_patches_are_findings_and_never_a_traceback(linted: Linted, data: bytes) -> None:
    result = linted(by_hand=lambda fork: write_series(fork.series, {"0004-Bad.patch": data, "0005-Bad.anchored": data}))
    assert {(f.number, f.rule) for f in result.findings} >= {(4, "unreadable")} or {
        (f.number, f.rule) for f in result.findings
    } >= {(4, "duplicate")}
    assert all(finding.line >= 1 for finding in result.findings)


def test_a_link_of_the_series_is_taken(linted: Linted) -> None:
    assert linted(by_hand=lambda fork: write_series(fork.series, {"0004-Link.patch": new_link("l", "src")})).clean


# the reader


def test_the_reader_sees_what_the_strict_one_sees(tmp_path: Path) -> None:
    steps: list[tuple[str, Changes]] = [
        ("Edit", {"src/kernel.cu": numbered(300, {1: "first", 150: "", 300: "last"}), "docs/notes.txt": "one"}),
        ("Rename", {"src/other.cpp": None, "src/moved.cpp": numbered(40, {9: "-- nine", 10: "++ ten"})}),
        ("Signs", {"src/moved.cpp": numbered(40, {9: "--- a/x", 10: "+++ b/x", 11: "@@ -1 +1 @@"})}),
        ("Modes", {"docs/notes.txt": executable("one"), "tools/run.sh": None, "empty": ""}),
    ]
    for path in a_fork(tmp_path, 0, steps).patches:
        data = path.read_bytes()
        strict, ours = parse_diffs(data), read_text(data).files
        assert [(one.old, one.new, one.line) for one in strict] == [(one.old, one.new, one.number) for one in ours]
        for one, other in zip(strict, ours, strict=True):
            assert [list(hunk.before) for hunk in one.hunks] == [hunk.before for hunk in other.hunks]
            assert [hunk.context == 0 for hunk in one.hunks] == [hunk.bare for hunk in other.hunks]
            assert [hunk.trailing for hunk in one.hunks] == [hunk.trailing for hunk in other.hunks]
            after = [[line.text for line in hunk.lines if line.sign != b"-"] for hunk in other.hunks]
            assert [list(hunk.after) for hunk in one.hunks] == after
        lines = data.split(b"\n")
        assert all(lines[line.number - 1][1:] == line.text for file in ours for line in file.lines)
        for file in ours:
            assert lines[file.number - 1].startswith(b"diff --git ")
            assert lines[file.end - 1].startswith((b"diff --git ", b"-- "))
            assert [hunk.end for hunk in file.hunks[-1:]] in ([], [file.end])
            for hunk in file.hunks:
                assert all(hunk.number < line.number < hunk.end for line in hunk.lines)
                assert lines[hunk.end - 1][:1] not in (b"+", b"\\")


@pytest.mark.parametrize("path", ["a b.txt", "ü.txt", 'q"uote', "tab\there", "x/b/x b/y"])
def test_names_that_git_quotes_are_read(tmp_path: Path, path: str) -> None:
    contents: list[Content] = ["one\n", executable("one\n"), executable(b"\0"), None]
    fork = a_fork(tmp_path, 0, [(f"Step {n}", {path: content}) for n, content in enumerate(contents)])
    for patch in fork.patches:
        files = read_text(patch.read_bytes()).files
        assert [file.path.decode() for file in files] == [path]
    assert of(fork).clean


# waivers


def waive(rule: str, patch: int | None = None, why: str = "because") -> Waiver:
    return Waiver(rule=rule, patch=patch, why=why, line=12)


def test_a_waiver_lets_a_finding_of_its_patch_pass_and_keeps_the_reason(linted: Linted) -> None:
    result = linted(additive=True, waivers=(waive("additive", 1, "upstream's bug"), waive("additive", 3)))
    assert [finding.number for finding in result.findings] == [2]
    assert [(one.finding.number, one.why) for one in result.waived] == [(1, "upstream's bug"), (3, "because")]


def test_a_waiver_without_a_patch_is_for_all(linted: Linted) -> None:
    result = linted(additive=True, waivers=(waive("additive"),))
    assert result.clean and len(result.waived) == 3


def test_an_unused_waiver_is_a_finding_where_it_is_written(linted: Linted) -> None:
    result = linted(waivers=(waive("additive", 41), waive("names")))
    assert [(f.rule, f.file, f.line, f.number, f.message) for f in result.findings] == [
        ("unused-waiver", "patchstack.yaml", 12, None, "rule additive finds nothing in patch 41: remove the waiver"),
        ("unused-waiver", "patchstack.yaml", 12, None, "rule names finds nothing in any patch: remove the waiver"),
    ]


def test_waivers_that_cannot_be_are_all_told_with_their_lines() -> None:
    assert waiver_problems([waive("aditive", 1), waive("names", 1, "  "), waive("unreadable"), waive("size")]) == [
        "patchstack.yaml:12: waive: there is no rule aditive, perhaps you meant additive",
        "patchstack.yaml:12: waive: a waiver of names needs a reason: why",
        "patchstack.yaml:12: waive: unreadable cannot be waived",
    ]
    assert "there is no rule q, the rules are numbering, names" in waiver_problems([waive("q")])[0]
