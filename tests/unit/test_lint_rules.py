"""The rules of lint: each fires where it should, names the line, and stays silent where it should."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchstack.git.diff import parse_diffs
from patchstack.git.format import patch_ids
from patchstack.git.objects import Objects
from patchstack.series.lint.globs import matching
from patchstack.series.lint.names import slug_of
from patchstack.series.lint.policy import LintPolicy, Waiver
from patchstack.series.lint.runner import RULES, LintResult, lint, waiver_problems
from patchstack.series.lint.text import read_text
from patchstack.series.model import load_series
from tests.builders import (
    Changes,
    Content,
    Fork,
    a_fork,
    edited,
    executable,
    kernel_steps,
    mail,
    new_file,
    new_link,
    numbered,
    write_series,
)

Linted = Callable[..., LintResult]
KEY = "AKIA" + "Q7ZK3M2X9P1L5R8T"


@pytest.fixture
def linted(tmp_path: Path) -> Linted:
    """Lints a series of steps on the builders' upstream, or the series as it stands after a change by hand."""

    def run(
        *steps: tuple[str, Changes],
        by_hand: Callable[[Fork], object] | None = None,
        waivers: tuple[Waiver, ...] = (),
        **policy: Any,
    ) -> LintResult:
        fork = a_fork(tmp_path, 3, steps or None)
        if by_hand is not None:
            by_hand(fork)
        return of(fork, LintPolicy(**policy), waivers)

    return run


def of(fork: Fork, policy: LintPolicy | None = None, waivers: tuple[Waiver, ...] = ()) -> LintResult:
    objects = Objects()
    objects.add_directory(Path(fork.upstream.repo.path) / "objects", "upstream")
    return lint(objects, load_series(fork.series), objects.commit(fork.pin), policy or LintPolicy(), waivers)


def told(result: LintResult) -> list[tuple[str, int | None, str]]:
    return [(finding.rule, finding.number, finding.message) for finding in result.findings]


def line_of(fork_directory: Path, result: LintResult, place: int = 0) -> str:
    """The line of the patch file a finding points at."""
    finding = result.findings[place]
    return (fork_directory / "patches" / finding.file).read_bytes().split(b"\n")[finding.line - 1].decode()


def test_a_plain_series_is_clean(linted: Linted) -> None:
    assert linted().findings == ()


def test_every_rule_has_an_id_of_its_own_and_a_reason_of_one_line() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES) == 14
    assert all(rule.reason and "\n" not in rule.reason for rule in RULES)


# paths


@pytest.mark.parametrize("path", ["RESULTS.md", "notes/run.log", "m.gguf", "build/a.cpp", "src/a.o", "x/__pycache__/y"])
def test_scratch_that_a_patch_adds_is_named(linted: Linted, tmp_path: Path, path: str) -> None:
    result = linted(("Add scratch", {path: "text\n"}))
    assert [(f.rule, f.message.split(":")[0]) for f in result.findings] == [("paths", path)]
    assert line_of(tmp_path, result) == f"diff --git a/{path} b/{path}"


def test_source_beside_scratch_and_upstreams_own_scratch_may_be_touched(linted: Linted) -> None:
    assert linted(("Touch", {"big/untouched.gguf": b"GGUF\1", "src/build/x.cpp": "x\n"})).clean


def test_scratch_is_complained_about_where_it_comes_and_not_where_it_goes(linted: Linted) -> None:
    result = linted(("Add it", {"a.md": "a\n"}), ("Remove it", {"a.md": None}))
    assert [finding.number for finding in result.findings] == [1]


def test_allowed_and_denied_paths_are_as_configured(linted: Linted) -> None:
    steps: list[tuple[str, Changes]] = [
        ("Touch", {"src/a.cpp": "a\n", "docs/notes.txt": "x\n", "src/metal/k.m": "k\n"})
    ]
    result = linted(*steps, allow=("src/**",), deny=("/src/metal/",), scratch=())
    assert told(result) == [
        ("paths", 1, "docs/notes.txt: not among the paths that patches may touch (src/**)"),
        ("paths", 1, "src/metal/k.m: no patch may touch /src/metal/"),
    ]


@pytest.mark.parametrize(
    ("glob", "path", "holds"),
    [
        ("*.md", "a/b/c.md", True),
        ("*.md", "a.mdx", False),
        ("src/*.cpp", "src/a.cpp", True),
        ("src/*.cpp", "src/a/b.cpp", False),
        ("src/**", "src/a/b.cpp", True),
        ("src/**/b.cpp", "src/b.cpp", True),
        ("**", "any/thing", True),
        ("build/", "x/build/y", True),
        ("build/", "build", False),
        ("/build/", "x/build/y", False),
        ("src", "src/a", True),
        ("src", "srcs/a", False),
        ("a?c[0-9]", "abc7", True),
        ("a[!b]c", "abc", False),
        ("[", "[", True),
    ],
)
def test_globs_are_those_of_gitignore(glob: str, path: str, holds: bool) -> None:
    assert (matching(path, [glob]) == glob) is holds


