"""Forms of patches: suffixes, packed files, mailboxes, cover letters, names of any depth, shared numbers."""

from __future__ import annotations

import bz2
import gzip
import lzma
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from patchstack.errors import ConfigError
from patchstack.series.files import directory, packed
from patchstack.series.files.depth import TooShallow, rewritten
from patchstack.series.files.directory import load_series
from patchstack.series.files.mailbox import split_mails
from tests.conftest import RunCli
from tests.support.builders import (
    Changes,
    Fork,
    RepoBuilder,
    a_fork,
    edited,
    executable,
    mail,
    new_file,
    run_git,
    write_series,
)
from tests.support.oracle import STRICT, hermetic_environment

DIFF = edited("docs/notes.txt", "@@ -1,3 +1,4 @@\n+zero\n one\n two\n three\n")


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    return a_fork(tmp_path, 3)


def verify(run_cli: RunCli, fork: Fork, directory: Path, *options: str) -> dict[str, object]:
    ran = run_cli("verify", "--patches", directory, *fork.sources[2:], "--apply-only", "--json", *options)
    return ran.document


# suffixes and packed files


def test_packed_patches_give_the_tree_of_the_plain_ones(fork: Fork, run_cli: RunCli) -> None:
    expected = verify(run_cli, fork, fork.series)["applied_tree"]
    texts = [path.read_bytes() for path in fork.patches]
    other = write_series(
        fork.series.parent / "packed",
        {
            "0001-a.patch.gz": gzip.compress(texts[0]),
            "0002-b.diff.xz": lzma.compress(texts[1][:500]) + lzma.compress(texts[1][500:]),
            "0003-c.patch.bz2": bz2.compress(texts[2]),
        },
    )
    document = verify(run_cli, fork, other)
    assert (document["applied_tree"], document["applied_count"]) == (expected, 3)


@pytest.mark.parametrize(
    ("file", "data", "complaint"),
    [
        ("0001-a.patch.gz", b"no gzip", "it cannot be decompressed: Not a gzipped file (b'no')"),
        ("0001-a.patch.gz", gzip.compress(DIFF)[:-6], "it cannot be decompressed: Compressed file ended before"),
        ("0001-a.patch.xz", lzma.compress(DIFF)[:-6], "it cannot be decompressed: the file is truncated"),
        ("0001-a.patch.xz", b"", "it cannot be decompressed: the file is truncated"),
        ("0001-a.patch.bz2", bz2.compress(DIFF)[:-6], "it cannot be decompressed: Compressed file ended before"),
        (
            "0001-a.patch.zst",
            b"\x28\xb5\x2f\xfd",
            "Zstandard is not supported; run 'zstd -d 0001-a.patch.zst' to decompress the file to 0001-a.patch",
        ),
    ],
    # Names of our own: gzip writes the time into its bytes, and two workers must collect the same names.
    ids=["gz-no-gzip", "gz-cut", "xz-cut", "xz-empty", "bz2-cut", "zst"],
)
def test_what_cannot_be_unpacked_is_named(tmp_path: Path, file: str, data: bytes, complaint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_series(write_series(tmp_path / "s", {file: data}))
    assert refused.value.problems[0].startswith(f"{file}: {complaint}")


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [("gz", gzip.compress), ("xz", lzma.compress), ("bz2", bz2.compress)],
    ids=["gz", "xz", "bz2"],
)
def test_what_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, compress: object
) -> None:
    assert callable(compress)
    monkeypatch.setattr(packed, "LARGEST_UNPACKED", 1 << 20)
    for size, fits in ((1 << 20, True), ((1 << 20) + 1, False), (1 << 24, False)):
        directory = write_series(tmp_path / "s", {f"0001-a.patch.{suffix}": compress(b"x" * size)})
        if fits:
            assert load_series(directory).patches[0].data == b"x" * size
        else:
            with pytest.raises(ConfigError) as refused:
                load_series(directory)
            assert refused.value.problems == (f"0001-a.patch.{suffix}: it decompresses to more than 1 MiB",)


def test_packed_patches_that_are_too_much_together_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory._Room, "LARGEST", 1 << 20)
    one = gzip.compress(b"x" * (400 << 10))
    assert len(load_series(write_series(tmp_path / "s", {f"000{at}-a.patch.gz": one for at in (1, 2)})).patches) == 2
    with pytest.raises(ConfigError) as refused:
        load_series(write_series(tmp_path / "t", {f"000{at}-a.patch.gz": one for at in (1, 2, 3, 4)}))
    told = "the compressed patches of the series decompress to more than 1 MiB in total"
    assert refused.value.problems == (f"0003-a.patch.gz: {told}", f"0004-a.patch.gz: {told}")


