"""Fetching into the cache: at once, after a kill, under a hostile configuration, and without giving secrets away."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest

from patchstack.git.remote import shown_url
from tests.conftest import Places, RunCli
from tests.support.builders import Fork, a_fork, run_git
from tests.support.checkout import ROOT


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    return a_fork(tmp_path, 3)


def by_url(fork: Fork) -> list[str]:
    return [
        *("--patches", str(fork.series), "--upstream", f"file://{fork.upstream.path}", "--pin", fork.pin),
        *("--fork", f"file://{fork.repo.path}", "--fork-ref", fork.ref),
    ]


def test_many_at_once_share_a_cold_cache(fork: Fork) -> None:
    command = [sys.executable, "-m", "patchstack", "verify", *by_url(fork)]
    runs = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    told = [run.communicate(timeout=60) for run in runs]
    assert [run.returncode for run in runs] == [0] * 4, told


def test_what_a_killed_run_left_does_not_stay_in_the_way(fork: Fork, run_cli: RunCli, places: Places) -> None:
    assert run_cli("verify", *by_url(fork)).code == 0
    for clone in (places.cache / "repositories").glob("*.git"):
        (clone / "shallow.lock").write_text("")
    (places.cache / "repositories" / ".making-x").mkdir()
    assert run_cli("verify", *by_url(fork)).code == 0


def test_while_the_git_of_a_killed_run_still_writes_nobody_takes_its_clone_for_abandoned(
    fork: Fork, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, asked = places.home / "slow", places.home / "asked"
    slow.write_text(f'#!/bin/sh\necho >{asked}\nsleep 2\nexec git-upload-pack "$@"\n')
    slow.chmod(0o755)
    (places.home / ".gitconfig").write_text(f'[remote "patchstack-cache"]\nuploadpack = {slow}\n')
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    nowhere = subprocess.DEVNULL
    command = [sys.executable, "-m", "patchstack", "verify", *by_url(fork)]
    with subprocess.Popen(command, cwd=ROOT, stdout=nowhere, stderr=nowhere) as run:
        deadline = monotonic() + 30
        while not asked.exists() and monotonic() < deadline:
            sleep(0.01)
        run.kill()
    lock = next((places.cache / "repositories").glob("*.lock"))
    with lock.open() as held:
        with pytest.raises(BlockingIOError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(held, fcntl.LOCK_EX)
    assert asked.exists()


def test_a_user_s_configuration_of_remotes_and_hooks_is_not_the_cache_s(
    fork: Fork, run_cli: RunCli, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = places.home / "hooks"
    hooks.mkdir()
    (hooks / "reference-transaction").write_text("#!/bin/sh\nexit 1\n")
    (hooks / "reference-transaction").chmod(0o755)
    run_git("init", "-q", "--bare", "elsewhere", cwd=places.home)
    config = places.home / ".gitconfig"
    config.write_text(
        f'[remote "origin"]\nurl = {places.home}/elsewhere\nuploadpack = false\n'
        f"[core]\nhooksPath = {hooks}\n[safe]\nbareRepository = explicit\n[protocol]\nversion = 0\n"
        "[init]\ndefaultBranch = x y\n"
    )
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    ran = run_cli("verify", *by_url(fork))
    assert ran.code == 0, ran


@pytest.mark.parametrize("ref", ["", "-x", "HEAD~1", "a..b", "main:x", "a b", "x*"])
def test_a_ref_that_is_none_is_refused_before_anything_is_fetched(fork: Fork, run_cli: RunCli, ref: str) -> None:
    ran = run_cli("verify", *by_url(fork)[:-1], ref)
    assert ran.code == 2, ran
    assert "is no branch, tag or commit" in ran.stderr or "No such option" in ran.stderr or "requires" in ran.stderr


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:TOKEN@host/x.git", "https://host/x.git"),
        ("https://TOKEN@host/x@y", "https://host/x@y"),
        ("ssh://git@host/x", "ssh://host/x"),
        ("git@host:x", "git@host:x"),
        ("https://host/x", "https://host/x"),
    ],
)
def test_a_url_is_shown_without_its_credentials(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_credentials_are_neither_told_nor_stored(fork: Fork, run_cli: RunCli, places: Places) -> None:
    url = "https://user:SECRET@127.0.0.1:9/x.git"
    ran = run_cli("verify", "--patches", fork.series, "--upstream", url, "--pin", fork.pin)
    assert ran.code == 3
    assert "https://127.0.0.1:9/x.git" in ran.told
    assert "SECRET" not in ran.told
    stored = [path for path in places.cache.rglob("*") if path.is_file() and b"SECRET" in path.read_bytes()]
    assert not stored


def test_offline_says_that_the_fork_is_as_it_was_fetched(fork: Fork, run_cli: RunCli) -> None:
    assert run_cli("verify", *by_url(fork)).code == 0
    fork.repo.commit("Moved on", {"more": "x\n"})
    ran = run_cli("verify", *by_url(fork), "--offline")
    assert ran.code == 0
    assert "product as last fetched (" in ran.stdout
    assert run_cli("verify", *by_url(fork)).code == 1
