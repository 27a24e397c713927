"""`patchstack sync` when things go wrong: killed between any two steps, sources that move, states that are damaged."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from patchstack.cli.failures import guarded
from patchstack.cli.main import app
from tests.builders import numbered, run_git, snapshot
from tests.conftest import Patchstack
from tests.syncing import Moved, kernel, moved, of

Printed = pytest.CaptureFixture[str]
STEPS = frozenset({"subprocess.Popen", "os.rename", "shutil.rmtree", "os.mkdir"})
REMOVALS = frozenset({"os.remove", "os.rmdir", "os.rename"})
RESOLVED = kernel({20: "both"}, of(1))
TO = ("sync", "--to", "main", "--worktree", "ws/work")


def count_steps(each: Callable[[], object], steps: frozenset[str]) -> None:
    """Call `each` before everything of that kind that this process does, from now on."""

    def hook(event: str, arguments: Sequence[Any]) -> None:
        if event in steps:
            each()

    sys.addaudithook(hook)


def in_child(arguments: Sequence[str], before: Callable[[], None]) -> int:
    """Run patchstack in a child that first does something to itself; gives its wait status."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nowhere, stream)
            sys.argv = ["patchstack", *arguments]
            before()
            os._exit(guarded(app))
        os._exit(99)
    return os.waitpid(child, 0)[1]


def steps_of(arguments: Sequence[str], steps: frozenset[str] = STEPS) -> int:
    told, tells = os.pipe()
    in_child(arguments, lambda: count_steps(lambda: os.write(tells, b"."), steps))
    os.close(tells)
    with open(told, "rb") as reading:
        return len(reading.read())


def dying_at(step: int, steps: frozenset[str] = STEPS) -> Callable[[], None]:
    left = step

    def each() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return lambda: count_steps(each, steps)


@pytest.fixture
def world(tmp_path: Path, patchstack: Patchstack, monkeypatch: pytest.MonkeyPatch) -> Moved:
    """Three patches, the second in conflict with upstream, in a workspace of its own directory."""
    (tmp_path / "ws").mkdir()
    command = ("--workspace", str(tmp_path / "ws" / "patchstack.yaml"))
    found = moved(tmp_path / "ws", lambda *args: patchstack(*args, *command), 3)
    found.upstream("The very line (#8)", {"src/kernel.cu": kernel({20: "upstream's"})})
    return found


def options(world: Moved, *arguments: str) -> list[str]:
    return [*arguments, "--workspace", str(world.settings)]


def outcome(world: Moved) -> dict[str, object]:
    """All that an accepted sync leaves."""
    branch = world.settings.read_text().rpartition("fork_ref: ")[2].strip()
    record = next((world.root / ".patchstack" / "synced").iterdir())
    return {
        "settings": world.settings.read_text(),
        "files": world.files(),
        "branch": run_git("rev-parse", branch, cwd=world.fork.repo.path).stdout,
        "old": run_git("rev-parse", world.fork.ref, cwd=world.fork.repo.path).stdout,
        "record": {**json.loads(record.read_text()), "worktree": None},
        "left": left(world),
        "work": world.work.exists(),
    }


def standing(world: Moved) -> frozenset[object]:
    """All that lies in the workspace, without times."""
    return frozenset((path, found[0], *found[2:]) for path, found in snapshot(world.root).items())


def left(world: Moved) -> list[str]:
    """What lies in the workspace, but for an empty place for states, which the next sync clears away."""
    found = [path.relative_to(world.root) for pattern in ("*", ".patchstack/*/*") for path in world.root.glob(pattern)]
    return sorted(str(path) for path in found if path.parts[:2] != (".patchstack", "sync"))


def state_of(world: Moved) -> str | None:
    path = world.root / ".patchstack" / "sync" / "product" / "state.json"
    return json.loads(path.read_text())["phase"] if path.exists() else None