# mailboxes and cover letters

COVER = (
    b"From " + b"0" * 40 + b" Mon Sep 17 00:00:00 2001\nFrom: A U Thor <author@example.com>\n"
    b"Date: Sun, 15 Jun 2025 15:06:40 +0000\nSubject: [PATCH 0/2] Two changes\n\nWhy.\n\n"
    b"A U Thor (2):\n  One\n  Two\n\n"
    b" docs/notes.txt | 2 ++\n 1 file changed, 2 insertions(+)\n\n-- \n2.39.5\n\n"
)


def test_a_mailbox_is_as_many_patches_as_it_has_mails(fork: Fork, run_cli: RunCli) -> None:
    box = COVER + b"".join(path.read_bytes() for path in fork.patches)
    directory = write_series(fork.series.parent / "box", {"all.mbox": box})
    document = verify(run_cli, fork, directory)
    rows = document["patches"]
    assert isinstance(rows, list)
    assert [(row["file"], row["subject"]) for row in rows] == [
        ("all.mbox#2", "Change 1 of a kernel"),
        ("all.mbox#3", "Change 2 of a kernel"),
        ("all.mbox#4", "Change 3 of a kernel"),
    ]
    assert [row["tree"] for row in rows] == fork.trees
    assert document["warnings"] == ["all.mbox#1 is not applied: it is a cover letter, without a diff"]


def test_a_mail_without_a_diff_is_named_with_its_line(tmp_path: Path) -> None:
    reply = COVER.replace(b"[PATCH 0/2] Two changes", b"Re: Two changes")
    series = load_series(write_series(tmp_path / "s", {"x.mbox": mail("One", DIFF) + reply}))
    assert [patch.file for patch in series.patches] == ["x.mbox#1"]
    line = mail("One", DIFF).count(b"\n") + 1
    assert series.warnings == (f"x.mbox#2 is not applied: the mail at line {line} contains no diff",)


def test_a_cover_letter_beside_the_patches_is_skipped_and_named(fork: Fork, run_cli: RunCli) -> None:
    write_series(fork.series, {"0000-cover-letter.patch": COVER})
    document = verify(run_cli, fork, fork.series)
    assert (document["applied_count"], document["patch_count"]) == (3, 3)
    assert document["warnings"] == ["0000-cover-letter.patch is not applied: it is a cover letter, without a diff"]


def test_a_patch_with_number_0_is_no_cover_letter(fork: Fork, run_cli: RunCli) -> None:
    write_series(fork.series, {"0000-first.patch": mail("First", new_file("first.txt"))})
    assert verify(run_cli, fork, fork.series)["applied_count"] == 4


def test_a_mailbox_is_split_as_git_mailsplit_splits_it(fork: Fork, tmp_path: Path) -> None:
    texts = [path.read_bytes() for path in fork.patches]
    quoted = texts[0].replace(b"\n---\n", b"\nFrom here on: a line.\n>From there\nFrom 1 Mon Sep 17\n\n---\n", 1)
    box = quoted + texts[1] + COVER + texts[2]
    (tmp_path / "box").write_bytes(box)
    out = tmp_path / "out"
    out.mkdir()
    run_git("mailsplit", f"-o{out}", tmp_path / "box", cwd=tmp_path)
    assert [data for _, data in split_mails(box)] == [path.read_bytes() for path in sorted(out.iterdir())]


# two patches of one number


def test_patches_of_one_number_are_in_the_order_of_their_names(fork: Fork, run_cli: RunCli, tmp_path: Path) -> None:
    directory = write_series(
        fork.series.parent / "twice",
        {
            "0002-b.patch": new_file("b"),
            "0001-z.patch": new_file("z"),
            "0001-a.patch": new_file("a"),
        },
    )
    rows = verify(run_cli, fork, directory)["patches"]
    assert isinstance(rows, list)
    assert [row["file"] for row in rows] == ["0001-a.patch", "0001-z.patch", "0002-b.patch"]
    series = load_series(directory)
    with pytest.raises(ConfigError, match="more than one patch has number 1") as refused:
        series.up_to(1)
    assert refused.value.problems == ("0001-a.patch", "0001-z.patch")
    assert refused.value.hint == "use the name of the patch, for example 0001-a"
    for name, count in {"0001-a": 1, "0001-z": 2, "0001-z.patch": 2, "2": 3, "0002": 3, "0002-b": 3}.items():
        assert len(series.up_to(name).patches) == count, name
    with pytest.raises(ConfigError, match="more than one patch name begins with 0001-"):
        series.up_to("0001-")
    with pytest.raises(ConfigError, match="no patch is named nothing"):
        series.up_to("nothing")