# additive


def test_removing_and_changing_upstreams_lines_is_free_unless_the_policy_says_additive(linted: Linted) -> None:
    assert linted(additive=False).clean


def test_a_changed_line_of_upstream_is_named(linted: Linted, tmp_path: Path) -> None:
    result = linted(*kernel_steps([1]), additive=True)
    assert told(result) == [("additive", 1, "src/kernel.cu: removes or changes upstream's line `line 10`")]
    assert line_of(tmp_path, result) == "-line 10"


def test_removed_lines_that_stand_together_are_one_finding(linted: Linted) -> None:
    lines = numbered(40).splitlines(keepends=True)
    result = linted(("Remove", {"src/other.cpp": "".join(lines[:9] + lines[12:])}), additive=True)
    assert told(result) == [
        ("additive", 1, "src/other.cpp: removes or changes 3 lines of upstream's, the first `line 10`")
    ]


def test_a_line_that_an_earlier_patch_added_may_go_even_if_upstream_has_its_like(linted: Linted) -> None:
    with_own = numbered(20) + "own\nline 5\nown too\n" + "".join(f"line {n}\n" for n in range(21, 41))
    without = numbered(20) + "own\nown too\n" + "".join(f"line {n}\n" for n in range(21, 41))
    steps: list[tuple[str, Changes]] = [("Add", {"src/other.cpp": with_own}), ("Drop", {"src/other.cpp": without})]
    assert linted(*steps, ("Drop the rest", {"src/other.cpp": numbered(40)}), additive=True).clean


def test_upstreams_line_is_upstreams_even_below_a_like_one_of_ours(linted: Linted) -> None:
    ours = numbered(20) + "line 30\n" + "".join(f"line {n}\n" for n in range(21, 41))
    gone = "".join(line for n, line in enumerate(ours.splitlines(keepends=True)) if n != 30)
    result = linted(("Add", {"src/other.cpp": ours}), ("Drop", {"src/other.cpp": gone}), additive=True)
    assert [(finding.rule, finding.number) for finding in result.findings] == [("additive", 2)]


def test_a_file_of_ours_may_be_changed_moved_and_removed(linted: Linted) -> None:
    steps: list[tuple[str, Changes]] = [
        ("Add", {"own/a.cpp": numbered(20)}),
        ("Change", {"own/a.cpp": numbered(20, {3: "three"})}),
        ("Move", {"own/a.cpp": None, "own/b.cpp": numbered(20, {3: "three"})}),
        ("Remove", {"own/b.cpp": None}),
    ]
    assert linted(*steps, additive=True).clean


def test_a_file_of_upstream_may_not_be_moved_removed_or_replaced(linted: Linted) -> None:
    steps: list[tuple[str, Changes]] = [
        ("Move", {"src/other.cpp": None, "src/moved.cpp": numbered(40)}),
        ("Remove", {"docs/notes.txt": None}),
        ("Replace", {"big/untouched.gguf": b"\0\1\2"}),
    ]
    assert told(linted(*steps, additive=True)) == [
        ("additive", 1, "src/other.cpp: moves upstream's file to src/moved.cpp"),
        ("additive", 2, "docs/notes.txt: deletes upstream's file"),
        ("additive", 3, "big/untouched.gguf: replaces upstream's binary file"),
    ]


def test_a_newline_at_the_end_for_an_addition_below_is_no_change(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 0)
    fork.pin = fork.upstream.commit("No newline", {"end": "a\nb"})
    fork.repo.git("fetch", "-q", fork.upstream.path)
    fork.repo.branch("product", fork.pin)
    fork.repo.commit("Append", {"end": "a\nb\nours\n"})
    fork.repo.commit("Change upstream's", {"end": "a\nB\nours\n"})
    fork.export()
    assert [(finding.rule, finding.number) for finding in of(fork, LintPolicy(additive=True)).findings] == [
        ("additive", 2)
    ]


def test_an_anchored_patch_is_followed_to_its_exact_place(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 0)
    same = "x\n" * 9
    fork.pin = fork.upstream.commit("Same lines", {"same": same})
    after = fork.upstream.commit("Add", {"same": "x\n" * 4 + "own\n" + "x\n" * 5})
    last = fork.upstream.commit("Remove", {"same": "x\n" * 4 + "own\n" + "x\n" * 4})
    diffs = [fork.upstream.diff(a, b, "-U0", "--full-index") for a, b in ((fork.pin, after), (after, last))]
    write_series(fork.series, {"0001-Add.anchored": mail("Add", diffs[0]), "0002-Rm.anchored": mail("Rm", diffs[1])})
    result = of(fork, LintPolicy(additive=True))
    assert told(result) == [("additive", 2, "same: removes or changes upstream's line `x`")]


