"""The tree to build: of a series, of a prefix of it, or of a directory."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from patchstack.builds.inputs.source import Source, directory_source, series_source
from patchstack.engine.archive import pack
from patchstack.errors import ConfigError, MissingError, NotHeldError, UsageError
from patchstack.git.remote import Cache
from patchstack.workspace import SeriesConfig
from tests.support.builders import Fork, a_fork, an_upstream, executable, run_git, symlink


def the_source(fork: Fork, tmp_path: Path, *, at: int | str | None = None, expect: str = "fork") -> Source:
    config = SeriesConfig(
        name="series",
        patches=fork.series,
        upstream=str(fork.upstream.path),
        pin=fork.pin,
        fork=str(fork.repo.path) if expect == "fork" else None,
        fork_ref=fork.ref if expect == "fork" else None,
        expect=expect,
    )
    return series_source(config, Cache(lambda: tmp_path / "cache", offline=True), at=at)


def unpacked(source: Source) -> dict[str, tuple[bytes, int]]:
    found = {}
    with tarfile.open(fileobj=io.BytesIO(b"".join(pack(source.entries())))) as archive:
        for info in archive:
            if info.issym():
                found[info.name] = (info.linkname.encode(), 0o120000)
            elif info.isreg():
                file = archive.extractfile(info)
                assert file is not None
                found[info.name] = (file.read(), info.mode)
    return found


def test_the_tree_of_a_series_is_the_forks_and_what_is_sent_is_all_of_it(tmp_path: Path) -> None:
    fork = a_fork(tmp_path)
    source = the_source(fork, tmp_path)
    assert source.tree == fork.trees[-1]
    assert source.label == "series, 3 patches"
    assert source.verdict.startswith("holds against ")
    assert [step.tree for step in source.steps] == fork.trees
    assert [step.sha256 for step in source.steps] == [
        hashlib.sha256(path.read_bytes()).hexdigest() for path in fork.patches
    ]
    files = unpacked(source)
    assert sorted(files) == fork.repo.git("ls-tree", "-r", "--name-only", fork.commits[-1]).splitlines()
    for path, (data, mode) in files.items():
        assert data == run_git("show", f"{fork.commits[-1]}:{path}", cwd=fork.repo.path).stdout
        assert (mode == 0o755) == (path == "tools/run.sh")


def test_at_n_is_the_tree_after_patch_n(tmp_path: Path) -> None:
    fork = a_fork(tmp_path)
    source = the_source(fork, tmp_path, at=2)
    assert source.tree == fork.trees[1]
    assert source.label == "series at 0002"
    assert len(source.steps) == 2
    with pytest.raises(ConfigError, match="no patch has number 9"):
        the_source(fork, tmp_path, at=9)


def test_at_a_name_is_the_tree_after_that_patch_where_two_have_one_number(tmp_path: Path) -> None:
    fork = a_fork(tmp_path)
    third = fork.patches[2]
    third.rename(third.with_name("0002-other.patch"))
    source = the_source(fork, tmp_path, at="0002-other", expect="lock")
    assert (source.tree, source.label) == (fork.trees[2], "series at 0002-other")
    with pytest.raises(ConfigError, match="more than one patch has number 2"):
        the_source(fork, tmp_path, at="2", expect="lock")


def test_a_series_that_is_not_its_fork_says_so(tmp_path: Path) -> None:
    fork = a_fork(tmp_path)
    fork.edit_patch(3, "changed by commit 3", "changed by hand")
    source = the_source(fork, tmp_path)
    assert source.tree != fork.trees[-1]
    assert source.verdict.startswith("does not hold against ")
    fork.export()
    assert the_source(fork, tmp_path, expect="lock").verdict == "compared with nothing"


def test_a_patch_that_does_not_apply_is_named_and_nothing_is_built_beyond_it(tmp_path: Path) -> None:
    fork = a_fork(tmp_path)
    path = fork.patch(2)
    path.write_text(path.read_text().replace("\n ", "\n not what is there "))
    with pytest.raises(NotHeldError, match=f"{path.name} does not apply, so nothing was built") as error:
        the_source(fork, tmp_path)
    assert error.value.hint == "run 'patchstack verify series' to show all problems"
    assert the_source(fork, tmp_path, at=1).tree == fork.trees[0]


def test_a_directory_is_the_tree_that_git_would_make_of_it(tmp_path: Path) -> None:
    upstream, pin = an_upstream(tmp_path, {"a.c": "int a;\n", "run": executable("#!/bin/sh\n"), "to": symlink("a.c")})
    plain = tmp_path / "plain"
    run_git("clone", "-q", upstream.path, plain, cwd=tmp_path)
    assert directory_source(plain).tree == upstream.tree(pin)
    (plain / ".gitignore").write_text("*.o\n")
    (plain / "b.c").write_text("int b;\n")
    (plain / "b.o").write_text("ignored")
    run_git("add", "-A", cwd=plain)
    want = run_git("write-tree", cwd=plain).stdout.decode().strip()
    source = directory_source(plain)
    assert source.tree == want
    assert "b.o" not in unpacked(source)
    assert unpacked(source)["to"] == (b"a.c", 0o120000)


def test_a_directory_without_git_is_taken_whole(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    (plain / "deep" / "er").mkdir(parents=True)
    (plain / "deep" / "er" / "a.c").write_text("int a;\n")
    (plain / "name with blanks\tand ümlaut").write_text("")
    source = directory_source(plain)
    run_git("init", "-q", ".", cwd=plain)
    run_git("add", "-A", cwd=plain)
    assert source.tree == run_git("write-tree", cwd=plain).stdout.decode().strip()


def test_what_is_no_directory_of_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a directory"):
        directory_source(tmp_path / "gone")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="contains no files to build"):
        directory_source(tmp_path / "empty")


def test_a_blob_that_is_nowhere_is_left_out_if_no_compiler_reads_it_and_missed_if_one_does(tmp_path: Path) -> None:
    fork = a_fork(tmp_path)
    untouched, other = (fork.upstream.blob(fork.pin, path) for path in ("big/untouched.gguf", "src/other.cpp"))
    for repository in (fork.upstream, fork.repo):
        repository.loose(untouched).unlink(missing_ok=True)
    whole = [repository.path / ".git" / "objects" / "pack" for repository in (fork.upstream, fork.repo)]
    assert not any(list(directory.glob("*.pack")) for directory in whole), "the clone has it in a pack"
    source = the_source(fork, tmp_path)
    assert source.absent == ("big/untouched.gguf",)
    assert "omitted 1 files that are not available and that no compiler reads" in source.notes[0]
    assert "big/untouched.gguf" not in unpacked(source)
    for repository in (fork.upstream, fork.repo):
        repository.loose(other).unlink(missing_ok=True)
    with pytest.raises(MissingError, match="1 source files of the tree are not available") as error:
        the_source(fork, tmp_path)
    assert error.value.problems == ("src/other.cpp",)