# depth of names

SVN = (
    b"Index: docs/notes.txt\n===================================================================\n"
    b"--- docs/notes.txt\t(revision 7)\n+++ docs/notes.txt\t(working copy)\n"
    b"@@ -1,3 +1,4 @@\n+zero\n one\n two\n three\n"
)
MERCURIAL = (
    b"# HG changeset patch\n# User A U Thor <author@example.com>\n# Date 1750000000 0\n# Node ID 1\n# Parent  0\n"
    b"Add zero\n\ndiff -r 0 -r 1 docs/notes.txt\n"
    b"--- a/docs/notes.txt\tThu Jan 01 00:00:00 1970 +0000\n+++ b/docs/notes.txt\tSun Jun 15 15:06:40 2025 +0000\n"
    b"@@ -1,3 +1,4 @@\n+zero\n one\n two\n three\n"
)
PLAIN = (
    b"diff -ru llama.cpp.orig/docs/notes.txt llama.cpp/docs/notes.txt\n"
    b"--- llama.cpp.orig/docs/notes.txt\t2025-06-15 15:06:40.000000000 +0000\n"
    b"+++ llama.cpp/docs/notes.txt\t2025-06-15 15:07:40.000000000 +0000\n"
    b"@@ -1,3 +1,4 @@\n+zero\n one\n two\n three\n"
)
DEEP = PLAIN.replace(b"llama.cpp.orig/", b"/home/me/orig/").replace(b"llama.cpp/", b"/home/me/new/")


@pytest.mark.parametrize(
    ("data", "strip"), [(SVN, 0), (MERCURIAL, None), (PLAIN, None), (DEEP, 4)], ids=["svn", "hg", "diff -u", "deep"]
)
def test_other_tools_patches_give_the_tree_of_gits(fork: Fork, run_cli: RunCli, data: bytes, strip: int | None) -> None:
    directory = write_series(fork.series.parent / "git", {"0001-x.patch": DIFF})
    expected = verify(run_cli, fork, directory)["applied_tree"]
    directory = write_series(fork.series.parent / "other", {"0001-x.diff": data})
    document = verify(run_cli, fork, directory)
    assert document["applied_tree"] == expected
    said = f"names are read with -p{strip}: it is the only depth at which every file exists (-p N to choose)"
    assert document["warnings"] == ([] if strip is None else [said])
    tree = fork.series.parent / "tree"
    (tree / "docs").mkdir(parents=True)
    (tree / "docs/notes.txt").write_text("one\ntwo\nthree\n")
    ran = run_cli("apply", "--patches", directory, tree, "--check")
    assert ran.code == 0
    assert ran.stderr == ("" if strip is None else f"warning: {said}\n")


def test_a_depth_is_guessed_only_if_one_alone_fits_the_whole_series(fork: Fork, run_cli: RunCli) -> None:
    upstream = fork.upstream
    pin = upstream.commit("Both", {"docs/docs/notes.txt": "one\ntwo\nthree\n", "notes.txt": "one\ntwo\nthree\n"})
    directory = write_series(
        fork.series.parent / "both", {"0001-x.patch": SVN.replace(b"docs/notes", b"x/docs/docs/notes")}
    )

    def run(*options: str) -> tuple[object, object]:
        sources = ["--patches", str(directory), "--upstream", str(upstream.path), "--pin", pin]
        document = run_cli("verify", *sources, "--apply-only", "--json", *options).document
        return document["applied_count"], document["warnings"]

    # x/docs/docs/notes.txt, docs/docs/notes.txt (git's own -p1), docs/notes.txt, notes.txt: three fit, git's is taken.
    assert run() == (1, [])
    assert run("-p", "2") == run("-p", "3") == (1, [])
    write_series(directory, {"0001-x.patch": SVN.replace(b"docs/notes", b"x/y/docs/notes")})
    assert run() == (0, [])  # two other depths fit: none is guessed
    assert run("-p2") == (1, [])