# numbering and names


def rename(old: int, name: str) -> Callable[[Fork], object]:
    return lambda fork: fork.patch(old).rename(fork.series / name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Change-2-of-a-kernel.patch", "the file name has no number: it starts with four digits and a dash"),
        ("02-Change-2-of-a-kernel.patch", "the number 02 does not have four digits (0002)"),
    ],
)
def test_a_number_of_four_digits_is_wanted(linted: Linted, name: str, message: str) -> None:
    result = linted(by_hand=rename(2, name))
    assert message in [finding.message for finding in result.findings if finding.rule == "numbering"]


def test_numbers_that_fall_in_file_order_are_named(linted: Linted) -> None:
    result = linted(by_hand=rename(1, "10000-Change-1-of-a-kernel.patch"))
    assert "number 2 stands behind" not in str(told(result))
    result = of_series_with_falling_numbers(result)
    assert [finding.message for finding in result.findings if "stands behind" in finding.message] == [
        "number 9999 stands behind number 10000 (10000-Change-1-of-a-kernel.patch) in file order"
    ]


def of_series_with_falling_numbers(_: LintResult) -> LintResult:
    fork = Path.cwd()
    (fork / "patches/0003-Change-3-of-a-kernel.patch").rename(fork / "patches/9999-Change-3-of-a-kernel.patch")
    (fork / "patches/0002-Change-2-of-a-kernel.patch").unlink()
    upstream = Path.cwd() / "upstream" / ".git" / "objects"
    objects = Objects()
    objects.add_directory(upstream, "upstream")
    pin = (Path.cwd() / "upstream/.git/refs/heads/main").read_text().strip()
    return lint(objects, load_series(fork / "patches"), objects.commit(pin), LintPolicy())


def test_gaps_in_the_numbers_are_no_finding(linted: Linted) -> None:
    assert linted(by_hand=rename(3, "0017-Change-3-of-a-kernel.patch")).clean


@pytest.mark.parametrize(
    ("subject", "slug", "fits"),
    [
        ("Change it all", "Change-it-all", True),
        ("Change it all", "Change-it", True),
        ("Change it all", "change-all", True),
        ("feat(paged): in-place state (patch 0018)", "paged-inplace-state", True),
        ("A subject that is cut somewhere", "A-subject-that-is-cut-some", True),
        ("[tag] Brackets", "tag-Brackets", True),
        ("Ümläut ✓ work", "ml-ut-work", True),
        ("Change it all", "Leave-it-all", False),
        ("Change 2 of a kernel", "Change-3-of-a-kernel", False),
        ("Change it all", "Change-it-all-and-more", False),
    ],
)
def test_a_name_is_a_shortening_of_the_subject(linted: Linted, subject: str, slug: str, fits: bool) -> None:
    def named(fork: Fork) -> None:
        fork.patches[0].rename(fork.series / f"0001-{slug}.patch")

    result = linted((subject, {"src/other.cpp": numbered(40, {3: "x"})}), by_hand=named)
    assert [finding.rule for finding in result.findings] == ([] if fits else ["names"])


def test_the_name_git_would_give_is_told(linted: Linted) -> None:
    subject = "A subject (with brackets) that is so long that git will certainly cut it.."
    fork: list[str] = []

    def wrong(made: Fork) -> None:
        fork.append(made.patches[0].name)
        made.patches[0].rename(made.series / "0001-wrong.patch")

    result = linted((subject, {"src/other.cpp": numbered(40, {3: "x"})}), by_hand=wrong)
    assert [finding.line for finding in result.findings] == [4]
    assert result.findings[0].message == f"the subject is `{subject}`: git would name the file {fork[0]}"


@pytest.mark.parametrize("subject", ["a..b...c", "trailing dot.", "-x- y", "ä/ö", "under_score.and.dot", "[x] y"])
def test_slugs_are_gits_own(tmp_path: Path, subject: str) -> None:
    fork = a_fork(tmp_path, 1, [(subject, {"x": "x\n"})])
    if subject.startswith("["):
        subject = subject.replace("[x] ", "x ")
    assert fork.patches[0].name == f"0001-{slug_of(subject)}.patch"


