"""git is run from one module: its environment, its permissions, and the errors if it fails."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from patchstack.errors import Exit, MissingError
from patchstack.git import run as git
from patchstack.process import Finished
from tests.support.builders import RepoBuilder, a_fork, an_upstream, run_git

Call = Callable[[Path], Finished]
CALLS: dict[str, Call] = {
    "read": lambda place: git.read(place, "version"),
    "write": lambda place: git.write(place, "version"),
    "isolated": lambda place: git.isolated(place, "version", GIT_INDEX_FILE="/index"),
    "fetch": lambda place: git.fetch(place, "https://host/x", "--depth=1", refs=("main",)),
    "fetch_locally": lambda place: git.fetch_locally(place, Path("/from"), "main:main"),
}
READ = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
ISOLATED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Call], tuple[list[str], dict[str, str]]]:
    """Record the arguments and `GIT_*` variables that git gets in a call, from a caller with many such variables."""
    (tmp_path / "bin").mkdir()
    stub = tmp_path / "bin" / "git"
    stub.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        "print(json.dumps([sys.argv[1:], {k: v for k, v in os.environ.items() if k.startswith('GIT_')}]))\n"
    )
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stub.parent}:{os.environ['PATH']}")
    for name in ("DIR", "WORK_TREE", "INDEX_FILE", "OBJECT_DIRECTORY", "CONFIG_PARAMETERS", "SSH_COMMAND", "TRACE"):
        monkeypatch.setenv(f"GIT_{name}", "the caller's")

    def told(call: Call) -> tuple[list[str], dict[str, str]]:
        args, variables = json.loads(call(tmp_path / "place").stdout)
        return args, variables

    return told


def test_what_reaches_git_is_what_its_use_asks_for(
    tmp_path: Path, seen: Callable[[Call], tuple[list[str], dict[str, str]]]
) -> None:
    place = str(tmp_path / "place")
    above = {"GIT_CEILING_DIRECTORIES": str(tmp_path.resolve())}
    no_hooks = ["-c", "core.hooksPath=/dev/null"]
    no_upkeep = ["-c", "gc.auto=0", "-c", "maintenance.auto=false"]
    kept_apart = ["--no-tags", "--no-write-fetch-head", "--recurse-submodules=no"]
    assert {name: seen(call) for name, call in CALLS.items()} == {
        "read": (["-C", place, "-c", "safe.bareRepository=all", "version"], READ | above),
        "write": (["-C", place, *no_hooks, "version"], above),
        "isolated": (["version"], ISOLATED | {"GIT_DIR": place, "GIT_INDEX_FILE": "/index"}),
        "fetch": (
            [
                *(f"--git-dir={place}", "-c", "protocol.version=2", *no_hooks, "-c", "safe.bareRepository=all"),
                *("-c", "remote.patchstack-cache.url=https://host/x", *no_upkeep, "fetch", "--progress", *kept_apart),
                *("--filter=blob:none", "--depth=1", "patchstack-cache", "main"),
            ],
            {"GIT_TERMINAL_PROMPT": "0"},
        ),
        "fetch_locally": (
            [*no_hooks, *no_upkeep, "fetch", "--quiet", *kept_apart, "/from", "main:main"],
            ISOLATED | {"GIT_DIR": place, "GIT_ALLOW_PROTOCOL": "file"},
        ),
    }


def test_only_fetch_gets_what_the_network_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: Callable[[Call], object]
) -> None:
    (tmp_path / "bin" / "git").write_text(f"#!{sys.executable}\nimport os\nprint(os.environ.get('SSH_AUTH_SOCK'))\n")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")
    told = {name: call(tmp_path).stdout.decode().strip() for name, call in CALLS.items()}
    assert told == dict.fromkeys(CALLS, "None") | {"fetch": "/agent"}


@pytest.fixture
def clone(tmp_path: Path) -> RepoBuilder:
    """Return a repository with a work tree, and a hook that writes a file in its directory."""
    upstream, _ = an_upstream(tmp_path)
    run_git("checkout", "-q", "main", cwd=upstream.path)
    return upstream


def test_reading_takes_no_lock_and_leaves_the_index_as_it_is(clone: RepoBuilder) -> None:
    index = clone.path / ".git" / "index"
    (clone.path / "README").touch()
    os.utime(clone.path / "README", (1, 1))  # git would note the new time in the index
    before = index.read_bytes()
    assert git.read(clone.path, "status", "--short").ok
    assert index.read_bytes() == before
    assert git.write(clone.path, "status", "--short").ok
    assert index.read_bytes() != before, "or there was nothing to write"


def test_reading_never_fetches(tmp_path: Path) -> None:
    fork = a_fork(tmp_path, 1)
    fork.upstream.git("config", "uploadpack.allowFilter", "true")
    fork.upstream.git("config", "uploadpack.allowAnySHA1InWant", "true")
    partial = tmp_path / "partial"
    run_git("clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{fork.upstream.path}", partial, cwd=tmp_path)
    blob = fork.upstream.blob(fork.pin, "src/kernel.cu")
    refused = git.read(partial, "cat-file", "blob", blob)
    assert not refused.ok
    assert not git.isolated(partial / ".git", "cat-file", "blob", blob).ok
    assert run_git("cat-file", "blob", blob, cwd=partial).stdout.startswith(b"line 1\n"), "or it could not be fetched"


@pytest.mark.parametrize("place", ["repository", "configuration"])
def test_nobodys_hooks_run_where_a_clone_is_written(
    clone: RepoBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    hooks = clone.path / ".git" / "hooks" if place == "repository" else tmp_path / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "reference-transaction").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (hooks / "reference-transaction").chmod(0o755)
    if place == "configuration":
        clone.git("config", "core.hooksPath", hooks)
    assert git.write(clone.path, "branch", "one").ok
    assert not (tmp_path / "ran").exists()
    clone.git("branch", "two")
    assert (tmp_path / "ran").exists(), "or the hook does not run at all"


def test_git_does_not_search_upwards(clone: RepoBuilder) -> None:
    below = clone.path / "below"
    below.mkdir()
    for call in (git.read, git.write):
        done = call(below, "rev-parse", "--git-dir")
        assert "not a git repository" in done.complaint, call
    assert run_git("rev-parse", "--git-dir", cwd=below).stdout


def test_a_users_configuration_reaches_reading_and_not_what_is_ours(
    clone: RepoBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(os.environ["HOME"])
    (home / ".gitconfig").write_text("[a]\nb = theirs\n")
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    assert git.read(clone.path, "config", "a.b").stdout == b"theirs\n"
    assert git.write(clone.path, "config", "a.b").stdout == b"theirs\n"
    assert git.isolated(clone.path / ".git", "config", "a.b").code == 1


def test_a_branch_is_fetched_between_repositories_here_without_hooks(clone: RepoBuilder, tmp_path: Path) -> None:
    other = RepoBuilder(tmp_path / "other")
    head = other.commit("Elsewhere", {"x": "x\n"})
    hook = clone.path / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    done = git.fetch_locally(clone.path / ".git", other.path, "refs/heads/main:refs/heads/theirs")
    assert git.checked(done, "no branch") == b""
    assert clone.git("rev-parse", "theirs") == head
    assert not (clone.path / ".git" / "FETCH_HEAD").exists()


def test_a_failure_carries_the_command_its_code_and_what_git_said(clone: RepoBuilder) -> None:
    done = git.read(clone.path, "cat-file", "blob", "main")
    with pytest.raises(git.GitFailed) as caught:
        git.checked(done, "the blob cannot be read", hint="fetch it")
    error = caught.value
    assert isinstance(error, MissingError)
    assert error.exit_code is Exit.MISSING
    assert (error.command, error.status) == (done.args, 128)
    assert error.complaint == "fatal: git cat-file main: bad file"
    assert error.message == "the blob cannot be read: fatal: git cat-file main: bad file"
    assert error.hint == "fetch it"
    with pytest.raises(git.GitFailed, match=r"^no blob: git cat-file main: bad file$"):
        git.checked(done, "no blob", short=True)


def test_a_short_failure_has_the_first_line_or_the_exit_code() -> None:
    many = Finished(args=("git",), code=1, stdout=b"", stderr=b"fatal: one\nhint: two\n")
    assert git.GitFailed("x", many, short=True).message == "x: one"
    assert git.GitFailed("x", many).message == "x: fatal: one\nhint: two"
    silent = Finished(args=("git",), code=-6, stdout=b"", stderr=b"")
    assert git.GitFailed("x", silent, short=True).message == "x: git exited -6"


def test_a_command_that_succeeds_gives_its_output(clone: RepoBuilder) -> None:
    assert git.checked(git.read(clone.path, "cat-file", "blob", "main:README"), "no") == b"upstream\n"
