"""The rules of lint: each fires where it should, names the line, and stays silent where it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.git.format import patch_ids
from patchstack.git.objects import Objects
from patchstack.series.files.directory import load_series
from patchstack.series.lint.globs import matching
from patchstack.series.lint.names import sanitized
from patchstack.series.lint.runner import RULES, LintResult, lint
from patchstack.workspace import LintPolicy
from tests.support.builders import (
    Changes,
    Fork,
    a_fork,
    edited,
    executable,
    kernel_steps,
    mail,
    numbered,
    write_series,
)
from tests.support.linting import Linted, line_of, of, rename, told


def test_a_plain_series_is_clean(linted: Linted) -> None:
    assert linted().findings == ()


def test_every_rule_has_an_id_of_its_own_and_a_reason_of_one_line() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES) == 16
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


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("0002b-Change-2-of-a-kernel.patch", "the file name has no number: it must start with four digits and a dash"),
        ("02-Change-2-of-a-kernel.patch", "the number 02 does not have four digits (0002)"),
    ],
)
def test_a_number_of_four_digits_is_wanted(linted: Linted, name: str, message: str) -> None:
    result = linted(by_hand=rename(2, name))
    assert message in [finding.message for finding in result.findings if finding.rule == "numbering"]


def test_numbers_that_fall_in_file_order_are_named(linted: Linted) -> None:
    result = linted(by_hand=rename(1, "10000-Change-1-of-a-kernel.patch"))
    assert "number 2 follows" not in str(told(result))
    result = of_series_with_falling_numbers(result)
    assert [finding.message for finding in result.findings if "follows number" in finding.message] == [
        "number 9999 follows number 10000 (10000-Change-1-of-a-kernel.patch) in file order"
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
    assert fork.patches[0].name == f"0001-{sanitized(subject)}.patch"


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


@pytest.mark.parametrize("name", ["0004-More.diff~", "0004-More.patch.orig", "0004-More.PATCH"])
def test_a_file_that_only_looks_like_a_patch_is_named(linted: Linted, name: str) -> None:
    result = linted(by_hand=lambda fork: write_series(fork.series, {name: b"x", "series.lock": b"x", "README": b"x"}))
    assert [(f.rule, f.file, f.message) for f in result.findings] == [
        ("names", name, "it looks like a patch, but its suffix is not that of a patch, so it is not applied")
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