def test_an_insertion_without_context_is_told_to_be_anchored(linted: Linted) -> None:
    def add(fork: Fork) -> None:
        write_series(
            fork.series, {"0004-Insert.patch": mail("Insert", edited("docs/notes.txt", "@@ -2,0 +3 @@\n+new\n"))}
        )

    result = linted(by_hand=add)
    assert told(result) == [
        (
            "names",
            4,
            "docs/notes.txt: @@ -2,0 +3 @@ has no context, so git apply puts it at the end of the file: give it "
            "context, or the suffix .anchored",
        )
    ]


@pytest.mark.parametrize("name", ["0004-More.diff", "0004-More.patch.orig", "0004-More.PATCH"])
def test_a_file_that_only_looks_like_a_patch_is_named(linted: Linted, name: str) -> None:
    result = linted(by_hand=lambda fork: write_series(fork.series, {name: b"x", "series.lock": b"x", "README": b"x"}))
    assert [(f.rule, f.file, f.message) for f in result.findings] == [
        ("names", name, "it looks like a patch, but only *.patch and *.anchored are applied")
    ]


# duplicates


def test_a_change_that_comes_twice_is_named_with_the_first(linted: Linted) -> None:
    added = "int ours(void);\nint more(void);\nint last(void);\n"
    once = numbered(20) + added + "".join(f"line {n}\n" for n in range(21, 41))
    twice = numbered(20) + added + added + "".join(f"line {n}\n" for n in range(21, 41))
    result = linted(("Add", {"src/other.cpp": once}), ("Add again", {"src/other.cpp": twice}))
    assert told(result) == [("duplicate", 2, "it makes the same change as 0001-Add.patch")]


def test_a_short_like_change_elsewhere_is_no_duplicate(linted: Linted) -> None:
    assert linted(
        ("Add", {"src/other.cpp": numbered(40, {3: "line 3\n}"})}),
        ("Add more", {"src/other.cpp": numbered(40, {3: "line 3\n}", 30: "line 30\n}"})}),
    ).clean


def test_patches_of_one_patch_id_are_duplicates(linted: Linted) -> None:
    change: Changes = {"docs/notes.txt": "one\n2\nthree\n"}
    steps: list[tuple[str, Changes]] = [("On", change), ("Off", {"docs/notes.txt": "one\ntwo\nthree\n"})]
    result = linted(*steps, ("On again", change))
    assert told(result) == [("duplicate", 3, "it makes the same change as 0001-On.patch")]
    ids = patch_ids([(Path("patches") / name).read_bytes() for name in ("0001-On.patch", "0003-On-again.patch")])
    assert ids[0] == ids[1]


@pytest.mark.parametrize("data", [b"", b"words\n", mail("Nothing", b"")])
def test_a_patch_without_a_diff_is_named_once(linted: Linted, data: bytes) -> None:
    result = linted(by_hand=lambda fork: write_series(fork.series, {"0004-Nothing.patch": data}))
    assert told(result) == [("duplicate", 4, "there is no diff in it")]


def test_mode_changes_binary_files_and_links_alike_are_told_apart(linted: Linted) -> None:
    steps: list[tuple[str, Changes]] = [
        ("Mode", {"docs/notes.txt": executable("one\ntwo\nthree\n")}),
        ("Mode back", {"docs/notes.txt": "one\ntwo\nthree\n"}),
        ("Bytes", {"big/untouched.gguf": b"\0\1"}),
        ("Other bytes", {"big/untouched.gguf": b"\0\2"}),
    ]
    assert linted(*steps).clean


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
        ("size", 1, "the patch has 10 KiB, over 8"),
        ("size", 1, "src/much.cpp: 900 added lines, over 800"),
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
    assert line_of(Path.cwd(), result).startswith("@@ -17,7 +17,7 @@")


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
            assert [hunk.trailing for hunk in one.hunks] == [hunk.trailing for hunk in other.hunks]
            after = [[line.text for line in hunk.lines if line.sign != b"-"] for hunk in other.hunks]
            assert [list(hunk.after) for hunk in one.hunks] == after
        lines = data.split(b"\n")
        assert all(lines[line.number - 1][1:] == line.text for file in ours for line in file.lines)


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
        ("unused-waiver", "patchstack.yaml", 12, None, "nothing of additive is found in patch 41: take the waiver out"),
        ("unused-waiver", "patchstack.yaml", 12, None, "nothing of names is found in any patch: take the waiver out"),
    ]


def test_waivers_that_cannot_be_are_all_told_with_their_lines() -> None:
    assert waiver_problems([waive("aditive", 1), waive("names", 1, "  "), waive("unreadable"), waive("size")]) == [
        "patchstack.yaml:12: waive: there is no rule aditive, perhaps you meant additive",
        "patchstack.yaml:12: waive: a waiver of names needs a reason: why",
        "patchstack.yaml:12: waive: unreadable cannot be waived",
    ]
    assert "there is no rule q, the rules are numbering, names" in waiver_problems([waive("q")])[0]