def finish(world: Moved, patchstack: Patchstack) -> None:
    """What a person does who finds a sync in any state: begin, go on, resolve, accept."""
    for _ in range(6):
        phase = state_of(world)
        if phase is None and "sync" in world.settings.read_text():
            return
        if phase is None:
            patchstack(*options(world, *TO))
        elif phase == "stopped":
            world.resolve("src/kernel.cu", RESOLVED)
            patchstack(*options(world, "sync", "--continue"))
        elif phase in ("ready", "accepting", "closing"):
            assert patchstack(*options(world, "sync", "--accept")) == 0
        else:
            patchstack(*options(world, "sync", "--continue"))
    raise AssertionError(state_of(world))


def killed_everywhere(world: Moved, patchstack: Patchstack, stage: Sequence[str]) -> None:
    """Kill a command before every step of it; whoever goes on then ends where an undisturbed sync ends."""
    saved = world.root.with_name("saved")
    shutil.copytree(world.root, saved, symlinks=True)

    def restore() -> None:
        shutil.rmtree(world.root)
        shutil.copytree(saved, world.root, symlinks=True)

    count = steps_of(options(world, *stage))
    finish(world, patchstack)
    wanted = outcome(world)
    assert count > 10
    phases, seen = set(), set[frozenset[object]]()
    for step in range(1, count + 1):
        restore()
        status = in_child(options(world, *stage), dying_at(step))
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, step
        phases.add(state_of(world))
        # A step that only reads leaves what the one before left: that has been gone on from already.
        if (stands := standing(world)) in seen:
            continue
        seen.add(stands)
        finish(world, patchstack)
        assert outcome(world) == wanted, step
    assert len(phases) > 1, "it was killed in more than one phase"


def test_killed_anywhere_up_to_the_conflict_it_goes_on(world: Moved, patchstack: Patchstack) -> None:
    killed_everywhere(world, patchstack, TO)


def test_killed_anywhere_behind_the_conflict_it_goes_on(world: Moved, patchstack: Patchstack) -> None:
    assert patchstack(*options(world, *TO)) == 1
    world.resolve("src/kernel.cu", RESOLVED)
    killed_everywhere(world, patchstack, ("sync", "--continue"))


def test_killed_anywhere_while_it_is_accepted_the_next_accept_finishes_it(world: Moved, patchstack: Patchstack) -> None:
    assert patchstack(*options(world, *TO)) == 1
    world.resolve("src/kernel.cu", RESOLVED)
    assert patchstack(*options(world, "sync", "--continue")) == 0
    killed_everywhere(world, patchstack, ("sync", "--accept"))


@pytest.mark.parametrize("stage", ["--abort", "--accept"])
def test_killed_while_it_clears_up_it_can_be_told_to_again(world: Moved, patchstack: Patchstack, stage: str) -> None:
    assert patchstack(*options(world, *TO)) == 1
    world.resolve("src/kernel.cu", RESOLVED)
    assert patchstack(*options(world, "sync", "--continue")) == 0
    saved = world.root.with_name("saved")
    shutil.copytree(world.root, saved, symlinks=True)
    command = options(world, "sync", stage)
    count = steps_of(command, REMOVALS)
    wanted = left(world)
    assert count > 50 and "work" not in wanted
    for step in [*range(1, count + 1, 7), count - 2, count - 1, count]:
        shutil.rmtree(world.root)
        shutil.copytree(saved, world.root, symlinks=True)
        assert os.WIFSIGNALED(in_child(command, dying_at(step, REMOVALS))), step
        if state_of(world) is not None:
            assert patchstack(*command) == 0, step
        assert left(world) == wanted, step


@pytest.fixture
def ready(tmp_path: Path, patchstack: Patchstack) -> Moved:
    """A finished sync that waits to be accepted."""
    found = moved(tmp_path, patchstack)
    found.upstream("Elsewhere", {"src/other.cpp": numbered(41)})
    assert patchstack("sync", "--to", "main", "--worktree", "work") == 0
    return found


