"""Three-way merges of edits, compared with merges of whole texts and trees; anchored patches; three-way blame."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

from patchstack.git.objects import Objects
from patchstack.series.files.directory import load_series
from patchstack.upstream.canary.diagnose import Diagnoser
from patchstack.upstream.canary.strict_chain import StrictChain
from patchstack.upstream.merge.edits import NEWLINE, compare, merge_edits, without
from patchstack.upstream.merge.histogram import Edit
from patchstack.upstream.merge.patch import Picker
from patchstack.upstream.merge.text import edits, merge_texts
from tests.conftest import RunCli
from tests.support.builders import Changes, RepoBuilder, numbered, write_series
from tests.support.moving import Steps, kernel, look, moved, states


def text(lines: list[bytes]) -> bytes:
    return NEWLINE.join(lines) + NEWLINE


def replayed(old: list[bytes], new: list[bytes], edits: tuple[Edit, ...]) -> list[bytes]:
    found: list[bytes] = []
    at = 0
    for edit in edits:
        found += old[at : edit.at]
        assert len(found) == edit.to
        found += new[edit.to : edit.to + edit.added]
        at = edit.at + edit.removed
    return found + old[at:]


def test_edits_laid_over_edits_give_the_merge_of_the_texts() -> None:
    draw = random.Random(3)
    alphabet = [b"%d" % number for number in range(40)] + [b"}", b""]

    def changed(lines: list[bytes]) -> list[bytes]:
        found = list(lines)
        for _ in range(draw.randint(0, 4)):
            at = draw.randrange(len(found) + 1)
            found[at : at + draw.randint(0, 3)] = [draw.choice(alphabet) for _ in range(draw.randint(0, 3))]
        return found or [b""]

    collided = 0
    for _ in range(600):
        base = [draw.choice(alphabet) for _ in range(draw.randint(1, 30))]
        ours, theirs = changed(base), changed(base)
        upstream, patch = compare(base, ours), compare(base, theirs)
        laid = merge_edits(ours, theirs, upstream, patch)
        merged = merge_texts(text(base), text(ours), text(theirs), union=True)
        assert (laid.clean, text(list(laid.lines))) == (merged.clean, merged.text)
        assert replayed(theirs, list(laid.lines), laid.left) == list(laid.lines)
        assert replayed(theirs, ours, without(theirs, ours, upstream, patch)) == ours
        collided += not laid.clean
    assert 50 < collided < 550


def test_texts_of_frequent_lines_are_compared_like_files_and_merge_like_them() -> None:
    """A line that occurs more than 64 times splits no text, so Myers' diff compares such regions."""
    draw = random.Random(4)
    alphabet = [b"x", b"y", b"}", b""]

    def changed(lines: list[bytes]) -> list[bytes]:
        found = list(lines)
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(found) + 1)
            found[at : at + draw.randint(0, 3)] = [draw.choice([*alphabet, b"z"]) for _ in range(draw.randint(0, 3))]
        return found

    for _ in range(60):
        unit = [draw.choice(alphabet) for _ in range(draw.randint(1, 3))]
        base = unit * draw.randint(66, 90)
        ours, theirs = changed(base), changed(base)
        upstream, patch = compare(base, ours), compare(base, theirs)
        assert upstream == edits(text(base), text(ours))
        assert replayed(base, ours, upstream) == ours
        laid = merge_edits(ours, theirs, upstream, patch)
        merged = merge_texts(text(base), text(ours), text(theirs), union=True)
        assert (laid.clean, text(list(laid.lines))) == (merged.clean, merged.text)


