"""quilt directories: the order of the `series` file, and that no part of a directory is silently omitted."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchstack.errors import ConfigError, MissingError
from patchstack.series.files.directory import load_series
from patchstack.series.files.quilt import read_quilt
from tests.conftest import RunCli
from tests.support.builders import Fork, a_fork, edited, kernel_steps, run_git, write_series
from tests.support.oracle import hermetic_environment
from tests.support.quilt import needs_quilt

FIRST = edited("docs/notes.txt", "@@ -1,3 +1,4 @@\n+zero\n one\n two\n three\n")
SECOND = edited("docs/notes.txt", "@@ -1,4 +1,4 @@\n-zero\n+null\n one\n two\n three\n")


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    return a_fork(tmp_path, 2)


def quilt(directory: Path, series: str, files: dict[str, bytes]) -> Path:
    for file, data in files.items():
        (directory / file).parent.mkdir(parents=True, exist_ok=True)
        (directory / file).write_bytes(data)
    (directory / "series").write_text(series)
    return directory


def test_a_series_file_gives_the_order_with_comments_blank_lines_and_subdirectories(tmp_path: Path) -> None:
    directory = quilt(
        tmp_path / "q",
        "# ours\n\nzz-first # why\n  sub/second.diff   -p1\n\t\n#off.patch\nthird.patch -pab # x\n",
        {"zz-first": FIRST, "sub/second.diff": SECOND, "third.patch": FIRST, "off.patch": FIRST, "README": b"text\n"},
    )
    series = load_series(directory)
    assert [patch.file for patch in series.patches] == ["zz-first", "sub/second.diff", "third.patch"]
    assert series.warnings == ("off.patch is not applied: series does not list it",)


def test_what_the_series_file_does_not_list_is_named_wherever_it_is(fork: Fork, run_cli: RunCli) -> None:
    quilt(
        fork.series,
        "a\n",
        {"a": FIRST, "b": SECOND, "below/c": SECOND, "notes.txt": b"no diff\n", "below/README": b"none\n"},
    )
    for path in fork.patches:
        path.unlink()
    ran = run_cli("verify", *fork.sources, "--apply-only")
    assert ran.code == 0
    assert ran.stderr == (
        "warning: b is not applied: series does not list it\nwarning: below/c is not applied: series does not list it\n"
    )
    assert run_cli("verify", *fork.sources, "--apply-only", "--json").document["warnings"] == [
        "b is not applied: series does not list it",
        "below/c is not applied: series does not list it",
    ]


def test_every_line_that_cannot_be_used_is_told_at_once(tmp_path: Path) -> None:
    directory = quilt(
        tmp_path / "q", "a -R\nb -l\n../c\n/etc/passwd\nd\nd\nx/./e\n", {"a": FIRST, "b": FIRST, "d": FIRST}
    )
    with pytest.raises(ConfigError) as refused:
        load_series(directory)
    assert refused.value.problems == (
        "line 1: a: -R reverts the patch: remove it from the series, or reverse the file (interdiff)",
        "line 2: b: option -l is unknown: it may change the patch's effect",
        "line 3: ../c: the name must be the path of a file below this directory",
        "line 4: /etc/passwd: the name must be the path of a file below this directory",
        "line 6: d: already listed on line 5",
        "line 7: x/./e: the name must be the path of a file below this directory",
    )


def test_an_empty_file_that_is_listed_is_named_and_changes_nothing(tmp_path: Path) -> None:
    series = load_series(quilt(tmp_path / "q", "empty\na\n", {"a": FIRST, "empty": b"\n"}))
    assert [patch.file for patch in series.patches] == ["a"]
    assert series.warnings == ("empty is not applied: it is empty",)


def test_a_listed_file_that_does_not_exist_is_missing(fork: Fork, run_cli: RunCli) -> None:
    quilt(fork.series, "a\nb\nc\n", {"b": FIRST})
    ran = run_cli("verify", *fork.sources, "--apply-only")
    assert (ran.code, ran.stdout) == (3, "")
    assert ran.stderr == (
        f"error: {fork.series}/series lists files that do not exist\n  - line 1: a\n  - line 3: c\n\n"
        "hint: add the files, or put a # before the lines of patches that are not to be applied\n"
    )


def test_without_a_series_file_names_without_numbers_have_no_order(fork: Fork, run_cli: RunCli) -> None:
    directory = write_series(fork.series.parent / "q", {"fix.patch": FIRST, "add.diff": SECOND})
    ran = run_cli("verify", "--patches", directory, *fork.sources[2:], "--apply-only")
    assert (ran.code, ran.stdout) == (3, "")
    assert ran.stderr == (
        f"error: the order of the patches in {directory} is unknown: names without numbers, and no series file\n"
        "  - add.diff\n  - fix.patch\n\n"
        f"hint: list all of them in {directory}/series, one name per line, in the order of application\n"
    )


def test_diffs_without_suffix_and_below_are_never_left_out_in_silence(fork: Fork, run_cli: RunCli) -> None:
    directory = write_series(fork.series.parent / "q", {"fix": FIRST, "README": b"text\n"})
    ran = run_cli("verify", "--patches", directory, *fork.sources[2:], "--apply-only")
    assert (ran.code, ran.stdout) == (3, "")
    assert "is unknown: no series file\n  - fix\n" in ran.stderr
    write_series(directory, {"0001-a.patch": FIRST})
    write_series(directory / "more", {"0001-b.patch": SECOND})
    ran = run_cli("verify", "--patches", directory, *fork.sources[2:], "--apply-only")
    assert ran.code == 0
    assert ran.stderr == (
        "warning: fix is not applied: it has a diff, but not the suffix of a patch\n"
        "warning: more/0001-b.patch is not applied: it is in a directory below\n"
    )


def test_export_does_not_write_into_a_quilt_directory(fork: Fork, run_cli: RunCli) -> None:
    quilt(fork.series, "a\n", {"a": FIRST})
    (fork.series.parent / "patchstack.yaml").write_text(
        f"series:\n  p:\n    patches: patches\n    upstream: upstream\n    pin: {fork.pin}\n"
        f"    fork: fork\n    fork_ref: {fork.ref}\n"
    )
    ran = run_cli("export", "--workspace", fork.series.parent / "patchstack.yaml")
    assert ran.code == 2
    assert ran.stderr.startswith(f"error: {fork.series} has a quilt series file, which export would not preserve\n")


names = st.text("ab-_.0#", min_size=1, max_size=4).filter(lambda name: set(name) != {"."} and name[0] != "#")
lines = st.lists(
    st.one_of(
        st.tuples(names, st.sampled_from(["", " -p1", "\t-p0", " -pab", " # c", " -p1  #c"])).map("".join),
        st.sampled_from(["", "# c", "  ", "#a"]),
    ),
    max_size=6,
)


@needs_quilt
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=lines)
def test_the_series_file_is_read_as_quilt_reads_it(tmp_path: Path, lines: list[str]) -> None:
    directory = tmp_path / "patches"
    directory.mkdir(exist_ok=True)
    path = directory / "series"
    path.write_text("".join(f"{line}\n" for line in lines))
    ran = subprocess.run(
        ["quilt", "series"], cwd=tmp_path, capture_output=True, text=True, env=hermetic_environment(QUILTRC="-")
    )
    told = [name.removeprefix("patches/") for name in ran.stdout.splitlines()]
    try:
        ours = [entry.file for entry in read_quilt(path)]
    except ConfigError as refused:
        assert any("already listed on line" in problem for problem in refused.problems)
        assert len(set(told)) < len(told)
    else:
        assert ours == told


@needs_quilt
def test_a_quilt_directory_gives_the_tree_that_quilt_gives(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_fork(tmp_path, steps=kernel_steps(range(1, 6)))
    order = [patch.name for patch in reversed(fork.patches)]
    (fork.series / "series").write_text("\n".join(order) + "\n")
    tree = tmp_path / "tree"
    run_git("clone", "-q", fork.upstream.path, tree, cwd=tmp_path)
    run_git("checkout", "-q", fork.pin, cwd=tree)
    shutil.copytree(fork.series, tree / "patches")
    environment = hermetic_environment(QUILTRC="-", QUILT_PATCHES="patches")
    subprocess.run(["quilt", "push", "-a"], cwd=tree, check=True, capture_output=True, env=environment)
    shutil.rmtree(tree / ".pc")
    shutil.rmtree(tree / "patches")
    run_git("add", "-A", cwd=tree)
    expected = run_git("write-tree", cwd=tree).stdout.decode().strip()
    ran = run_cli("verify", *fork.sources, "--apply-only", "--json")
    assert ran.document["applied_tree"] == expected
    assert [patch["file"] for patch in ran.document["patches"]] == order


def test_a_directory_with_nothing_but_a_series_file_is_no_series(tmp_path: Path) -> None:
    (tmp_path / "q").mkdir()
    with pytest.raises(ConfigError, match="there are no patches"):
        load_series(quilt(tmp_path / "q", "# none yet\n", {}))
    with pytest.raises(MissingError, match="lists files that do not exist"):
        load_series(quilt(tmp_path / "q", "gone\n", {}))
