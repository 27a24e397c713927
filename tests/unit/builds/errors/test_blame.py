"""The patch that wrote a line, compared with git's own blame of the fork."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from patchstack.builds.errors.rejection import BlameStep, Origin, who_wrote, who_wrote_each
from patchstack.errors import MissingError
from patchstack.git.apply import Applier
from patchstack.git.objects import Kind, Objects
from patchstack.series.files.directory import load_series
from patchstack.series.verify.prefix_trees import apply_series
from tests.support.builders import Changes, Fork, a_fork, numbered, run_git, snapshot, symlink

HEADER = re.compile(r"([0-9a-f]{40}) (\d+) (\d+)")


def stored(fork: Fork) -> Objects:
    objects = Objects()
    objects.add_directory(Path(fork.repo.repo.path) / "objects", "the fork")
    return objects


def steps_of(fork: Fork) -> list[BlameStep]:
    return [
        BlameStep(label=path.name, tree=tree, number=number, subject=fork.repo.git("log", "-1", "--format=%s", commit))
        for number, (path, tree, commit) in enumerate(zip(fork.patches, fork.trees, fork.commits, strict=True), 1)
    ]


def base(fork: Fork) -> str:
    return fork.upstream.tree(fork.pin)


def blamed_by_git(fork: Fork, path: str) -> list[tuple[str | None, int, str, str]]:
    """Return patch, line, name and text of every line, from `git blame` of the fork's branch."""
    labels = dict(zip(fork.commits, (patch.name for patch in fork.patches), strict=True))
    told = run_git(
        "-c", "core.quotePath=false", "blame", "--porcelain", fork.commits[-1], "--", path, cwd=fork.repo.path
    )
    found, commit, line = [], "", 0
    names: dict[str, str] = {}
    for raw in told.stdout.decode().split("\n"):
        if raw.startswith("\t"):
            found.append((labels.get(commit), line, names[commit], raw[1:]))
        elif match := HEADER.match(raw):
            commit, line = match[1], int(match[2])
        elif raw.startswith("filename "):
            names[commit] = raw[9:]
    return found


def the_gist(origin: Origin | None) -> tuple[str | None, int, str, str]:
    assert origin is not None
    return origin.patch, origin.line, origin.path, origin.text


def blamed_by_us(fork: Fork, path: str, objects: Objects | None = None) -> list[tuple[str | None, int, str, str]]:
    count = fork.repo.git("cat-file", "blob", f"{fork.commits[-1]}:{path}").count("\n") + 1
    places = [(path, line) for line in range(1, count + 1)]
    return [the_gist(origin) for origin in who_wrote_each(objects or stored(fork), base(fork), steps_of(fork), places)]


def edits(seed: int, commits: int) -> list[tuple[str, Changes]]:
    """Draw commits that change, move, duplicate and remove lines of few different texts, and sometimes rename the
    file."""
    draw = random.Random(seed)
    lines = numbered(300).splitlines()
    path = "src/kernel.cu"
    steps: list[tuple[str, Changes]] = []
    for number in range(1, commits + 1):
        for _ in range(draw.randint(1, 6)):
            at = draw.randrange(len(lines))
            match draw.randrange(4):
                case 0:
                    lines[at] = f"changed by {number}"
                case 1:
                    lines[at:at] = draw.choice([["}"], ["", "}"], [f"new {number}", "{", "}"]])
                case 2:
                    del lines[at : at + draw.randint(1, 4)]
                case _:
                    lines[at:at] = lines[at : at + draw.randint(1, 5)]
        changes: dict[str, str | None] = {}
        if draw.random() < 0.2:
            changes[path] = None
            path = f"src/renamed-{number} \u00e4.cu"
        changes[path] = "\n".join(lines) + "\n"
        steps.append((f"Edit {number}", dict(changes)))
    return steps


@pytest.mark.parametrize("seed", range(12))
def test_every_line_is_blamed_as_git_blames_it(tmp_path: Path, seed: int) -> None:
    steps = edits(seed, 7)
    fork = a_fork(tmp_path, steps=steps)
    path = next(path for path, content in steps[-1][1].items() if content is not None)
    told = blamed_by_git(fork, path)
    assert blamed_by_us(fork, path) == told
    assert len({patch for patch, *_ in told}) > 4


def test_trees_that_exist_in_memory_alone_are_blamed_too(tmp_path: Path) -> None:
    made: list[tuple[str, Changes]] = [
        ("Begin a directory", {"deep/er/new.cpp": "one\ntwo\nthree\n"}),
        ("Change it", {"deep/er/new.cpp": "one\nTWO\nthree\n", "src/kernel.cu": numbered(300, {7: "seven"})}),
        ("Move it", {"deep/er/new.cpp": None, "deep/down.cpp": "one\nTWO\nthree\nfour\n"}),
    ]
    fork = a_fork(tmp_path, steps=made)
    objects = Objects()
    objects.add_directory(Path(fork.upstream.repo.path) / "objects", "upstream")
    with Applier(objects, base(fork)) as applier:
        links = apply_series(applier, load_series(fork.series))
    assert [link.after for link in links] == fork.trees
    before = snapshot(tmp_path)
    for path in ("deep/down.cpp", "src/kernel.cu"):
        assert blamed_by_us(fork, path, objects) == blamed_by_git(fork, path)
    assert snapshot(tmp_path) == before


