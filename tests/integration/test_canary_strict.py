"""The strict column and `--strict --blame` against git itself: a loop of `git apply --cached`, commit by commit."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from patchstack.git.objects import Objects
from patchstack.series.files.directory import load_series
from patchstack.upstream.canary.strict_chain import StrictChain
from tests.conftest import RunCli
from tests.support.builders import (
    Changes,
    Content,
    File,
    Fork,
    executable,
    mail,
    new_file,
    numbered,
    symlink,
    write_series,
)
from tests.support.moving import kernel, look, moved, told_by_git


def check(fork: Fork, directory: Path, run_cli: RunCli) -> dict[str, Any]:
    """Compare a blame run with git. Failures at the pin are not caused by upstream."""
    (_, unfit), *truth = told_by_git(fork, directory)
    document = look(fork, run_cli, "--strict", "--blame")
    for patch in document["patches"]:
        index = next((index for index, (_, failed) in enumerate(truth) if patch["file"] in failed), None)
        broken = patch["first_broken"]
        if patch["file"] in unfit:
            index = None
        assert (broken and broken["index"]) == index, (patch, truth)
        if broken is not None:
            assert broken["commit"] == truth[broken["index"]][0]
        fails = patch["file"] in truth[-1][1]
        assert (patch["strict"] not in ("clean", "offset")) is fails
    return document


def test_the_first_breaking_commit_is_git_s(tmp_path: Path, run_cli: RunCli) -> None:
    fork = moved(
        tmp_path,
        None,
        ("Nothing", {"docs/notes.txt": "x\n"}),
        ("Twenty (#2)", kernel(l20="u")),
        ("Ten (#3)", kernel(l20="u", l10="u")),
    )
    document = check(fork, tmp_path, run_cli)
    assert [one["first_broken"] and one["first_broken"]["index"] for one in document["patches"]] == [2, 1, None]
    first = document["patches"][0]["first_broken"]
    assert (first["pr"], first["author"], first["date"], first["root"]) == (3, "A U Thor", "2025-06-15", True)
    assert first["lines"] == ["src/kernel.cu: hunk 1 (@@ -7,7 +7,7 @@): expected `line 10` at line 10, found `u`"]


def test_a_patch_that_breaks_and_heals_counts_from_the_first_time(tmp_path: Path, run_cli: RunCli) -> None:
    fork = moved(tmp_path, None, ("Break (#1)", kernel(l10="u")), ("Revert", kernel()), ("Again", kernel(l10="v")))
    document = check(fork, tmp_path, run_cli)
    assert document["patches"][0]["first_broken"]["index"] == 0
    fork.upstream.commit("Revert again", kernel())
    healed = check(fork, tmp_path / "again", run_cli)["patches"][0]
    assert (healed["state"], healed["first_broken"]["index"]) == ("clean", 0)


def test_a_cascade_is_blamed_on_the_commit_that_broke_its_cause(tmp_path: Path, run_cli: RunCli) -> None:
    steps: tuple[tuple[str, Changes], ...] = (
        ("One", {"src/pager.cpp": numbered(40), **kernel(l10="p1")}),
        ("Two", {"src/pager.cpp": numbered(40, {20: "two"})}),
    )
    fork = moved(tmp_path, steps, ("Nothing", {"docs/notes.txt": "x\n"}), ("Ten (#9)", kernel(l10="u")))
    document = check(fork, tmp_path, run_cli)
    second = document["patches"][1]["first_broken"]
    assert (second["index"], second["root"], second["caused_by"]) == (1, False, "0001-One.patch")
    assert [(one["pr"], one["patches"]) for one in document["breaking"]] == [(9, ["0001-One.patch", "0002-Two.patch"])]
    told = run_cli("canary", *fork.sources, "--to", "main", "--strict", "--blame").stdout
    assert "#9 breaks 2 patches: Ten (#9) (" in told
    assert "    0002 cascade, because of 0001" in told


def test_a_file_and_a_directory_of_one_name_are_left_to_git(tmp_path: Path, run_cli: RunCli) -> None:
    fork = moved(tmp_path, None, ("Nothing", {"docs/notes.txt": "x\n"}), ("A file (#3)", {"new": "theirs\n"}))
    files = {"0001-file.patch": new_file("new"), "0002-below.patch": new_file("new/below")}
    for path in fork.series.iterdir():
        path.unlink()
    write_series(fork.series, {name: mail(name, diff) for name, diff in files.items()})
    document = check(fork, tmp_path, run_cli)
    first, second = document["patches"]
    assert (first["first_broken"]["index"], second["state"], second["first_broken"]) == (1, "fails-at-pin", None)


PATHS = ("a.c", "b.c", "d/c.c", "d/e.c", "run.sh", "link")


def drawn(draw: random.Random, files: dict[str, list[str] | None], *, odd: bool) -> Changes:
    """Draw a change of one to three files: mostly edits; sometimes a file is created, removed, moved, or changes its
    type."""
    changes: dict[str, Content] = {}
    for path in draw.sample(PATHS[:5], draw.randint(1, 3)):
        lines = files[path]
        kind = draw.random()
        if lines is None:
            files[path] = lines = [f"{path} {number}" for number in range(draw.randint(1, 12))]
        elif kind < 0.08:
            files[path] = None
            changes[path] = None
            continue
        else:
            for _ in range(draw.randint(1, 2)):
                at = draw.randrange(len(lines) + 1)
                lines[at : at + draw.randint(0, 2)] = [f"new {draw.randrange(99)}" for _ in range(draw.randint(0, 2))]
        text = "".join(f"{line}\n" for line in lines)
        changes[path] = executable(text) if odd and kind > 0.93 else File(text)
        if odd and 0.88 < kind < 0.93:
            changes[path] = text.encode() + b"\0binary"
    if odd and draw.random() < 0.1:
        changes["link"] = symlink(f"to-{draw.randrange(9)}")
    return changes


@pytest.mark.parametrize("seed", range(6))
def test_drawn_series_over_drawn_upstreams_get_git_s_verdicts_and_trees(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    odd = seed % 2 == 1
    begin = {path: [f"{path} {number}" for number in range(20)] for path in PATHS[:5]}
    files: Changes = {path: "".join(f"{line}\n" for line in lines) for path, lines in begin.items()}
    mine: dict[str, list[str] | None] = {path: list(lines) for path, lines in begin.items()}
    theirs: dict[str, list[str] | None] = {path: list(lines) for path, lines in begin.items()}
    steps = tuple((f"Step {number}", drawn(draw, mine, odd=odd)) for number in range(8))
    upstream = [(f"Upstream {number}", drawn(draw, theirs, odd=odd)) for number in range(12)]
    fork = moved(tmp_path, steps, *upstream, files=files)
    for path in fork.series.iterdir():
        path.unlink()
    fork.repo.git("format-patch", "-q", "--binary", "-M", "-o", fork.series, f"{fork.pin}..product")
    truth = told_by_git(fork, tmp_path)
    objects = Objects()
    for repo in (fork.upstream, fork.repo):
        objects.add_directory(Path(repo.repo.path) / "objects", "here")
    series = load_series(fork.series)
    with StrictChain(objects, series.patches) as chain:
        for commit, failed in truth:
            run = chain.run(fork.upstream.tree(commit))
            assert [p.file for p, ok in zip(series.patches, run.applied, strict=True) if not ok] == failed, commit
    assert any(failed for _, failed in truth) and any(len(failed) < len(series.patches) for _, failed in truth)