def test_the_three_way_column_is_the_chain_of_merged_trees(tmp_path: Path) -> None:
    draw = random.Random(11)
    seen: set[bool] = set()
    for round_ in range(6):
        directory = tmp_path / str(round_)
        directory.mkdir()
        lines: dict[int, str] = {}
        steps: list[tuple[str, Changes]] = []
        for number in range(6):
            lines[draw.randint(1, 60)] = f"patch {number}"
            steps.append((f"Step {number}", {"src/kernel.cu": numbered(300, lines)}))
        theirs = {draw.randint(1, 60): "upstream" for _ in range(5)}
        moves: Changes = {"src/kernel.cu": numbered(300, theirs)}
        if round_ % 2:
            moves = {"src/kernel.cu": None, "gpu/kernel.cu": numbered(300, theirs)}
        fork = moved(directory, tuple(steps), ("Upstream", moves))
        objects = Objects()
        for repo in (fork.upstream, fork.repo):
            objects.add_directory(Path(repo.repo.path) / "objects", "here")
        trees = [fork.upstream.tree(fork.pin), *fork.trees]
        onto = fork.upstream.tree("main")
        expected = []
        for before, after in pairwise(trees):
            merged = Picker(objects).merge(before, after, onto)
            expected.append(merged.clean)
            onto = merged.tree or onto
        with StrictChain(objects, load_series(fork.series).patches) as chain:
            diagnoser = Diagnoser(objects, chain, trees[0], 0)
            assert list(diagnoser.carried(fork.upstream.tree("main")).clean) == expected, round_
        seen.update(expected)
    assert seen == {True, False}


def test_three_way_blame_passes_over_changed_context_and_names_the_commit_that_collides(
    tmp_path: Path, run_cli: RunCli
) -> None:
    fork = moved(tmp_path, None, ("Beside (#1)", kernel(l12="u")), ("Into it (#2)", kernel(l12="u", l10="u")))
    first, *others = look(fork, run_cli, "--blame")["patches"]
    assert (first["first_broken"]["index"], first["first_broken"]["pr"], first["first_broken"]["root"]) == (1, 2, True)
    assert [patch["first_broken"] for patch in others] == [None, None]
    strictly = look(fork, run_cli, "--blame", "--strict")
    assert strictly["patches"][0]["first_broken"]["index"] == 0


def test_three_way_blame_tells_a_cascade(tmp_path: Path, run_cli: RunCli) -> None:
    steps: Steps = (
        ("One", {"src/pager.cpp": numbered(40), **kernel(l10="p1")}),
        ("Two", {"src/pager.cpp": numbered(40, {20: "two"})}),
    )
    fork = moved(tmp_path, steps, ("Ten (#9)", kernel(l10="u")))
    second = look(fork, run_cli, "--blame")["patches"][1]["first_broken"]
    assert (second["pr"], second["root"], second["caused_by"]) == (9, False, "0001-One.patch")


def anchored(repo: RepoBuilder, pin: str, head: str) -> bytes:
    return b"Subject: [PATCH] Insert\n\n" + repo.diff(pin, head, "-U0", "--full-index")


def test_an_anchored_patch_has_no_strict_verdict_and_merges_from_its_blob(tmp_path: Path, run_cli: RunCli) -> None:
    inserted: Changes = {"src/kernel.cu": numbered(300).replace("line 50\n", "line 50\nours\n")}
    fork = moved(tmp_path, (("Insert", inserted),), ("Lines on top", {"src/kernel.cu": "new\n" + numbered(300)}))
    for path in fork.series.iterdir():
        path.unlink()
    write_series(fork.series, {"0001-insert.anchored": anchored(fork.repo, fork.pin, fork.commits[0])})
    (patch,) = look(fork, run_cli, "--blame", "--strict")["patches"]
    assert (patch["state"], patch["strict"], patch["threeway"], patch["first_broken"]) == (
        "clean",
        None,
        "clean",
        None,
    )
    fork.upstream.commit("There (#3)", {"src/kernel.cu": numbered(300).replace("line 50\n", "line 50\ntheirs\n")})
    (patch,) = look(fork, run_cli, "--blame", "--strict")["patches"]
    assert (patch["state"], patch["strict"], patch["threeway"]) == ("conflict", None, "conflict")
    assert (patch["first_broken"]["index"], patch["first_broken"]["pr"]) == (1, 3)


def test_a_plain_patch_behind_an_anchored_one_applies_to_what_it_gives(tmp_path: Path, run_cli: RunCli) -> None:
    one: Changes = {"src/kernel.cu": numbered(300).replace("line 50\n", "line 50\nours\n")}
    two: Changes = {"src/kernel.cu": numbered(300).replace("line 50\n", "line 50\nours\nmore\n")}
    fork = moved(tmp_path, (("One", one), ("Two", two)), ("Top", {"src/kernel.cu": "new\n" + numbered(300)}))
    fork.patch(1).unlink()
    write_series(fork.series, {"0001-one.anchored": anchored(fork.repo, fork.pin, fork.commits[0])})
    assert states(look(fork, run_cli)) == ["clean", "offset"]
