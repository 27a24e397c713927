"""A fork of twenty commits, rewritten in every way that maintainers use: the numbers that stay."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from patchstack.cli.failures import guarded
from patchstack.cli.main import app
from tests.support.builders import Fork, a_fork, numbered

Step = tuple[str, dict[int, str]]


def steps() -> list[Step]:
    """Return twenty commits, each of which changes six different lines."""
    return [(f"Commit {n}", {15 * n + i: f"line {i} of commit {n}" for i in range(6)}) for n in range(1, 21)]


class Rewritten:
    """The fork, its workspace, and the exports of its branch."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fork: Fork = a_fork(tmp_path, 1)
        for path in self.fork.patches:
            path.unlink()
        (tmp_path / "patchstack.yaml").write_text(
            f"series:\n  product:\n    patches: patches\n    upstream: upstream\n    pin: {self.fork.pin}\n"
            "    fork: fork\n    fork_ref: product\n"
        )
        self._monkeypatch = monkeypatch

    def patchstack(self, *args: str) -> int:
        self._monkeypatch.setattr(sys, "argv", ["patchstack", *args])
        return guarded(app)

    def export(self, told: list[Step], *args: str) -> list[tuple[int, str]]:
        """Rewrite the branch to these commits, export, and return number and subject of every patch."""
        repo = self.fork.repo
        repo.branch("product", self.fork.pin)
        lines: dict[int, str] = {}
        for subject, changes in told:
            lines.update(changes)
            repo.commit(subject, {"src/kernel.cu": numbered(330, lines)})
        assert self.patchstack("export", *args) == 0
        assert self.patchstack("verify") == 0
        return self.series()

    def series(self) -> list[tuple[int, str]]:
        found = []
        for path in sorted(self.fork.series.glob("*.patch")):
            subject = next(line for line in path.read_text().splitlines() if line.startswith("Subject: "))
            found.append((int(path.name[:4]), subject.removeprefix("Subject: ")))
        return found


@pytest.fixture
def rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rewritten:
    made = Rewritten(tmp_path, monkeypatch)
    # The kernel has 300 lines at the pin; the first commit makes room for twenty commits' changes.
    assert made.export([("Room", {}), *steps()]) == [(1, "Room"), *((n + 1, f"Commit {n}") for n in range(1, 21))]
    return made


def test_an_amended_commit_with_a_new_subject_keeps_its_number(rewritten: Rewritten) -> None:
    told = steps()
    told[6] = ("Quite another subject", {**told[6][1], 15 * 7 + 5: "amended"})
    assert (8, "Quite another subject") in rewritten.export([("Room", {}), *told])
    assert len(rewritten.series()) == 21


def test_of_a_split_commit_the_larger_part_stays(rewritten: Rewritten) -> None:
    told = steps()
    lines = list(told[19][1].items())
    told[19:] = [("The larger part", dict(lines[:4])), ("The rest", dict(lines[4:]))]
    assert rewritten.export([("Room", {}), *told])[-2:] == [(21, "The larger part"), (22, "The rest")]


def test_of_two_squashed_commits_one_number_stays_and_one_is_retired(rewritten: Rewritten) -> None:
    told = steps()
    small = dict(list(told[4][1].items())[:2])
    told[3:5] = [("Commit 4", {**told[3][1], **small})]
    series = rewritten.export([("Room", {}), *told])
    assert (5, "Commit 4") in series
    assert 6 not in [number for number, _ in series]
    assert "retired: [6]" in (rewritten.fork.series / "series.lock").read_text()


def test_a_commit_moved_to_the_end_gets_a_new_number_and_all_others_keep_theirs(rewritten: Rewritten) -> None:
    told = steps()
    told.append(told.pop(9))
    series = rewritten.export([("Room", {}), *told])
    assert series[-1] == (22, "Commit 10")
    assert series[:-1] == [(1, "Room"), *((n + 1, f"Commit {n}") for n in range(1, 21) if n != 10)]


def test_a_dropped_commit_that_comes_back_is_a_new_patch(rewritten: Rewritten) -> None:
    told = steps()
    dropped = told.pop()
    rewritten.export([("Room", {}), *told])
    assert rewritten.export([("Room", {}), *told, dropped])[-1] == (22, "Commit 20")


def test_a_rebase_onto_a_newer_pin_keeps_every_number_and_byte(rewritten: Rewritten) -> None:
    before = {path.name: path.read_bytes() for path in rewritten.fork.series.glob("*.patch")}
    newer = rewritten.fork.upstream.commit("Upstream moves", {"README": "newer\n"})
    rewritten.fork.repo.git("fetch", "-q", "origin")
    text = Path("patchstack.yaml").read_text().replace(rewritten.fork.pin, newer)
    Path("patchstack.yaml").write_text(text)
    rewritten.fork.pin = newer
    rewritten.export([("Room", {}), *steps()])
    after = {path.name: path.read_bytes() for path in rewritten.fork.series.glob("*.patch")}
    assert before.keys() == after.keys()
    # Dates are the builder's clock; everything but the Date line is the same byte for byte.
    assert [undated(text) for text in before.values()] == [undated(text) for text in after.values()]


def undated(text: bytes) -> bytes:
    return b"\n".join(line for line in text.split(b"\n") if not line.startswith(b"Date: "))
