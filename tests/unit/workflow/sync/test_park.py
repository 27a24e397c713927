"""`patchstack park` and `unpark`: a branch without a patch, and with it again; the lock keeps parked patches."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.series.lock import read_lock
from tests.conftest import Patchstack, RunCli
from tests.support.builders import numbered, run_git
from tests.support.syncing import Moved, kernel, moved, of

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def ready(tmp_path: Path, patchstack: Patchstack) -> Moved:
    """Return three patches of one file, far from each other."""
    return moved(tmp_path, patchstack)


def park(patchstack: Patchstack, number: str = "2", why: str = "upstream may take it") -> int:
    return patchstack("park", number, "--why", why)


def names(found: Moved) -> list[str]:
    return [path.name for path in sorted(found.fork.series.glob("*.patch"))]


def test_park_takes_the_patch_out_and_the_lock_keeps_it(
    ready: Moved, patchstack: Patchstack, run_cli: RunCli, capsys: Printed
) -> None:
    before = ready.fork.repo.git("rev-parse", "product")
    lock = read_lock(ready.fork.series)
    assert lock is not None
    two = lock.patches[1]
    text = ready.fork.patches[1].read_bytes()
    assert park(patchstack) == 0
    assert "product: patch 0002 is parked; 2 patches written to patches" in capsys.readouterr().out
    assert [name[:4] for name in names(ready)] == ["0001", "0003"]
    after = read_lock(ready.fork.series)
    assert after is not None
    (parked,) = after.parked
    assert (parked.file, parked.commit, parked.object, parked.text) == (two.file, two.commit, two.object, text)
    assert (parked.reason, after.retired, after.branch) == ("upstream may take it", (), "product-without-0002")
    assert ready.fork.repo.git("rev-parse", "product") == before
    tip = ready.fork.repo.git("show", "product-without-0002:src/kernel.cu")
    assert tip + "\n" == kernel(of(1, 3))
    assert "fork_ref: product-without-0002" in ready.settings.read_text()
    assert run_cli("verify").code == 0


def test_unpark_brings_it_back_with_the_same_commits(ready: Moved, patchstack: Patchstack, run_cli: RunCli) -> None:
    lock = (ready.fork.series / "series.lock").read_text()
    patches = {path.name: path.read_bytes() for path in ready.fork.patches}
    assert park(patchstack) == 0
    assert patchstack("unpark", "2") == 0
    assert {path.name: path.read_bytes() for path in ready.fork.series.glob("*.patch")} == patches
    after = (ready.fork.series / "series.lock").read_text()
    assert after == lock.replace('"product"', '"product-with-0002"')
    old, new = (ready.fork.repo.git("rev-parse", name) for name in ("product", "product-with-0002"))
    assert old == new
    assert run_cli("verify").code == 0


def test_an_export_keeps_what_is_parked_and_its_number(ready: Moved, patchstack: Patchstack) -> None:
    assert park(patchstack, "3") == 0
    fork = ready.fork.repo
    fork.on = "product-without-0003"
    fork.commit("A fourth", {"src/other.cpp": numbered(41)})
    assert patchstack("export") == 0
    lock = read_lock(ready.fork.series)
    assert lock is not None
    assert [patch.file[:4] for patch in lock.patches] == ["0001", "0002", "0004"]
    assert [patch.file[:4] for patch in lock.parked] == ["0003"]


def test_a_patch_that_others_stand_on_stops_as_a_sync_does(
    tmp_path: Path, patchstack: Patchstack, run_cli: RunCli, capsys: Printed
) -> None:
    steps = [
        ("First", {"src/other.cpp": numbered(40, {5: "first"})}),
        ("Second", {"src/other.cpp": numbered(40, {5: "second"})}),
    ]
    found = moved(tmp_path, patchstack, steps=steps)
    before = found.files()
    assert park(patchstack, "1") == 1
    assert "working in" in (told := "".join(capsys.readouterr())) and "--continue" in told
    assert found.files() == before
    work = next(path for path in tmp_path.parent.glob(f"{tmp_path.name}-*") if path.is_dir())
    (work / "src/other.cpp").write_text(numbered(40, {5: "second"}))
    run_git("add", "src/other.cpp", cwd=work)
    assert patchstack("sync", "--continue") == 0
    assert park(patchstack, "1") == 0
    assert [name[:4] for name in names(found)] == ["0002"]
    assert run_cli("verify").code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["park", "9", "--why", "x"], "there is no patch 0009"),
        (["park", "1", "--why", " "], "--why is empty"),
        (["unpark", "1"], "patch 0001 is not parked"),
    ],
)
def test_what_cannot_be_done_is_refused(
    ready: Moved, patchstack: Patchstack, capsys: Printed, words: list[str], told: str
) -> None:
    before = ready.files()
    assert patchstack(*words) == 2
    assert told in capsys.readouterr().err
    assert ready.files() == before


def test_the_only_patch_is_not_parked(tmp_path: Path, patchstack: Patchstack, capsys: Printed) -> None:
    moved(tmp_path, patchstack, 1)
    assert park(patchstack, "1") == 2
    assert "is the only patch" in capsys.readouterr().err


def test_what_is_parked_is_not_parked_twice(ready: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    assert park(patchstack) == 0
    assert park(patchstack) == 2
    assert "patch 0002 is already parked" in capsys.readouterr().err


def test_verify_status_and_canary_tell_of_what_is_parked(ready: Moved, patchstack: Patchstack, run_cli: RunCli) -> None:
    assert park(patchstack) == 0
    told = "0002-Change-2-of-a-kernel.patch is parked: upstream may take it"
    assert f"warning: {told}" in run_cli("verify").stderr
    assert told in run_cli("status", "--json").document["warnings"]

    def still() -> str:
        ran = run_cli("canary", "--to", "main", "--json")
        (parked,) = ran.document["parked"]
        assert (parked["number"], parked["subject"]) == (2, "Change 2 of a kernel")
        return str(parked["still"])

    assert still() == "would still apply"
    ready.upstream("Nearby", {"src/kernel.cu": kernel({22: "upstream's"})})
    assert still() in ("would still apply", "would merge three-way")
    ready.upstream("There", {"src/kernel.cu": kernel({20: "upstream's"})})
    assert still() == "does not apply any more"
    ran = run_cli("canary", "--to", "main")
    assert f"{told.replace(': ', ' (')}): it does not apply any more" in ran.stdout