def test_a_line_has_its_patch_and_the_patches_that_touched_the_file(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 3)
    found = who_wrote(stored(fork), base(fork), steps_of(fork), "src/kernel.cu", 20)
    names = [patch.name for patch in fork.patches]
    assert found == Origin(
        patch=names[1],
        number=2,
        subject="Change 2 of a kernel",
        path="src/kernel.cu",
        line=20,
        text="changed by commit 2",
        touched_by=tuple(names),
    )


def test_upstreams_own_line_has_no_patch_but_those_that_changed_its_file(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 2)
    objects, steps = stored(fork), steps_of(fork)
    touched = who_wrote(objects, base(fork), steps, "src/kernel.cu", 5)
    assert touched is not None
    assert (touched.patch, touched.number, touched.text) == (None, None, "line 5")
    assert touched.touched_by == tuple(patch.name for patch in fork.patches)
    untouched = who_wrote(objects, base(fork), steps, "src/other.cpp", 5)
    assert untouched is not None
    assert (untouched.patch, untouched.touched_by) == (None, ())


def test_a_file_that_was_renamed_is_followed(tmp_path: Path) -> None:
    lines = numbered(40, {3: "three"})
    fork = a_fork(
        tmp_path,
        steps=[
            ("Change it", {"src/other.cpp": lines}),
            ("Move it", {"src/other.cpp": None, "lib/moved.cpp": lines}),
            ("Something else", {"docs/notes.txt": "none\n"}),
        ],
    )
    names = [patch.name for patch in fork.patches]
    written = who_wrote(stored(fork), base(fork), steps_of(fork), "lib/moved.cpp", 3)
    assert written is not None
    assert (written.patch, written.path, written.touched_by) == (names[0], "src/other.cpp", (names[0], names[1]))
    old = who_wrote(stored(fork), base(fork), steps_of(fork), "lib/moved.cpp", 4)
    assert old is not None
    assert (old.patch, old.path) == (None, "src/other.cpp")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/kernel.cu", 0),
        ("src/kernel.cu", -1),
        ("src/kernel.cu", 301),
        ("src/kernel.cu/x", 1),
        ("src", 1),
        ("nowhere/at/all", 1),
        ("", 1),
        ("../src/kernel.cu", 1),
        ("/src/kernel.cu", 1),
        ("empty", 1),
    ],
)
def test_what_the_tree_does_not_have_has_no_origin(tmp_path: Path, path: str, line: int) -> None:
    fork = a_fork(tmp_path, steps=[("Empty", {"empty": ""})])
    assert who_wrote(stored(fork), base(fork), steps_of(fork), path, line) is None


@pytest.mark.parametrize("path", ["*.cpp", ":(glob)x", 'a\tb"c\\.cpp', "\u00fc/\u00e4.cpp", "-x", "odd name"])
def test_odd_names_are_names(tmp_path: Path, path: str) -> None:
    fork = a_fork(tmp_path, steps=[("Other", {"other.cpp": "1\n"}), ("Add", {path: "one\ntwo"})])
    found = who_wrote(stored(fork), base(fork), steps_of(fork), path, 2)
    assert found is not None
    assert (found.patch, found.path, found.text) == (fork.patches[1].name, path, "two")
    assert found.touched_by == (fork.patches[1].name,)


def test_links_and_a_series_without_patches_do_no_harm(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, steps=[("Link", {"link": symlink("src/kernel.cu")})])
    found = who_wrote(stored(fork), base(fork), steps_of(fork), "link", 1)
    assert found is not None
    assert (found.patch, found.text) == (fork.patches[0].name, "src/kernel.cu")
    alone = who_wrote(stored(fork), base(fork), [], "src/kernel.cu", 1)
    assert alone is not None
    assert (alone.patch, alone.text, alone.touched_by) == (None, "line 1", ())


def test_a_base_that_was_made_in_memory_is_as_good_as_a_stored_one(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 2)
    objects = Objects()
    for entry in fork.repo.git("cat-file", "--batch-check", "--batch-all-objects").splitlines():
        oid, kind, _ = entry.split()
        objects.add(cast("Kind", kind), run_git("cat-file", kind, oid, cwd=fork.repo.path).stdout)
    for path in ("src/kernel.cu", "src/other.cpp"):
        assert blamed_by_us(fork, path, objects) == blamed_by_git(fork, path)


def test_several_places_are_answered_in_their_order(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 3)
    places = [("src/kernel.cu", 30), ("nowhere", 1), ("src/other.cpp", 2), ("src/kernel.cu", 10), ("src/kernel.cu", 30)]
    found = who_wrote_each(stored(fork), base(fork), steps_of(fork), places)
    numbers: Sequence[int | None] = [origin.number if origin else -1 for origin in found]
    assert numbers == [3, -1, None, 1, 3]


def test_an_object_that_is_not_to_be_had_is_said_to_be_missing(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 1)
    with pytest.raises(MissingError, match=f"object {'1' * 40} is not in the fork"):
        who_wrote(stored(fork), "1" * 40, steps_of(fork), "src/kernel.cu", 1)


def test_nobodys_git_configuration_has_a_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fork = a_fork(tmp_path, 2)
    expected = blamed_by_us(fork, "src/kernel.cu")
    config = tmp_path / "gitconfig"
    config.write_text("[blame]\n\tignoreRevsFile = /nowhere\n\tshowEmail = true\n[diff]\n\talgorithm = patience\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    assert blamed_by_us(fork, "src/kernel.cu") == expected
