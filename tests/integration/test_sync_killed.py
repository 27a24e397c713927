"""`patchstack sync`, killed between any two steps: continuing it gives the same result as an undisturbed sync."""

from __future__ import annotations

import contextlib
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
from tests.conftest import Patchstack
from tests.support.builders import run_git, snapshot
from tests.support.syncing import Moved, kernel, moved, of
from tests.support.thorough import steps

Printed = pytest.CaptureFixture[str]
STEPS = frozenset({"subprocess.Popen", "os.rename"})
REMOVALS = frozenset({"os.remove", "os.rmdir", "os.rename"})
RESOLVED = kernel({20: "both"}, of(1))
TO = ("sync", "--to", "main", "--worktree", "ws/work")


def count_steps(each: Callable[[], object], steps: frozenset[str]) -> None:
    """Call `each` before every step of that kind in this process, from now on."""

    def hook(event: str, arguments: Sequence[Any]) -> None:
        if event in steps:
            each()

    sys.addaudithook(hook)


def in_child(arguments: Sequence[str], before: Callable[[], None]) -> int:
    """Run patchstack in a child process after a preparation in it, and return its wait status."""
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
    """Make a workspace with two patches; the second conflicts with upstream."""
    (tmp_path / "ws").mkdir()
    command = ("--workspace", str(tmp_path / "ws" / "patchstack.yaml"))
    found = moved(tmp_path / "ws", lambda *args: patchstack(*args, *command), 2)
    found.upstream("The very line (#8)", {"src/kernel.cu": kernel({20: "upstream's"})})
    return found


def options(world: Moved, *arguments: str) -> list[str]:
    return [*arguments, "--workspace", str(world.settings)]


def outcome(world: Moved) -> dict[str, object]:
    """Return everything that an accepted sync leaves."""
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
    """Return everything in the workspace, without times."""
    return frozenset((path, found[0], *found[2:]) for path, found in snapshot(world.root).items())


def left(world: Moved) -> list[str]:
    """Return everything in the workspace, except an empty directory for states, which the next sync removes."""
    found = [path.relative_to(world.root) for pattern in ("*", ".patchstack/*/*") for path in world.root.glob(pattern)]
    return sorted(str(path) for path in found if path.parts[:2] != (".patchstack", "sync"))


def state_of(world: Moved) -> str | None:
    path = world.root / ".patchstack" / "sync" / "product" / "state.json"
    return json.loads(path.read_text())["phase"] if path.exists() else None


def finish(world: Moved, patchstack: Patchstack) -> None:
    """Do what a person does with a sync in any state: begin, continue, resolve, accept."""
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
    """Kill a command before a sample of its steps. Continuing then gives the result of an undisturbed sync."""
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
    for step in steps(count, every=6):
        restore()
        status = in_child(options(world, *stage), dying_at(step))
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, step
        phases.add(state_of(world))
        # A step that only reads leaves the same state as the step before it, from which a sync was already continued.
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


def test_killed_while_what_the_policy_asks_for_is_run_continue_takes_the_accept_up(
    world: Moved, patchstack: Patchstack
) -> None:
    deadly = "    sync: {require: [[sh, -c, 'kill -9 $PPID']]}\n"
    world.settings.write_text(world.settings.read_text() + deadly)
    assert patchstack(*options(world, *TO)) == 1
    world.resolve("src/kernel.cu", RESOLVED)
    assert patchstack(*options(world, "sync", "--continue")) == 0
    assert os.WIFSIGNALED(in_child(options(world, "sync", "--accept"), lambda: None))
    assert state_of(world) == "ready" and f"pin: {world.fork.pin}" in world.settings.read_text()
    assert patchstack(*options(world, "sync")) == 1, "a person is needed"
    world.settings.write_text(world.settings.read_text().replace("kill -9 $PPID", "true"))
    assert patchstack(*options(world, "sync", "--continue")) == 0
    assert state_of(world) is None
    assert f"pin: {world.fork.upstream.head()}" in world.settings.read_text()


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
    for step in steps(count, every=20, also=(count - 2, count - 1)):
        shutil.rmtree(world.root)
        shutil.copytree(saved, world.root, symlinks=True)
        assert os.WIFSIGNALED(in_child(command, dying_at(step, REMOVALS))), step
        if state_of(world) is not None:
            assert patchstack(*command) == 0, step
        assert left(world) == wanted, step
