"""Patches of every kind, valid and invalid: verify's state, compared with git's own verdict and tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Ran, RunCli
from tests.support.builders import (
    Changes,
    an_upstream,
    edited,
    executable,
    new_file,
    new_link,
    numbered,
    symlink,
    the_oracle,
    write_series,
)

FILES: Changes = {
    "src/a.cpp": numbered(40),
    "notes.txt": "one\ntwo\nthree\n",
    "no-newline.txt": "one\ntwo",
    "run.sh": executable("#!/bin/sh\n"),
    "link": symlink("src"),
    "table.bin": b"\0\1\2\3" * 20,
    "with space.txt": "a\nb\nc\n",
    "empty": "",
}
NOTE = edited("notes.txt", "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n")


class Ground:
    """An upstream, with git's verdict on patches that are applied to it one after the other."""

    def __init__(self, directory: Path, run_cli: RunCli) -> None:
        self.upstream, self.pin = an_upstream(directory, FILES)
        # A second copy of the repository, so that the upstream never has the objects that a patch makes.
        (directory / "author").mkdir()
        self.author, _ = an_upstream(directory / "author", FILES)
        self.series = directory / "patches"
        self.oracle = the_oracle(directory / "oracle", self.upstream)
        self._run_cli = run_cli

    def verify(self, *patches: bytes) -> Ran:
        """Verify patches, after comparing every tree with git's."""
        write_series(self.series, {f"{number:04d}-x.patch": data for number, data in enumerate(patches, 1)})
        trees: list[str | None] = []
        at: str | None = self.upstream.tree(self.pin)
        for data in patches:
            at = self.oracle.apply(at, data) if at else None
            trees.append(at)
        options = [
            "--patches",
            str(self.series),
            "--upstream",
            str(self.upstream.path),
            "--pin",
            self.pin,
            "--apply-only",
        ]
        ran = self._run_cli("verify", *options, "--json")
        assert [patch["tree"] for patch in ran.document["patches"]] == trees
        assert ran.code == (0 if at else 1)
        assert self._run_cli("verify", *options).code == ran.code
        return ran


