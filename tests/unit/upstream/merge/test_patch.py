"""Merging one patch three-way onto another tree, with `git cherry-pick` as the judge of tree, conflicts and their
text."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from patchstack.git.objects import Objects
from patchstack.upstream.merge.patch import Clash, Merge, Picker
from patchstack.upstream.merge.text import merge_texts, myers
from tests.support.builders import Changes, Content, File, RepoBuilder, executable, numbered, run_git, snapshot, symlink
from tests.support.texts import merged_by_git

FILES: dict[str, Content] = {
    "src/kernel.cu": numbered(60),
    "src/other.cpp": numbered(30),
    "tools/run.sh": executable("#!/bin/sh\necho run\n"),
    "data.bin": b"\0\1\2",
    "link": symlink("src"),
}


def lines(changed: Mapping[int, str], count: int = 60) -> str:
    return numbered(count, changed)


class Case:
    """A base, a patch on it, and a changed upstream."""

    def __init__(self, directory: Path, patch: Changes, upstream: Changes, files: Changes | None = None) -> None:
        self.repo = RepoBuilder(directory / "repo")
        self.base = self.repo.commit("Base", FILES if files is None else files)
        self.patch = self.repo.commit("Patch", patch)
        self.repo.branch("theirs", self.base)
        self.onto = self.repo.commit("Upstream", upstream)
        self.work = directory / "work"

    def merge(self) -> Merge:
        objects = Objects()
        objects.add_directory(Path(self.repo.repo.path) / "objects", "repo")
        before = snapshot(self.repo.path)
        merged = Picker(objects).merge(*(self.repo.tree(one) for one in (self.base, self.patch, self.onto)))
        assert snapshot(self.repo.path) == before
        return merged

    def judge(self) -> tuple[str | None, dict[str, bytes]]:
        """Return cherry-pick's result: the tree, or None and every conflicting file."""
        run_git("worktree", "add", "-q", "--detach", self.work, self.onto, cwd=self.repo.path)
        picked = run_git(
            *("cherry-pick", "--allow-empty", "--keep-redundant-commits", self.patch),
            cwd=self.work,
            check=False,
        )
        if picked.returncode == 0:
            return run_git("rev-parse", "HEAD^{tree}", cwd=self.work).stdout.decode().strip(), {}
        listed = run_git("diff", "--name-only", "-z", "--diff-filter=U", cwd=self.work).stdout
        names = [name.decode() for name in listed.split(b"\0") if name]
        assert names, picked
        return None, {name: (self.work / name).read_bytes() if (self.work / name).is_file() else b"" for name in names}


def agree(case: Case) -> Merge:
    """Compare a merge with git's: same tree, or the same conflicting paths with the same marked text."""
    merged = case.merge()
    tree, conflicts = case.judge()
    assert merged.tree == tree, merged
    assert sorted(one.path for one in merged.conflicts) == sorted(conflicts)
    for one in merged.conflicts:
        if one.marked is not None:
            # git names commit and file after its markers.
            told = re.sub(rb"^<<<<<<< HEAD(?::\S+)?", b"<<<<<<< upstream", conflicts[one.path], flags=re.MULTILINE)
            told = re.sub(rb"^>>>>>>> \w+ \(Patch\)(?::\S+)?", b">>>>>>> patch", told, flags=re.MULTILINE)
            assert one.marked == told
    return merged


CLEAN: dict[str, tuple[Changes, Changes]] = {
    "other files": ({"src/kernel.cu": lines({5: "p"})}, {"src/other.cpp": lines({5: "u"}, 30)}),
    "other lines of one file": ({"src/kernel.cu": lines({5: "p"})}, {"src/kernel.cu": lines({40: "u"})}),
    "lines two apart": ({"src/kernel.cu": lines({5: "p"})}, {"src/kernel.cu": lines({7: "u"})}),
    "the same change": ({"src/kernel.cu": lines({5: "p"})}, {"src/kernel.cu": lines({5: "p"})}),
    "the same and more": ({"src/kernel.cu": lines({5: "p"})}, {"src/kernel.cu": lines({5: "p", 30: "u"})}),
    "a new file": ({"src/new.cu": "new\n"}, {"src/kernel.cu": lines({5: "u"})}),
    "the same new file": ({"src/new.cu": "new\n"}, {"src/new.cu": "new\n"}),
    "a file both remove": ({"src/other.cpp": None}, {"src/other.cpp": None}),
    "a file that moved": (
        {"src/kernel.cu": lines({5: "p"})},
        {"src/kernel.cu": None, "gpu/kernel.cu": lines({50: "u"})},
    ),
    "a file that moved as it was": ({"src/kernel.cu": lines({5: "p"})}, {"src/kernel.cu": None, "k.cu": numbered(60)}),
    "a file the patch moves": (
        {"src/kernel.cu": None, "gpu/kernel.cu": lines({5: "p"})},
        {"src/kernel.cu": lines({50: "u"})},
    ),
    "a mode and a text": (
        {"tools/run.sh": File("#!/bin/sh\necho run\n")},
        {"tools/run.sh": executable("#!/bin/sh\necho run\necho more\n")},
    ),
    "a binary file only the patch changes": ({"data.bin": b"\0\3"}, {"src/kernel.cu": lines({5: "u"})}),
    "a link only the patch changes": ({"link": symlink("tools")}, {"src/kernel.cu": lines({5: "u"})}),
    "a text without newline at its end": ({"src/kernel.cu": lines({5: "p"})}, {"src/kernel.cu": numbered(60)[:-1]}),
}


