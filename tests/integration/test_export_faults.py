"""`patchstack export` when things go wrong: killed at every file operation, full and read-only disks, two at once,
wrong locks. The set of patches is the old one or the new one, and nothing is lost."""

from __future__ import annotations

import bisect
import contextlib
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from patchstack.cli.failures import guarded
from patchstack.cli.main import app
from patchstack.files import journal
from tests.conftest import Patchstack
from tests.support.builders import Fork, a_fork, kernel_steps
from tests.support.checkout import ROOT
from tests.support.thorough import steps

Files = dict[str, bytes]


@pytest.fixture
def fork(tmp_path: Path, patchstack: Patchstack) -> Fork:
    """Return a fork that was exported and then rewritten: the next export changes, removes and adds one patch."""
    fork = a_fork(tmp_path, 4)
    for path in fork.patches:
        path.unlink()
    (fork.series.parent / "patchstack.yaml").write_text(
        f"series:\n  product:\n    patches: patches\n    upstream: upstream\n    pin: {fork.pin}\n"
        f"    fork: fork\n    fork_ref: {fork.ref}\n"
    )
    (fork.series / "README").write_text("mine\n")
    assert patchstack("export") == 0
    fork.repo.branch("product", fork.pin)
    for subject, changes in kernel_steps([1, 2]):
        fork.repo.commit(subject, {**changes, "src/more.h": f"// {subject}\n"} if "2" in subject else changes)
    fork.repo.commit("One more", {"more": "x\n"})
    return fork


def files(directory: Path) -> Files:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def beside(fork: Fork) -> list[str]:
    """Return the entries next to the series, with leftovers."""
    return sorted(path.name for path in fork.series.parent.iterdir())


def new_set(fork: Fork, patchstack: Patchstack) -> Files:
    """Return the set that an undisturbed export gives; the old one is restored."""
    kept = fork.series.parent / "kept"
    shutil.copytree(fork.series, kept)
    assert patchstack("export") == 0
    found = files(fork.series)
    put_back(fork)
    return found


def put_back(fork: Fork) -> None:
    shutil.rmtree(fork.series)
    shutil.copytree(fork.series.parent / "kept", fork.series)


CHANGING = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def count_changes(each: Callable[[], object]) -> None:
    """Call `each` before every change of the file system by this process, from now on."""

    def hook(event: str, arguments: Sequence[Any]) -> None:
        if event in CHANGING or event == "fcntl.flock" or (event == "open" and arguments[2] & WRITING):
            each()

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            each()
            return real(*args)

        return call

    os.fsync = counted(os.fsync)
    journal._exchange = counted(journal._exchange)
    sys.addaudithook(hook)


def export_in_child(before: Callable[[], None]) -> int:
    """Run `patchstack export` in a child process after a preparation in it, and return its wait status."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nowhere, stream)
            sys.argv = ["patchstack", "export"]
            before()
            os._exit(guarded(app))
        os._exit(99)
    return os.waitpid(child, 0)[1]


def changes_of_an_export() -> int:
    """Return how many times a whole export changes the file system."""
    told, tells = os.pipe()
    assert export_in_child(lambda: count_changes(lambda: os.write(tells, b"."))) == 0
    os.close(tells)
    with open(told, "rb") as reading:
        return len(reading.read())


def dying_at(operation: int) -> Callable[[], None]:
    left = operation

    def step() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return lambda: count_changes(step)


def test_killed_at_every_file_operation_the_old_set_or_the_new_one_is_there(
    fork: Fork, patchstack: Patchstack, tmp_path: Path
) -> None:
    new = new_set(fork, patchstack)
    old = files(fork.series)
    assert sorted(new.keys() ^ old.keys()) == [
        *("0003-Change-3-of-a-kernel.patch", "0004-Change-4-of-a-kernel.patch", "0005-One-more.patch")
    ]
    assert new["0002-Change-2-of-a-kernel.patch"] != old["0002-Change-2-of-a-kernel.patch"]
    around = beside(fork)
    count = changes_of_an_export()
    assert count > 30 and files(fork.series) == new
    seen: dict[int, bool] = {}

    def kill_at(operation: int) -> bool:
        """Return whether the new set exists afterwards."""
        if operation in seen:
            return seen[operation]
        put_back(fork)
        status = export_in_child(dying_at(operation))
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, operation
        found = files(fork.series)
        assert found in (old, new), operation
        seen[operation] = found == new
        # The next export completes the set without help, and removes leftovers next to it.
        if operation % 4 == 0 or len(beside(fork)) > len(around) or found == new:
            assert patchstack("export") == 0
            assert files(fork.series) == new, operation
            assert beside(fork) == around, operation
        return seen[operation]

    for operation in steps(count, every=5):
        kill_at(operation)
    # The exchange of the two sets, and the operations next to it.
    switch = bisect.bisect_left(range(count + 1), True, lo=1, key=kill_at)
    for operation in range(max(1, switch - 3), min(count, switch + 3) + 1):
        kill_at(operation)
    course = [seen[operation] for operation in sorted(seen)]
    assert course == sorted(course), "once the new set is there it stays"
    assert {False, True} == set(course)


def test_a_disk_that_takes_no_more_leaves_the_old_set(fork: Fork, patchstack: Patchstack, tmp_path: Path) -> None:
    fork.repo.branch("product", fork.pin)
    for subject, changes in kernel_steps(range(1, 9)):
        fork.repo.commit(subject, changes)
    old, around = files(fork.series), beside(fork)
    largest = max(len(data) for data in old.values())
    # Every patch can be written, but the lock, which is larger, only in part.
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    status = export_in_child(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 100, limit)))
    assert os.waitstatus_to_exitcode(status) == 3
    assert files(fork.series) == old
    assert beside(fork) == around
    assert patchstack("export") == 0
    assert len(files(fork.series)) == 10


def in_own_mounts(script: str, *arguments: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell script in its own mount namespace."""
    command = ["unshare", "--mount", "sh", "-euc", script, sys.executable, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=60)


