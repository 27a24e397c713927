"""Park and unpark on generated series, and with a kill at each step; a thorough run has many more cases.

`PATCHSTACK_PARK_CASES=1000` tests that many series, from the number `PATCHSTACK_PARK_FIRST` on.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from patchstack.git.remote import Cache
from patchstack.process import tell_programs
from patchstack.series.lock import read_lock
from patchstack.workflow.sync import sync
from patchstack.workflow.sync.accept import Accepted
from patchstack.workflow.sync.park import park
from patchstack.workflow.sync.parking import Parking
from patchstack.workflow.sync.workspace import SyncWorkspace
from patchstack.workspace import read_workspace
from tests.conftest import Patchstack
from tests.support.builders import Changes, numbered
from tests.support.syncing import Moved, moved
from tests.support.thorough import tries

_CASES = int(os.environ.get("PATCHSTACK_PARK_CASES", tries(8, 200)))
_FIRST = int(os.environ.get("PATCHSTACK_PARK_FIRST", "0"))
_EACH = tries(9, 1)
_FILES = ("src/kernel.cu", "src/other.cpp", "docs/new.txt")


def bench_of(found: Moved, cache: Path) -> SyncWorkspace:
    """Return the directories of park, without messages."""
    workspace = read_workspace(found.settings)
    return SyncWorkspace(
        config=workspace.series[0],
        workspace=workspace,
        cache=Cache(lambda: cache, offline=True),
        talk=lambda text: None,
    )


def generated(seed: int) -> list[tuple[str, Changes]]:
    """Return commits that change some lines of some files, in part lines of earlier commits."""
    chosen = random.Random(seed)
    lines: dict[str, dict[int, str]] = {path: {} for path in _FILES}
    steps: list[tuple[str, Changes]] = []
    for number in range(1, chosen.randint(3, 7)):
        changed: Changes = {}
        for path in chosen.sample(_FILES, chosen.randint(1, 2)):
            for _ in range(chosen.randint(1, 3)):
                lines[path][chosen.randint(1, 40)] = f"{path} by commit {number}, {chosen.random()}"
            changed = {**changed, path: numbered(300 if path == _FILES[0] else 40, lines[path])}
        steps.append((f"Change {number} of {chosen.choice(('a kernel', 'the cache', 'all'))}", changed))
    return steps


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _CASES))
def test_unpark_gives_the_tree_that_park_took_a_patch_from(
    tmp_path: Path, patchstack: Patchstack, seed: int, places: object
) -> None:
    steps = generated(seed)
    found = moved(tmp_path, patchstack, steps=steps)
    before, patches = read_lock(found.fork.series), found.files()
    assert before is not None
    number = random.Random(seed).randint(1, len(steps))
    cache = tmp_path / "cache"
    done = park(bench_of(found, cache), Parking(number=number, why="for now"))
    if not isinstance(done, Accepted):
        # Later patches depend on it: nothing changes until a person resolves the conflict.
        assert found.files() == patches
        sync.abort(bench_of(found, cache))
        assert found.files() == patches
        return
    without = read_lock(found.fork.series)
    assert without is not None and len(without.patches) == len(steps) - 1
    back = park(bench_of(found, cache), Parking(number=number, back=True))
    assert isinstance(back, Accepted)
    after = read_lock(found.fork.series)
    assert after is not None
    assert (after.tree, after.head, after.parked) == (before.tree, before.head, ())
    assert {name: data for name, data in found.files().items() if name != "series.lock"} == {
        name: data for name, data in patches.items() if name != "series.lock"
    }


def steps_of(done: Callable[[], object], kill_at: int) -> int:
    """Run something in a separate process, which is killed at its n-th step: before it starts a program, or writes a
    state or a file. Return the exit status; 0 if there were fewer steps."""
    child = os.fork()
    if child == 0:
        count = 0

        def step(*_: object) -> None:
            nonlocal count
            count += 1
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        tell_programs(step)

        def hooked(event: str, arguments: object) -> None:
            if event in ("os.rename", "os.remove", "os.link", "os.symlink"):
                step()

        sys.addaudithook(hooked)
        code = 1
        try:
            done()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return status


def test_killed_at_a_step_all_is_as_before_or_after_and_park_goes_on(tmp_path: Path, patchstack: Patchstack) -> None:
    kill_at, kills = 1, 0
    while True:
        root = tmp_path / str(kill_at)
        root.mkdir()
        os.chdir(root)
        found = moved(root, patchstack)
        cache = root / "cache"
        tip = found.fork.repo.git("rev-parse", "product")
        before = found.files()

        def parked(found: Moved = found, cache: Path = cache) -> None:
            park(bench_of(found, cache), Parking(number=2, why="for now"))

        status = steps_of(parked, kill_at)
        lock = read_lock(found.fork.series)
        assert lock is not None
        assert found.fork.repo.git("rev-parse", "product") == tip
        refs = found.fork.repo.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()
        assert set(refs) <= {"product", "product-without-0002", "main"}
        if not lock.parked:
            assert {name: found.files().get(name) for name in before} == before
        if status == 0:
            break
        assert os.WIFSIGNALED(status), status
        kills += 1
        again = patchstack("park", "2", "--why", "for now")
        # All work was done; only the process had not ended yet.
        assert again == 0 or (lock.parked and again == 2), f"park does not go on after a kill at step {kill_at}"
        after = read_lock(found.fork.series)
        assert after is not None and [one.file[:4] for one in after.parked] == ["0002"]
        assert patchstack("verify") == 0
        kill_at += _EACH
    assert kills >= 3
