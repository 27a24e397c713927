"""Repositories by path and URL; fetching into the cache: concurrently, after a kill, under a hostile configuration, and
without showing secrets."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest

from patchstack.errors import MissingError, UsageError
from patchstack.git.objects import FULL_ID, NoSuchRepository, NotARepository, Objects, Repository
from patchstack.git.remote import Cache, Remote, shown_url
from patchstack.tasks import task
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
    assert "is not a branch, tag or commit" in ran.stderr or "No such option" in ran.stderr or "requires" in ran.stderr


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


def cache(places: Places, *, offline: bool = False) -> Cache:
    return Cache(lambda: places.cache, offline=offline)


def place(kind: str, repository: Path) -> str:
    return f"file://{repository}" if kind == "URL" else str(repository)


@pytest.mark.parametrize("kind", ["path", "URL"])
@pytest.mark.parametrize("ref", ["main", "tag", "full id"])
def test_a_ref_is_found_by_path_and_url_alike(fork: Fork, places: Places, kind: str, ref: str) -> None:
    head = fork.upstream.commit("Later", {"later": "x\n"})
    fork.upstream.git("tag", "-a", "-m", "Tagged", "v1", head)
    fork.upstream.git("config", "uploadpack.allowAnySHA1InWant", "true")
    name = {"main": "main", "tag": "v1", "full id": head}[ref]
    remote = Remote.at(place(kind, fork.upstream.path), cache(places))
    repository, commit = remote.resolve(name, "--to", until=fork.pin)
    assert (commit.oid, commit.parents, commit.subject) == (head, (fork.pin,), "Later")
    assert repository.name == place(kind, fork.upstream.path)
    assert repository.is_ancestor(fork.pin, head)
    assert repository.path.is_relative_to(places.cache) is (kind == "URL")


@pytest.mark.parametrize("kind", ["path", "URL"])
def test_without_a_ref_it_is_the_newest_commit(fork: Fork, places: Places, kind: str) -> None:
    fork.upstream.commit("Later", {"later": "x\n"})
    reached = Remote.at(place(kind, fork.upstream.path), cache(places)).reach(None, until=fork.pin)
    objects = Objects()
    objects.add_directory(reached.repository.object_directory, "")
    assert reached.repository.resolve_commit(reached.rev, "the tip", objects).subject == "Later"
    assert reached.name == ("HEAD" if kind == "URL" else "main")


def test_the_newest_of_a_clone_is_what_it_last_saw_of_its_upstream(fork: Fork, places: Places) -> None:
    remote = Remote.at(str(fork.repo.path), cache(places))
    names = []
    for branch in ("heads/main", "remotes/origin/main", "remotes/upstream/master"):
        fork.repo.git("update-ref", f"refs/{branch}", fork.pin)
        reached = remote.reach(None, until=fork.pin)
        names.append((reached.rev, reached.name))
    assert names[1:] == [
        ("refs/remotes/origin/HEAD", "origin/HEAD"),
        ("refs/remotes/upstream/master", "upstream/master"),
    ]


def test_a_path_is_opened_once(fork: Fork, places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    how = Repository.open

    def counted(name: str, path: Path) -> Repository:
        opened.append(name)
        return how(name, path)

    monkeypatch.setattr(Repository, "open", counted)
    remote = Remote.at(str(fork.upstream.path), cache(places))
    assert Remote.at(remote, cache(places)) is remote
    repository = remote.reach("main", until=fork.pin).repository
    assert remote.commit(fork.pin) is repository
    assert remote.origin() is None
    assert opened == [str(fork.upstream.path)]
    assert not places.cache.exists(), "a path has nothing in the cache"


def test_history_that_has_the_pin_is_not_asked_for_it_again(
    fork: Fork, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork.upstream.commit("Later", {"later": "x\n"})
    held = cache(places)
    asked: list[str] = []
    how = held.commit

    def counted(url: str, oid: str) -> Repository:
        asked.append(oid)
        return how(url, oid)

    monkeypatch.setattr(held, "commit", counted)
    url = place("URL", fork.upstream.path)
    remote = Remote.at(url, held)
    repository = remote.reach("main", until=fork.pin).repository
    assert remote.commit(fork.pin) is repository
    assert asked == []
    assert Remote.at(url, held).commit(fork.pin).name == url
    assert asked == [fork.pin], "without the history it is asked for"


def test_a_pin_that_the_history_lacks_is_fetched_alone(fork: Fork, places: Places) -> None:
    fork.upstream.on = "apart"
    fork.upstream.commit("Apart", {"x": "x\n"})
    remote = Remote.at(place("URL", fork.upstream.path), cache(places))
    history = Objects()
    history.add_directory(remote.reach("apart", until=fork.pin).repository.object_directory, "")
    assert not history.has(fork.pin)
    objects = Objects()
    objects.add_directory(remote.commit(fork.pin).object_directory, "")
    assert objects.commit(fork.pin).subject == "Add the kernel"
    with pytest.raises(MissingError, match=f"pin {fork.pin[:10]} cannot be looked up at file://"):
        remote.commit(fork.pin[:10])


@pytest.mark.parametrize("kind", ["path", "URL"])
def test_a_ref_that_is_missing_is_named_with_its_repository(fork: Fork, places: Places, kind: str) -> None:
    where = place(kind, fork.upstream.path)
    with pytest.raises(MissingError) as caught:
        Remote.at(where, cache(places)).resolve("nowhere", "fork ref", until=fork.pin)
    told = {
        "path": f"fork ref nowhere is not in {where}",
        "URL": f"ref nowhere could not be fetched from {where}: couldn't find remote ref nowhere",
    }
    assert caught.value.message == told[kind]


@pytest.mark.parametrize("kind", ["path", "URL"])
def test_an_empty_ref_is_not_taken_for_none(fork: Fork, places: Places, kind: str) -> None:
    with pytest.raises(UsageError):
        Remote.at(place(kind, fork.upstream.path), cache(places)).resolve("", "--to", until=fork.pin)


def test_a_ref_is_this_repositorys_own(fork: Fork, places: Places) -> None:
    fork.upstream.branch("product", fork.pin)
    upstream, own = (
        Remote.at(str(one.path), cache(places)).resolve("product", "ref", until=fork.pin)[1].oid
        for one in (fork.upstream, fork.repo)
    )
    assert (upstream, own) == (fork.pin, fork.commits[-1])


@pytest.mark.parametrize("where", ["nowhere", "patches"])
def test_a_path_without_a_repository_is_told(fork: Fork, places: Places, where: str) -> None:
    with pytest.raises(NoSuchRepository if where == "nowhere" else NotARepository):
        Remote.at(str(fork.series.parent / where), cache(places)).commit(fork.pin)


def test_the_remotes_of_a_clone_can_be_asked_for_by_name(fork: Fork, places: Places) -> None:
    remote = Remote.at(str(fork.repo.path), cache(places))
    assert remote.origin("upstream") is None
    run_git("remote", "add", "upstream", "https://example.org/x", cwd=fork.repo.path)
    assert remote.origin("upstream") == "https://example.org/x"


def test_the_progress_of_a_long_fetch_is_read_and_that_of_a_short_one_is_not() -> None:
    from patchstack.git.remote import _progress

    lines = (
        "remote: Enumerating objects: 7, done.",
        "Receiving objects:  45% (45/100), 1.20 MiB | 3.00 MiB/s",
        "not progress at all \x1b[2J",
    )
    with task("fetching") as this:
        hear = _progress(this)
        for line in lines:
            hear(line)
        assert (this.done, this.total, this.doing) == (0, 0, "")
        this.began -= 5
        for line in lines:
            hear(line)
        assert (this.done, this.total) == (45, 100)
        assert this.doing.startswith("receiving objects")
        hear("Resolving deltas: 100% (7/7), done.")
        assert (this.done, this.total, this.doing.partition(",")[0]) == (7, 7, "resolving deltas")


def test_a_shallow_clone_is_opened_as_it_is_and_says_where_it_came_from(
    fork: Fork, places: Places, tmp_path: Path
) -> None:
    url = f"file://{fork.upstream.path}"
    fork.upstream.commit("Later", {"later": "x\n"})
    run_git("clone", "-q", "--no-checkout", "--depth=1", url, tmp_path / "shallow", cwd=tmp_path)
    remote = Remote.at(str(tmp_path / "shallow"), cache(places))
    repository, commit = remote.resolve("main", "--to", until=fork.pin)
    assert (repository.shallow, commit.subject) == (True, "Later")
    assert remote.origin() == url
    assert Remote.at(url, cache(places)).resolve("main", "--to", until=fork.pin)[0].is_ancestor(fork.pin, commit.oid)


def test_where_a_clone_came_from_is_upstream_before_origin_and_a_path_is_the_clones(
    fork: Fork, places: Places, tmp_path: Path
) -> None:
    at = str(fork.repo.path)
    assert Remote.at(at, cache(places)).origin() == str(fork.upstream.path)
    fork.repo.git("config", "remote.upstream.url", "../elsewhere")
    assert Remote.at(at, cache(places)).origin() == str(tmp_path / "elsewhere")
    assert Remote.at(f"file://{at}", cache(places)).origin() is None


def test_offline_a_url_is_answered_from_the_cache_or_not_at_all(fork: Fork, places: Places) -> None:
    url = f"file://{fork.repo.path}"
    with pytest.raises(MissingError, match=f"ref product of {url} is not in the cache"):
        Remote.at(url, cache(places, offline=True)).resolve("product", "fork ref", until=fork.pin)
    assert Remote.at(url, cache(places)).resolve("product", "fork ref", until=fork.pin)[1].oid == fork.commits[-1]
    fork.repo.commit("Moved on", {"more": "x\n"})
    kept = Remote.at(url, cache(places, offline=True))
    assert kept.resolve("product", "fork ref", until=fork.pin)[1].oid == fork.commits[-1]
    assert FULL_ID.match(kept.reach("product", until=fork.pin).rev)


def test_what_only_a_url_has_to_say(fork: Fork, places: Places) -> None:
    url, path = "https://host/x.git", str(fork.repo.path)
    told = {
        (where, offline): (remote.note, remote.hint)
        for where in (url, path)
        for offline in (False, True)
        for remote in [Remote.at(where, cache(places, offline=offline))]
    }
    assert told == {
        (url, False): ("", "check the network, and run the command again: fetched objects are kept"),
        (url, True): (" as last fetched", None),
        (path, False): ("", None),
        (path, True): ("", None),
    }


def test_another_directory_calls_a_path_by_its_whole_name(places: Places) -> None:
    here = Remote.at("fork", cache(places))
    assert (here.source, here.address) == (Path("fork"), str(Path.cwd() / "fork"))
    away = Remote.at("https://host/x.git", cache(places))
    assert (away.source, away.address) == ("https://host/x.git", "https://host/x.git")