@pytest.fixture
def ground(tmp_path: Path, run_cli: RunCli) -> Ground:
    return Ground(tmp_path, run_cli)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the file is empty"),
        (b"\n", "the file is empty"),
        (b"From nobody\n\nJust words.\n", "there is no diff in it"),
        (b"\x00\xff\xfegarbage" * 50, "there is no diff in it"),
        (b"\x1f\x8b\x08\x00" + bytes(range(256)), "there is no diff in it"),
        (NOTE[:-8], "corrupt patch at line 7"),
        (NOTE[:40], "there is no diff in it"),
        (NOTE.replace(b"@@ -1,3 +1,3 @@", b"@@ -1,9 +1,9 @@"), "corrupt patch at line 9"),
        (NOTE.replace(b"@@ -1,3 +1,3 @@\n", b""), "patch with only garbage at line 4"),
        (NOTE.replace(b"+2", b"*2"), "corrupt patch at line 7"),
        (b"<<<<<<< ours\n" + NOTE.replace(b"+2", b"=======\n+2"), "corrupt patch at line 8"),
        (
            NOTE.replace(b"diff --git", b"diff --git a/x b/x\nnew file mode 999\ndiff --git"),
            "invalid mode on line 2: 999",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_patch_is_malformed_and_says_why(ground: Ground, data: bytes, words: str) -> None:
    patch = ground.verify(data).document["patches"][0]
    assert patch["state"] == "malformed"
    assert words in patch["detail"]


def test_a_patch_mangled_to_crlf_says_so(ground: Ground) -> None:
    patch = ground.verify(NOTE.replace(b"\n", b"\r\n")).document["patches"][0]
    assert patch["state"] in ("malformed", "conflict", "missing-file")
    assert "its lines end in CRLF: sed -i 's/\\r$//' removes it" in patch["detail"]


def test_a_patch_mangled_to_crlf_behind_its_head_says_so(ground: Ground) -> None:
    head, _, hunks = NOTE.partition(b"@@")
    patch = ground.verify(head + b"@@" + hunks.replace(b"\n", b"\r\n")).document["patches"][0]
    assert patch["state"] == "conflict"
    assert "CRLF" in patch["detail"]


def test_nul_bytes_in_a_text_patch_are_judged_as_git_judges_them(ground: Ground) -> None:
    ground.verify(NOTE.replace(b"+2", b"+2\0"))
    ground.verify(NOTE.replace(b" three", b" thr\0ee"))


@pytest.mark.parametrize(
    "path",
    [
        *("../x", "/etc/x", ".git/config", ".GIT/x", "git~1/config", "src/../../x", "src/.git/hooks/post-checkout"),
        *(".git\u200c/config", "./x", ".git"),
    ],
)
def test_a_path_outside_the_tree_or_in_git_is_unsafe_and_named(ground: Ground, path: str) -> None:
    ran = ground.verify(new_file(path))
    patch = ran.document["patches"][0]
    assert (ran.code, patch["state"]) == (1, "unsafe")
    assert "invalid path" in patch["detail"]


@pytest.mark.parametrize(
    "path",
    ["src/a~1", "gitignore", ".gitignore", ".github/x", "git", "git~x", "...", "CON", "a:b", "a\\..\\x", "a\\.git\\x"],
)
def test_a_path_that_only_looks_odd_is_judged_as_git_judges_it(ground: Ground, path: str) -> None:
    ground.verify(new_file(path))


def test_a_symlink_of_an_earlier_patch_cannot_be_written_through(ground: Ground, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    ran = ground.verify(new_link("out", str(tmp_path / "outside")), new_file("out/evil"))
    assert [patch["state"] for patch in ran.document["patches"]] == ["ok", "unsafe"]
    assert "beyond a symbolic link" in ran.document["patches"][1]["detail"]
    assert not (tmp_path / "outside/evil").exists()


def test_a_symlink_of_the_same_patch_cannot_be_written_through(ground: Ground) -> None:
    patch = new_link("out", "/etc") + new_file("out/evil")
    assert ground.verify(patch).document["patches"][0]["state"] == "unsafe"


def test_a_symlink_of_the_pin_cannot_be_written_through(ground: Ground) -> None:
    assert ground.verify(new_file("link/evil")).document["patches"][0]["state"] == "unsafe"


CHANGES: dict[str, tuple[Changes, list[str]]] = {
    "a rename": ({"src/b.cpp": numbered(40), "src/a.cpp": None}, ["-M"]),
    "a rename with an edit": ({"src/b.cpp": numbered(40, {7: "seven"}), "src/a.cpp": None}, ["-M"]),
    "a copy": ({"src/b.cpp": numbered(40)}, ["-C", "--find-copies-harder"]),
    "a copy with an edit": ({"src/b.cpp": numbered(40, {7: "seven"})}, ["-C", "--find-copies-harder"]),
    "a deletion": ({"src/a.cpp": None}, []),
    "a deletion without its lines": ({"empty": None}, []),
    "an empty file": ({"nothing": ""}, []),
    "a file that becomes a link": ({"notes.txt": symlink("src")}, []),
    "a link that becomes a file": ({"link": "text\n"}, []),
    "a link that points elsewhere": ({"link": symlink("docs")}, []),
    "a file that becomes a directory": ({"notes.txt": None, "notes.txt/a": "x\n"}, []),
    "a mode alone": ({"notes.txt": executable("one\ntwo\nthree\n")}, []),
    "a mode and an edit": ({"run.sh": "#!/bin/bash\n"}, []),
    "a binary file": ({"table.bin": b"\0\1\2\4" * 20}, ["--binary"]),
    "a new binary file": ({"new.bin": bytes(range(256))}, ["--binary"]),
    "a binary file that goes": ({"table.bin": None}, ["--binary"]),
    "a last newline that goes": ({"notes.txt": "one\ntwo\nthree"}, []),
    "a last newline that comes": ({"no-newline.txt": "one\ntwo\n"}, []),
    "an edit without a last newline": ({"no-newline.txt": "one\n2"}, []),
    "a rewritten file": ({"src/a.cpp": numbered(40, {number: f"new {number}" for number in range(1, 40)})}, ["-B"]),
    "other prefixes": ({"src/a.cpp": numbered(40, {7: "seven"})}, ["--src-prefix=i/", "--dst-prefix=w/"]),
    "a name with a space": ({"with space.txt": "a\nB\nc\n"}, []),
    "a name in quotes": ({"tab\there.txt": "x\n", "über.txt": "x\n"}, []),
    "a name with a quote": ({'say "x".txt': "x\n"}, []),
    "no context": ({"src/a.cpp": numbered(40, {1: "first", 40: "last"})}, ["-U0"]),
    "a change amid no context": ({"src/a.cpp": numbered(40, {7: "seven"})}, ["-U0"]),
    "little context": ({"src/a.cpp": numbered(40, {7: "seven", 30: "thirty"})}, ["-U1"]),
    "much context": ({"src/a.cpp": numbered(40, {7: "seven"})}, ["-U100"]),
    "carriage returns": ({"dos.txt": "a\r\nb\r\n", "notes.txt": "one\r\ntwo\r\nthree\r\n"}, []),
    "trailing blanks": ({"notes.txt": "one  \ntwo\t\nthree\n"}, []),
    "text that is no UTF-8": ({"notes.txt": b"one\n\xe4\xf6\xfc\nthree\n"}, []),
    "lines that look like a diff": ({"notes.txt": "one\n-- a/x\n++ b/x\n@@ -1 +1 @@\nthree\n"}, []),
    "many files at once": ({f"dir{n}/file{n}.txt": f"{n}\n" for n in range(30)}, []),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_git_writes_and_takes_back_is_applied_alike(ground: Ground, change: str) -> None:
    changes, options = CHANGES[change]
    after = ground.author.commit(change, changes)
    patch = ground.author.diff(ground.pin, after, *options)
    assert patch
    ran = ground.verify(patch)
    if change in ("no context", "a change amid no context"):
        assert ran.document["applied_tree"] != ground.author.tree(after)
    else:
        assert ran.document["applied_tree"] == ground.author.tree(after)


def test_a_file_deleted_and_made_again_by_one_patch_is_judged_as_git_judges_it(ground: Ground) -> None:
    gone = ground.author.commit("Gone", {"notes.txt": None})
    back = ground.author.commit("Back", {"notes.txt": "all\nnew\n"})
    ground.verify(ground.author.diff(ground.pin, gone) + ground.author.diff(gone, back))


def test_a_file_deleted_by_one_patch_and_made_again_by_the_next_is_fine(ground: Ground) -> None:
    author = ground.author
    gone = author.commit("Gone", {"notes.txt": None, "src/a.cpp": None})
    back = author.commit("Back", {"notes.txt": "all\nnew\n", "src": "now a file\n"})
    ran = ground.verify(author.diff(ground.pin, gone), author.diff(gone, back))
    assert [patch["tree"] for patch in ran.document["patches"]] == [author.tree(gone), author.tree(back)]


def test_a_patch_without_trailing_context_fits_only_the_end(ground: Ground) -> None:
    at_the_end = edited("src/a.cpp", "@@ -39,2 +39,3 @@\n line 39\n line 40\n+more\n")
    assert ground.verify(at_the_end).document["patches"][0]["state"] == "ok"
    ran = ground.verify(edited("src/a.cpp", "@@ -10,2 +10,3 @@\n line 10\n line 11\n+more\n"))
    assert ran.document["patches"][0]["state"] == "conflict"
    assert "fit at line 10, but" in ran.document["patches"][0]["detail"]


def test_hunks_move_with_their_lines_as_git_moves_them(ground: Ground) -> None:
    after = ground.author.commit("Edit", {"src/a.cpp": numbered(40, {20: "twenty"})})
    patch = ground.author.diff(ground.pin, after)
    ground.pin = ground.upstream.commit("Moved", {"src/a.cpp": "".join(f"new {n}\n" for n in range(50)) + numbered(40)})
    assert ground.verify(patch).document["patches"][0]["state"] == "ok"


def test_git_does_not_fuzz_and_neither_do_we(ground: Ground) -> None:
    off = NOTE.replace(b" three", b" thre")
    assert ground.verify(off).document["patches"][0]["state"] == "conflict"


def test_an_insertion_without_context_is_warned_about_and_goes_where_git_puts_it(ground: Ground) -> None:
    ran = ground.verify(edited("src/a.cpp", "@@ -10,0 +11 @@\n+inserted\n"))
    expected = ground.author.commit("At the end", {"src/a.cpp": numbered(40) + "inserted\n"})
    assert ran.document["applied_tree"] == ground.author.tree(expected)
    assert ran.document["warnings"] == [
        "0001-x.patch: src/a.cpp: @@ -10,0 +11 @@ has no context, so git apply puts its lines at the end of the file; "
        "give it context, or make it an anchored patch"
    ]


def test_every_problem_of_one_patch_is_told(ground: Ground) -> None:
    ran = ground.verify(NOTE.replace(b"-two", b"-tow") + new_file("run.sh") + NOTE.replace(b"notes.txt", b"gone.txt"))
    detail = ran.document["patches"][0]["detail"]
    assert ran.document["patches"][0]["state"] == "conflict"
    for words in (
        "notes.txt: hunk 1",
        "run.sh: the patch creates it, but it already exists",
        "gone.txt: the file does not exist",
    ):
        assert words in detail


def test_a_patch_that_does_not_apply_leaves_nothing_of_itself(ground: Ground) -> None:
    ran = ground.verify(new_file("made") + NOTE.replace(b"-two", b"-tow"))
    assert ran.document["applied_tree"] == ran.document["base"]["tree"]


def test_a_binary_patch_without_data_says_so(ground: Ground) -> None:
    after = ground.author.commit("Binary", {"table.bin": b"\0\1\2\4" * 20})
    patch = ground.verify(ground.author.diff(ground.pin, after)).document["patches"][0]
    assert patch["state"] == "malformed"
    assert "table.bin" in patch["detail"]