def refused(patchstack: Patchstack, capsys: Printed, code: int, *arguments: str) -> str:
    capsys.readouterr()
    assert patchstack("sync", *arguments) == code
    return capsys.readouterr().err


def test_a_fork_that_has_moved_meanwhile_is_not_lost(ready: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    ready.fork.repo.commit("Later", {"later": "x\n"})
    told = refused(patchstack, capsys, 1, "--accept")
    assert "error: the fork ./fork product has moved from" in told and "and the new branch lacks that" in told
    assert f"pin: {ready.fork.pin}" in ready.settings.read_text()


def test_patches_that_have_changed_meanwhile_are_not_overwritten(
    ready: Moved, patchstack: Patchstack, capsys: Printed
) -> None:
    ready.fork.edit_patch(1, "changed by commit 1", "changed by hand")
    before = ready.files()
    assert f"error: the patches in {Path('patches')} have changed since" in refused(patchstack, capsys, 1, "--accept")
    assert ready.files() == before


def test_a_work_tree_that_has_moved_on_is_not_accepted(ready: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    run_git("commit", "-q", "--allow-empty", "-m", "More", cwd=ready.work)
    assert "is no longer at" in refused(patchstack, capsys, 1, "--accept")


def test_a_branch_that_came_in_between_is_not_overwritten(
    ready: Moved, patchstack: Patchstack, capsys: Printed
) -> None:
    branch = ready.git("symbolic-ref", "--short", "HEAD")
    ready.fork.repo.branch(branch, ready.fork.pin)
    told = refused(patchstack, capsys, 2, "--accept")
    assert f"error: the fork ./fork has another branch {branch} by now" in told
    assert ready.fork.repo.git("rev-parse", branch) == ready.fork.pin
    assert "--accept has begun to write and was interrupted" in refused(patchstack, capsys, 2, "--abort")
    ready.fork.repo.git("branch", "-m", branch, "theirs")
    assert patchstack("sync", "--accept") == 0
    assert patchstack("verify") == 0


def test_a_work_tree_with_files_of_somebodys_own_is_left(ready: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    (ready.work / "notes").write_text("mine\n")
    assert "was left as it is, as it holds files that git does not know" in refused(patchstack, capsys, 0, "--accept")
    assert (ready.work / "notes").read_text() == "mine\n"


def test_a_second_sync_is_refused_while_one_is_under_way(ready: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    told = refused(patchstack, capsys, 2, "--to", "main")
    assert "error: a sync of product to main is under way (ready)" in told
    holder = os.open(ready.root / ".patchstack" / "sync" / "product", os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    assert "error: another patchstack sync is at work in" in refused(patchstack, capsys, 2, "--continue")
    os.close(holder)


@pytest.mark.parametrize("damage", ["", "{}", "[1]", '{"schema": "patchstack.sync-state/1"}', "not JSON"])
def test_a_damaged_state_is_named_and_never_a_traceback(
    ready: Moved, patchstack: Patchstack, capsys: Printed, damage: str
) -> None:
    path = ready.root / ".patchstack" / "sync" / "product" / "state.json"
    path.write_text(damage)
    told = refused(patchstack, capsys, 2, "--continue")
    assert "state.json is not a state of patchstack sync" in told and "begin again" in told


def test_a_work_tree_that_is_gone_is_named(ready: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    shutil.rmtree(ready.work)
    told = refused(patchstack, capsys, 3, "--accept")
    assert f"error: the sync's repository {ready.work} is gone" in told
    assert patchstack("sync", "--abort") == 0


def test_a_directory_that_is_not_ours_is_not_removed(ready: Moved, patchstack: Patchstack, capsys: Printed) -> None:
    shutil.rmtree(ready.work)
    ready.work.mkdir()
    (ready.work / "mine").write_text("mine\n")
    told = refused(patchstack, capsys, 2, "--abort")
    assert f"error: {ready.work} is not the repository that this sync made; nothing was removed" in told
    assert (ready.work / "mine").read_text() == "mine\n"