def test_a_depth_that_names_do_not_have_is_refused(fork: Fork, run_cli: RunCli) -> None:
    directory = write_series(fork.series.parent / "svn", {"0001-x.patch": SVN})
    ran = run_cli("verify", "--patches", directory, *fork.sources[2:], "--apply-only", "-p", "3")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == (
        f"error: the patches of {directory} cannot be read with -p3\n"
        "  - 0001-x.patch: line 3: the name docs/notes.txt does not have 3 directories to remove (-p 3)\n"
    )


def test_a_series_file_gives_depths_of_its_own(fork: Fork, run_cli: RunCli) -> None:
    hunk = b"@@ -1,4 +1,5 @@\n zero\n+again\n one\n two\n three\n"
    second = PLAIN[: PLAIN.index(b"@@")] + hunk
    third = DEEP[: DEEP.index(b"@@")] + hunk.replace(b" one", b" again\n one").replace(b"1,4 +1,5", b"1,5 +1,6")
    directory = write_series(
        fork.series.parent / "q", {"a": SVN, "b": second, "c": third, "series": b"a -p0\nb\nc -p4\n"}
    )
    assert verify(run_cli, fork, directory)["applied_count"] == 3
    assert verify(run_cli, fork, directory, "-p1")["applied_count"] == 3


PARTS = st.text('ab .ü\t\\"-', min_size=1, max_size=4).filter(lambda part: set(part) != {"."} and part.strip() == part)
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    one=PATHS,
    other=PATHS,
    depth=st.sampled_from([0, 2, 3]),
    kind=st.sampled_from(["edit", "new", "gone", "rename", "mode", "plain"]),
)
def test_names_of_another_depth_are_read_as_git_apply_reads_them(
    tmp_path_factory: pytest.TempPathFactory, one: str, other: str, depth: int, kind: str
) -> None:
    assume(one != other and not other.startswith(one + "/") and not one.startswith(other + "/"))
    directory = tmp_path_factory.mktemp("depth")
    repo = RepoBuilder(directory / "repo")
    text = "".join(f"{n}\n" for n in range(9))
    pin = repo.commit("Base", {one: text})
    changes: dict[str, Changes] = {
        "edit": {one: text.replace("4", "four")},
        "plain": {one: text.replace("4", "four")},
        "new": {other: "new\n"},
        "gone": {one: None},
        "rename": {one: None, other: text.replace("4", "four")},
        "mode": {one: executable(text)},
    }
    after = repo.commit("Change", changes[kind])
    before = {0: "", 2: "x/", 3: "y/x/"}[depth]
    prefix = [f"--src-prefix={before}a/", f"--dst-prefix={before}b/"] if depth else ["--no-prefix"]
    patch = run_git("diff", *prefix, "-M", pin, after, cwd=repo.path).stdout
    if depth != 0 and kind == "rename":
        return  # git writes rename lines without any prefix, and -p2 would take more off them
    if kind == "plain":
        lines = patch.split(b"\n")
        patch = b"\n".join(lines[next(n for n, line in enumerate(lines) if line.startswith(b"--- ")) :])
    assert _applied(repo.path, pin, patch, f"-p{depth}") == repo.tree(after)
    assert _applied(repo.path, pin, rewritten(patch, depth)) == repo.tree(after)


def _applied(repo: Path, pin: str, patch: bytes, *options: str) -> str | None:
    environment = hermetic_environment(GIT_INDEX_FILE=str(repo / "index"))

    def git(*args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["git", *args], cwd=repo, env=environment, input=stdin, capture_output=True)

    git("read-tree", pin)
    if git(*STRICT, "apply", "--cached", *options, "-", stdin=patch).returncode:
        return None
    return git("write-tree").stdout.decode().strip()


def test_names_in_hunks_are_not_taken_for_names() -> None:
    lines = b"--- x\n+++ x\n@@ -1,4 +1,3 @@\n one\n--- a/y\n-+++ b/y\n+++ c/y\n two\n"
    assert rewritten(lines, 0) == b"--- a/x\n+++ b/x\n" + lines.split(b"\n", 2)[2]
    with pytest.raises(TooShallow, match="line 1: the name x does not have 2 directories"):
        rewritten(lines, 2)