@pytest.fixture
def mounts(tmp_path: Path) -> None:
    able = shutil.which("unshare") and in_own_mounts(f"mount -t tmpfs tmpfs {tmp_path}").returncode == 0
    if not able:
        pytest.skip("only root may mount a small or read-only file system, where the container lets it")


@pytest.mark.parametrize(
    ("prepare", "complaint"),
    [
        ("dd if=/dev/zero of=ballast bs=1k 2>/dev/null || true", "No space left on device"),
        ("mount -o remount,ro full", "Read-only file system"),
    ],
)
@pytest.mark.usefixtures("mounts")
def test_on_a_full_or_read_only_file_system_the_old_set_stays(
    fork: Fork, tmp_path: Path, prepare: str, complaint: str
) -> None:
    old = files(fork.series)
    for name in ("full", "out"):
        (tmp_path / name).mkdir()
    settings = tmp_path / "patchstack.yaml"
    settings.write_text(settings.read_text().replace("patches: patches", "patches: full/patches"))
    ran = in_own_mounts(
        "mount -t tmpfs -o size=64k full full; mv patches full/; cd full; "
        f"{prepare}; cd ..; {'mount -o remount,ro full' if 'remount' in prepare else ':'}; "
        'code=0; "$0" -m patchstack export || code=$?; '
        "cp -r full/patches out/; ls -A full > out/around; exit $code"
    )
    assert ran.returncode == 3, ran
    assert "cannot be written: " in ran.stderr and complaint in ran.stderr, ran
    assert "nothing was changed" in ran.stderr
    assert files(tmp_path / "out" / "patches") == old
    assert (tmp_path / "out" / "around").read_text().split() in (["ballast", "patches"], ["patches"])


def test_two_exports_at_once_are_refused_and_nothing_is_written(
    fork: Fork, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    old = files(fork.series)
    holder = os.open(fork.series.parent, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    capsys.readouterr()
    assert patchstack("export") == 2
    assert f"another patchstack export is running in {fork.series.parent}" in capsys.readouterr().err
    assert files(fork.series) == old
    os.close(holder)
    assert patchstack("export") == 0


def test_of_many_exports_started_together_each_ends_well_or_is_refused(fork: Fork, patchstack: Patchstack) -> None:
    new = new_set(fork, patchstack)
    shutil.rmtree(fork.series.parent / "kept")
    command = [sys.executable, "-m", "patchstack", "export"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    quiet = subprocess.DEVNULL
    running = [subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet) for _ in range(4)]
    codes = {process.wait(timeout=60) for process in running}
    assert 0 in codes and codes <= {0, 2}, codes
    assert files(fork.series) == new
    assert ".patches.patchstack-new" not in beside(fork)


def test_a_lock_of_a_newer_version_is_left_alone(
    fork: Fork, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = fork.series / "series.lock"
    lock.write_text(lock.read_text().replace("patchstack.lock/1", "patchstack.lock/2"))
    before = files(fork.series)
    capsys.readouterr()
    for options in ([], ["--discard-edits"], ["--renumber"]):
        assert patchstack("export", *options) == 2
        told = capsys.readouterr().err
        assert "schema: 'patchstack.lock/2', not 'patchstack.lock/1'; a newer patchstack wrote it" in told
        assert "hint: use the patchstack version that wrote it, or a newer version" in told
    assert files(fork.series) == before


@pytest.mark.parametrize("field", ["commit", "tree", "patch_id", "object", "base", "head", "sha256"])
def test_what_a_lock_lies_about_is_found_out_or_put_right(
    fork: Fork, patchstack: Patchstack, capsys: pytest.CaptureFixture[str], field: str
) -> None:
    assert patchstack("export") == 0
    clean = files(fork.series)
    lock = fork.series / "series.lock"
    lines = lock.read_text().split("\n")
    if field in ("base", "head"):
        at = next(i for i, line in enumerate(lines) if line == {"base": "base:", "head": "fork:"}[field])
        at += 1 if field == "base" else 2
    else:
        at = [i for i, line in enumerate(lines) if line.startswith(f"    {field}: ")][1]
    name, _, value = lines[at].partition(': "')
    lines[at] = f'{name}: "' + ("AAAA" + value[4:] if field == "object" else value.translate(ROTATED))
    lied = "\n".join(lines)
    assert lied != lock.read_text()
    lock.write_text(lied)
    capsys.readouterr()
    code = patchstack("export")
    told = capsys.readouterr()
    if field == "sha256":
        assert code == 1
        assert "0002-Change-2-of-a-kernel.patch: it was changed after the export" in told.err
        assert patchstack("export", "--discard-edits") == 0
    else:
        assert code == 0, told
    assert files(fork.series) == clean


ROTATED = str.maketrans("0123456789abcdef", "123456789abcdef0")


def test_a_number_that_a_lock_retired_stays_retired(fork: Fork, patchstack: Patchstack) -> None:
    assert patchstack("export") == 0
    assert b"retired: [3, 4]" in files(fork.series)["series.lock"]
    fork.repo.commit("And one", {"one": "x\n"})
    assert patchstack("export") == 0
    assert "0006-And-one.patch" in files(fork.series)