@pytest.mark.parametrize("name", CLEAN)
def test_what_cherry_pick_merges_gives_the_same_tree(name: str, tmp_path: Path) -> None:
    assert agree(Case(tmp_path, *CLEAN[name])).clean


CONFLICTS: dict[str, tuple[Clash, Changes, Changes]] = {
    "one line changed twice": (Clash.CONTENT, {"src/kernel.cu": lines({5: "p"})}, {"src/kernel.cu": lines({5: "u"})}),
    "neighbouring lines": (Clash.CONTENT, {"src/kernel.cu": lines({5: "p"})}, {"src/kernel.cu": lines({6: "u"})}),
    "two places": (
        Clash.CONTENT,
        {"src/kernel.cu": lines({5: "p", 40: "p"})},
        {"src/kernel.cu": lines({5: "u", 40: "u"})},
    ),
    "two insertions at one place": (
        Clash.CONTENT,
        {"src/kernel.cu": lines({5: "line 5\np"})},
        {"src/kernel.cu": lines({5: "line 5\nu"})},
    ),
    "lines with CRLF": (
        Clash.CONTENT,
        {"src/dos.c": "one\r\npatch\r\nthree\r\n"},
        {"src/dos.c": "one\r\nupstream\r\nthree\r\n"},
    ),
    "a changed file that is gone": (Clash.DELETED, {"src/kernel.cu": lines({5: "p"})}, {"src/kernel.cu": None}),
    "a removed file that changed": (Clash.CHANGED, {"src/kernel.cu": None}, {"src/kernel.cu": lines({5: "u"})}),
    "a new file that already exists": (Clash.BOTH_ADDED, {"src/new.cu": "a\nb\n"}, {"src/new.cu": "a\nc\n"}),
    "binary on both sides": (Clash.BINARY, {"data.bin": b"\0\3"}, {"data.bin": b"\0\4"}),
    "a link on both sides": (Clash.BINARY, {"link": symlink("a")}, {"link": symlink("b")}),
    "a moved file changed twice": (
        Clash.CONTENT,
        {"src/kernel.cu": lines({5: "p"})},
        {"src/kernel.cu": None, "gpu/kernel.cu": lines({5: "u"})},
    ),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_what_cherry_pick_refuses_conflicts_in_the_same_paths_with_the_same_text(name: str, tmp_path: Path) -> None:
    kind, patch, upstream = CONFLICTS[name]
    files = {**FILES, "src/dos.c": "one\r\ntwo\r\nthree\r\n"}
    merged = agree(Case(tmp_path, patch, upstream, files))
    assert [conflict.kind for conflict in merged.conflicts] == [kind]


def test_a_directory_where_the_file_should_be_is_a_conflict(tmp_path: Path) -> None:
    merged = Case(tmp_path, {"new": "file\n"}, {"new/file": "x\n"}).merge()
    assert [conflict.kind for conflict in merged.conflicts] == [Clash.OBSTACLE]
    assert merged.conflicts[0].detail == "new: a directory has this path in the target tree"


def test_a_file_where_the_directory_should_be_is_a_conflict(tmp_path: Path) -> None:
    merged = Case(tmp_path, {"new/file": "x\n"}, {"new": "file\n"}).merge()
    assert [conflict.detail for conflict in merged.conflicts] == [
        "new/file: new is a file in the target tree, not a directory"
    ]


def test_a_file_both_sides_move_is_no_silent_copy(tmp_path: Path) -> None:
    case = Case(
        tmp_path,
        {"src/kernel.cu": None, "mine/kernel.cu": lines({5: "p"})},
        {"src/kernel.cu": None, "gpu/kernel.cu": lines({50: "u"})},
    )
    merged = case.merge()
    assert case.judge()[0] is None
    assert [(one.path, one.kind) for one in merged.conflicts] == [("mine/kernel.cu", Clash.DELETED)]


def test_a_moved_file_is_named(tmp_path: Path) -> None:
    patch, upstream = CLEAN["a file that moved"]
    assert Case(tmp_path, patch, upstream).merge().renames == (("src/kernel.cu", "gpu/kernel.cu"),)


def test_the_colliding_lines_are_told_with_their_place(tmp_path: Path) -> None:
    merged = Case(tmp_path, {"src/kernel.cu": lines({5: "p"})}, {"src/kernel.cu": "top\n" + lines({5: "u"})}).merge()
    (collision,) = merged.conflicts[0].collisions
    assert collision.start == 4
    assert (collision.ours, collision.base, collision.theirs) == ((b"u\n",), (b"line 5\n",), (b"p\n",))


def test_what_merges_stands_in_the_best_tree_beside_the_marked_text(tmp_path: Path) -> None:
    case = Case(
        tmp_path,
        {"src/kernel.cu": lines({5: "p"}), "src/other.cpp": lines({5: "p"}, 30)},
        {"src/kernel.cu": lines({5: "u"}), "src/other.cpp": lines({9: "u"}, 30)},
    )
    objects = Objects()
    objects.add_directory(Path(case.repo.repo.path) / "objects", "repo")
    merged = Picker(objects).merge(*(case.repo.tree(one) for one in (case.base, case.patch, case.onto)))
    assert merged.tree is None
    from patchstack.git.overlay import TreeOverlay

    best = TreeOverlay(objects, merged.best)
    other, kernel = best.entry(b"src/other.cpp"), best.entry(b"src/kernel.cu")
    assert other is not None and objects.blob(other[1]).decode() == lines({5: "p", 9: "u"}, 30)
    assert kernel is not None and objects.blob(kernel[1]) == merged.conflicts[0].marked


def test_union_keeps_both_insertions_and_leaves_other_collisions_as_ours() -> None:
    merged = merge_texts(b"a\nb\nc\nd\ne\nf\n", b"a\nu\nb\nc\nd\ne\nU\n", b"a\np\nb\nc\nd\ne\nP\n", union=True)
    assert merged.text == b"a\nu\np\nb\nc\nd\ne\nU\n"
    assert len(merged.collisions) == 2


def some(draw: random.Random, alphabet: list[bytes], most: int, least: int = 0) -> list[bytes]:
    return [draw.choice(alphabet) for _ in range(draw.randint(least, most))]


def changed(draw: random.Random, old: list[bytes], alphabet: list[bytes]) -> list[bytes]:
    new = list(old)
    for _ in range(draw.randint(0, 3)):
        at = draw.randrange(len(new) + 1)
        new[at : at + draw.randint(0, 3)] = some(draw, alphabet, 3)
    return new


def a_text(draw: random.Random, lines: list[bytes]) -> bytes:
    return b"\n".join(lines) + (b"\n" if lines and draw.random() < 0.8 else b"")


def test_texts_merge_as_git_merges_trees(tmp_path: Path) -> None:
    draw = random.Random(7)
    cases = []
    for _ in range(150):
        alphabet = [b"%c x" % letter for letter in b"abcdefghijklmnopqrstuvwxyz"[: draw.choice((3, 8, 26))]]
        base = some(draw, alphabet, 14)
        lines = (base, changed(draw, base, alphabet), changed(draw, base, alphabet))
        cases.append((a_text(draw, lines[0]), a_text(draw, lines[1]), a_text(draw, lines[2])))
    clean = 0
    for number, (case, told) in enumerate(zip(cases, merged_by_git(tmp_path, cases), strict=True)):
        merged = merge_texts(*case, (f"ours{number}", f"theirs{number}"))
        assert (merged.clean, merged.text) == told, case
        clean += merged.clean
    assert 30 < clean < 140


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "clean"),
    [
        ("a}bbb", "a}-bcb}bb", "a}b-}bbb", True),
        ("aa}bb", "aacb}}b", "ba}bb}c", False),
        ("}aaaca", "}aaaca-b", "}caaaa", False),
    ],
)
def test_where_the_diff_algorithm_decides_the_answer_is_git_s(
    base: str, ours: str, theirs: str, clean: bool, tmp_path: Path
) -> None:
    texts = [b"".join(letter.encode() + b"\n" for letter in text) for text in (base, ours, theirs)]
    one, two, three = texts
    ((told, text),) = merged_by_git(tmp_path, [(one, two, three)])
    merged = merge_texts(one, two, three, ("ours0", "theirs0"))
    assert (merged.clean, merged.text) == (told, text)
    assert told is clean
    with_myers = merge_texts(one, two, three, found=(myers(one, two), myers(one, three)))
    assert with_myers.clean is not clean, "Myers' diff gives another answer"
