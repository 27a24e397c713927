"""Objects read through one running git: what is stored, what is missing, and what is damaged."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
import zlib
from pathlib import Path

import pytest

from patchstack.errors import MissingError
from patchstack.git.objects import MissingObject, Objects, object_id
from patchstack.git.stored import Damaged, StoredObjects
from patchstack.process import tell_programs
from tests.support.builders import RepoBuilder

ABSENT = "deadbeef" * 5


def stored(*repositories: RepoBuilder) -> StoredObjects:
    """Return the contents of the repositories."""
    found = StoredObjects()
    for repo in repositories:
        found.add(repo.path / ".git" / "objects")
    return found


def a_repo(tmp_path: Path, name: str = "repo", content: str = "one\n") -> tuple[RepoBuilder, str]:
    """Return a repository with one file, and the id of its content."""
    repo = RepoBuilder(tmp_path / name)
    commit = repo.commit("Begin", {"a.c": content})
    return repo, repo.blob(commit, "a.c")


@pytest.mark.parametrize("packed", [False, True])
def test_every_kind_is_read_with_its_content(tmp_path: Path, packed: bool) -> None:
    repo, blob = a_repo(tmp_path, content="a\0b\n\n" * 50_000)
    commit = repo.head()
    repo.git("tag", "-a", "-m", "Tag", "v1", commit)
    if packed:
        repo.git("gc", "-q")
    objects = stored(repo)
    for oid in (blob, commit, repo.tree(commit), repo.git("rev-parse", "v1")):
        found = objects.read(oid)
        assert found is not None
        assert found[0] == repo.git("cat-file", "-t", oid)
        assert object_id(*found) == oid
        assert objects.missing([oid]) == []
    assert objects.read(ABSENT) is None
    assert objects.missing([ABSENT]) == [ABSENT]


def test_git_is_started_once_and_only_when_it_is_asked(tmp_path: Path) -> None:
    repo, blob = a_repo(tmp_path)
    told: list[str] = []
    end = tell_programs(lambda args: told.append(" ".join(args)))
    try:
        objects = stored(repo)
        assert told == []
        for _ in range(3):
            assert objects.read(blob) == ("blob", b"one\n")
            assert objects.read(ABSENT) is None
    finally:
        end()
    assert told == ["git cat-file --batch"]


def test_a_directory_that_is_added_later_is_read_as_well(tmp_path: Path) -> None:
    one, first = a_repo(tmp_path, "one", "one\n")
    two, second = a_repo(tmp_path, 't:wo "2"', "two\n")
    objects = stored(one)
    assert (objects.read(first), objects.read(second)) == (("blob", b"one\n"), None)
    objects.add(two.path / ".git" / "objects")
    assert (objects.read(first), objects.read(second)) == (("blob", b"one\n"), ("blob", b"two\n"))


def test_an_object_that_is_written_later_is_found(tmp_path: Path) -> None:
    repo, _ = a_repo(tmp_path)
    objects = stored(repo)
    assert objects.read(ABSENT) is None
    later = repo.blob(repo.commit("More", {"b.c": "later\n"}), "b.c")
    assert objects.read(later) == ("blob", b"later\n")


def test_of_many_objects_those_that_are_missing_are_told_in_their_order(tmp_path: Path) -> None:
    repo, blob = a_repo(tmp_path)
    absent = [f"{number:040x}" for number in range(1, 3_000)]
    many = [one for oid in absent for one in (oid, blob)]
    assert stored(repo).missing(many) == absent
    assert stored(repo).missing([]) == []
    opened = Objects()
    assert opened.missing([blob]) == [blob]
    opened.add_directory(repo.path / ".git" / "objects", "the clone")
    made = opened.add("blob", b"ours\n")
    assert opened.missing([*many, made, *many]) == absent


@pytest.mark.parametrize("name", ["", "HEAD", "main", "{}^{{tree}}", "{}\n{}", "{} x", "\udcff", "ABCDEF"])
def test_what_is_no_full_id_is_missing_and_asks_git_nothing(tmp_path: Path, name: str) -> None:
    """A damaged commit may name anything as its tree or parent."""
    repo, blob = a_repo(tmp_path)
    opened = Objects()
    opened.add_directory(repo.path / ".git" / "objects", "the clone")
    name = name.replace("{}", repo.head()).replace("{{", "{").replace("}}", "}")
    assert opened.find(name) is None
    assert opened.missing([blob, name]) == [name]
    assert opened.read(blob) == ("blob", b"one\n")


def test_a_directory_that_is_gone_makes_nothing_damaged(tmp_path: Path) -> None:
    """git complains about a missing alternate; a missing object still counts only as missing."""
    repo, blob = a_repo(tmp_path)
    objects = stored(repo)
    objects.add(tmp_path / "gone" / "objects")
    assert objects.read(ABSENT) is None
    assert objects.read(blob) == ("blob", b"one\n")


@pytest.mark.parametrize("damage", ["head", "body"])
def test_a_damaged_object_is_told_and_the_next_one_is_read(tmp_path: Path, damage: str) -> None:
    repo, blob = a_repo(tmp_path, content="x" * 90_000)
    file = repo.path / ".git" / "objects" / blob[:2] / blob[2:]
    data = file.read_bytes()
    file.chmod(0o644)
    file.write_bytes(b"\0\0\0" + data[3:] if damage == "head" else data[: len(data) // 2])
    objects = stored(repo)
    with pytest.raises(Damaged):
        objects.read(blob)
    assert damage == "head" or objects.missing([blob]) == []
    assert objects.read(repo.head()) is not None
    opened = Objects()
    opened.add_directory(repo.path / ".git" / "objects", "the clone")
    with pytest.raises(MissingError, match=f"object {blob} in the clone cannot be read: ") as caught:
        opened.read(blob)
    assert not isinstance(caught.value, MissingObject)
    assert caught.value.hint == "run git fsck there"


def test_a_content_of_another_id_is_not_taken(tmp_path: Path) -> None:
    """git itself does not check this."""
    repo, blob = a_repo(tmp_path)
    file = repo.path / ".git" / "objects" / blob[:2] / blob[2:]
    file.chmod(0o644)
    file.write_bytes(zlib.compress(b"blob 4\0two\n"))
    assert stored(repo).read(blob) == ("blob", b"two\n")
    opened = Objects()
    opened.add_directory(repo.path / ".git" / "objects", "the clone")
    with pytest.raises(MissingError, match="cannot be read: its content has a different id"):
        opened.read(blob)


def test_a_git_that_was_killed_is_told_and_started_again(tmp_path: Path) -> None:
    repo, blob = a_repo(tmp_path)
    others = children()
    objects = stored(repo)
    objects.read(blob)
    (child,) = children() - others
    os.kill(child, signal.SIGKILL)
    with pytest.raises(Damaged, match="git cat-file ended"):
        objects.read(blob)
    assert objects.read(blob) == ("blob", b"one\n")


def some_files(tmp_path: Path, count: int, size: int = 1) -> tuple[RepoBuilder, dict[str, bytes]]:
    """A repository with that many files, and their contents by id."""
    repo = RepoBuilder(tmp_path / "many")
    contents = {f"{number:03d}": f"{number}\n" * size for number in range(count)}
    commit = repo.commit("Begin", contents)
    return repo, {repo.blob(commit, name): content.encode() for name, content in contents.items()}


@pytest.mark.parametrize("size", [1, 40_000])
def test_contents_that_were_asked_for_ahead_are_read_in_any_order(tmp_path: Path, size: int) -> None:
    repo, contents = some_files(tmp_path, 90, size)
    oids = list(contents)
    objects = stored(repo)
    for order in (oids, oids[::-1], oids[40:] + oids[:40], [oid for oid in oids for _ in range(2)]):
        objects.read_ahead(oids)
        assert [objects.read(oid) for oid in order] == [("blob", contents[oid]) for oid in order]
    objects.read_ahead(oids[:50])
    assert objects.read(repo.head()) is not None
    objects.read_ahead(iter(oids[20:]))
    assert objects.read(oids[60]) == ("blob", contents[oids[60]])
    assert objects.read(oids[10]) == ("blob", contents[oids[10]])


def test_reading_ahead_asks_git_once_for_many(tmp_path: Path) -> None:
    repo, contents = some_files(tmp_path, 30)
    others = children()
    objects = stored(repo)
    objects.read_ahead(contents)
    (child,) = children() - others
    os.kill(child, signal.SIGSTOP)
    try:
        objects.read_ahead(contents)  # waits for nothing
    finally:
        os.kill(child, signal.SIGCONT)
    assert [objects.read(oid) for oid in contents] == [("blob", content) for content in contents.values()]


def test_an_object_that_is_written_after_it_was_asked_for_ahead_is_found(tmp_path: Path) -> None:
    repo, blob = a_repo(tmp_path)
    later = object_id("blob", b"later\n")
    objects = stored(repo)
    objects.read_ahead([blob, later])
    assert objects.read(blob) == ("blob", b"one\n")
    objects.read_ahead([later, blob])
    assert objects.read(blob) == ("blob", b"one\n")
    assert repo.blob(repo.commit("More", {"b.c": "later\n"}), "b.c") == later
    assert objects.read(later) == ("blob", b"later\n")
    assert objects.read(ABSENT) is None


@pytest.mark.parametrize("damage", ["head", "body"])
def test_a_damaged_object_that_was_asked_for_ahead_is_told_only_when_it_is_read(tmp_path: Path, damage: str) -> None:
    repo, contents = some_files(tmp_path, 9, 9_000)
    oids = list(contents)
    file = repo.path / ".git" / "objects" / oids[4][:2] / oids[4][2:]
    data = file.read_bytes()
    file.chmod(0o644)
    file.write_bytes(b"\0\0\0" + data[3:] if damage == "head" else data[: len(data) // 2])
    for order in (oids[:4] + oids[5:], oids[::-1][:4], [ABSENT, *oids[5:]]):
        objects = stored(repo)
        objects.read_ahead(oids)
        assert [objects.read(oid) for oid in order] == [
            None if oid == ABSENT else ("blob", contents[oid]) for oid in order
        ]
        objects.read_ahead(oids)
        with pytest.raises(Damaged):
            objects.read(oids[4])
        assert objects.read(oids[5]) == ("blob", contents[oids[5]])


def test_nothing_of_a_partial_clone_is_fetched(tmp_path: Path) -> None:
    repo, blob = a_repo(tmp_path)
    repo.git("config", "uploadpack.allowFilter", "true")
    clone = RepoBuilder.__new__(RepoBuilder)
    clone.path = tmp_path / "clone"
    repo.git("clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{repo.path}", str(clone.path))
    objects = stored(clone)
    assert objects.read(repo.head()) is not None
    assert objects.read(blob) is None
    assert objects.missing([blob, repo.head()]) == [blob]


def test_git_ends_with_what_it_reads_for_and_leaves_nothing(tmp_path: Path) -> None:
    repo, blob = a_repo(tmp_path)
    others = children()
    objects = stored(repo)
    assert not objects.missing([blob])
    objects.read(blob)
    assert len(children() - others) == 2
    assert os.listdir(tempfile.gettempdir()) == []
    del objects
    gc.collect()
    assert children() <= others


def children() -> set[int]:
    """Return the child processes that have not been waited for."""
    own = f"/proc/self/task/{os.getpid()}/children"
    return {int(pid) for pid in Path(own).read_text().split()}
