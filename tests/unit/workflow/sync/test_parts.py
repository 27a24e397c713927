"""The parts of a sync: markers, build files, shared resolutions, rewritten commits, and the pin in patchstack.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.errors import ConfigError
from patchstack.git.objects import EMPTY_TREE, Objects
from patchstack.git.overlay import FILE, SUBMODULE, TreeOverlay
from patchstack.report.sync import toolchain_lines
from patchstack.workflow.sync.build_changes import compare_toolchains
from patchstack.workflow.sync.conflict import Mover, Region, _Commit, _ranked, read_regions, shortened
from patchstack.workflow.sync.document import toolchain_entry
from patchstack.workflow.sync.shared_rerere import bring, share
from patchstack.workflow.sync.worktree import rewritten
from patchstack.workspace import read_workspace
from patchstack.workspace.write import move_pin


def test_regions_are_read_from_markers_in_diff3_style() -> None:
    text = (
        "a\n<<<<<<< HEAD\nours\n||||||| parent of 1234\nbase\n=======\ntheirs 1\ntheirs 2\n>>>>>>> 1234 (subject)\nb\n"
        "<<<<<<< HEAD\n||||||| parent\nx\n=======\n>>>>>>> 1234\n"
    )
    assert list(read_regions(text)) == [
        Region(line=2, ours=("ours",), base=("base",), theirs=("theirs 1", "theirs 2")),
        Region(line=11, ours=(), base=("x",), theirs=()),
    ]


def test_a_line_of_equals_signs_outside_a_conflict_is_text() -> None:
    assert list(read_regions("Title\n=======\n>>>>>>> quoted\n")) == []


def test_long_sides_are_shown_by_their_beginning() -> None:
    lines = [str(number) for number in range(100)]
    assert shortened(lines) == [*lines[:39], "… and 61 more lines"]
    assert shortened(lines[:40]) == lines[:40]


def upstreams(**lines: int) -> list[tuple[str, int]]:
    """Return the named commits, of some that each made that many of the conflicting lines."""
    commits = [
        _Commit(
            mover=Mover(commit=name, author="", date="", subject="", pull_request=None, lines=0),
            removed=frozenset(),
            added=frozenset(f"{name} line {number}" for number in range(count)),
        )
        for name, count in lines.items()
    ]
    region = Region(line=1, ours=tuple(line for one in commits for line in sorted(one.added)), base=(), theirs=())
    return [(mover.commit, mover.lines) for mover in _ranked(commits, [region])]


def test_the_commit_with_most_of_the_colliding_lines_comes_first_and_chance_is_not_named() -> None:
    assert upstreams(early=3, late=9, none=0) == [("late", 9), ("early", 3)]
    assert upstreams(refactor=98, elsewhere=4, also=5) == [("refactor", 98), ("also", 5)]
    assert upstreams() == []


def tree(objects: Objects, files: dict[str, str], submodules: dict[str, str] | None = None) -> str:
    overlay = TreeOverlay(objects, EMPTY_TREE)
    for path, text in files.items():
        overlay.put(path.encode(), FILE, objects.add("blob", text.encode()))
    for path, commit in (submodules or {}).items():
        overlay.put(path.encode(), SUBMODULE, commit)
    return overlay.write()


def changes(old: dict[str, str], new: dict[str, str]) -> list[str]:
    objects = Objects()
    found = compare_toolchains(objects, tree(objects, old), tree(objects, new))
    return list(toolchain_lines(toolchain_entry(found)))


NOTHING = ["toolchain: no option, version or submodule changed (1 build file changed otherwise)"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('option(A "about a" ON)\n', "", ["CMake options removed: A"]),
        ("", 'option(A "about \\"a\\"")\n', ["CMake options added: A (OFF)"]),
        ('option(A "a" ON)\n', 'option(A "a" OFF)\n', ["CMake options default changed: A (ON to OFF)"]),
        ('# option(A "a" ON)\n', "", NOTHING),
        (
            'set(V "1.2" CACHE STRING "v")\n',
            'set(V "1.3" CACHE STRING "v")\n',
            ["CMake options default changed: V (1.2 to 1.3)"],
        ),
        ('set(V x CACHE INTERNAL "v")\n', "", NOTHING),
        (
            "find_package(CUDAToolkit 11.7 REQUIRED)\n",
            "find_package(CUDAToolkit 12.9 REQUIRED)\n",
            ["CUDA minimum (CMakeLists.txt): 11.7 before, 12.9 now"],
        ),
        (
            'if (CUDAToolkit_VERSION VERSION_LESS "11.7")\n  message(FATAL_ERROR "old")\n',
            'if (CUDAToolkit_VERSION VERSION_LESS "12.8")\n  message(FATAL_ERROR "old")\n',
            [
                "CUDA minimum (CMakeLists.txt): 11.7 before, 12.8 now",
                "CUDA versions asked about: 11.7 before, 12.8 now",
            ],
        ),
        (
            "cmake_minimum_required(VERSION 3.18)\n",
            "cmake_minimum_required(VERSION 3.21)  # for presets\n",
            ["CMake minimum (CMakeLists.txt): 3.18 before, 3.21 now"],
        ),
        (
            "list(APPEND CMAKE_CUDA_ARCHITECTURES 120a-real)\n",
            "list(APPEND CMAKE_CUDA_ARCHITECTURES 120a-real 121a-real)\n",
            ["GPU architectures: nothing before, 121a-real now"],
        ),
        (
            "target_compile_features(x PUBLIC cxx_std_17)\n",
            "target_compile_features(x PUBLIC cxx_std_20)\n",
            ["language standards: cxx_std_17 before, cxx_std_20 now"],
        ),
    ],
)
def test_what_build_files_say_is_compared(old: str, new: str, told: list[str]) -> None:
    assert changes({"CMakeLists.txt": old, "x.c": "1"}, {"CMakeLists.txt": new, "x.c": "2"}) == told


def test_an_option_that_moved_to_another_file_is_neither_added_nor_removed() -> None:
    option = 'option(A "a" ON)\n'
    told = changes({"CMakeLists.txt": option, "b/c.cmake": ""}, {"CMakeLists.txt": "", "b/c.cmake": option})
    assert told == ["toolchain: no option, version or submodule changed (2 build files changed otherwise)"]


def test_submodules_that_came_went_and_moved_are_told() -> None:
    objects = Objects()
    old = tree(objects, {}, {"gone": "1" * 40, "moved": "2" * 40})
    new = tree(objects, {".gitmodules": '[submodule "n"]\n\tpath = new\n'}, {"new": "3" * 40, "moved": "4" * 40})
    found = compare_toolchains(objects, old, new)
    assert list(toolchain_lines(toolchain_entry(found))) == [
        "submodule gone: gone",
        f"submodule moved: {'2' * 12} to {'4' * 12}",
        "submodule new: new",
    ]


def test_a_commit_on_another_parent_keeps_all_but_tree_parent_and_signature() -> None:
    raw = (
        b"tree 1\nparent 2\nparent 3\nauthor A <a> 1 +0000\ncommitter B <b> 2 +0100\nencoding latin1\n"
        b"gpgsig -----BEGIN\n line\n -----END\nextra kept\n folded\n\nSubject\n\ngpgsig is no header here\n"
    )
    kept = b"author A <a> 1 +0000\ncommitter B <b> 2 +0100\nencoding latin1\nextra kept\n folded\n\n"
    assert rewritten(raw, "7", "8") == b"tree 7\nparent 8\n" + kept + b"Subject\n\ngpgsig is no header here\n"
    assert rewritten(raw, "7", "8", b"New\n") == b"tree 7\nparent 8\n" + kept + b"New\n"


def record(root: Path, name: str, **files: str) -> Path:
    directory = root / name
    directory.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (directory / file.replace("_", ".")).write_text(text)
    return directory


def test_only_finished_resolutions_are_shared_and_nothing_strange(tmp_path: Path) -> None:
    own, shared = tmp_path / "own", tmp_path / "shared"
    record(own, "a" * 40, preimage="conflict", postimage="resolved", thisimage="x")
    record(own, "b" * 40, preimage="not resolved yet")
    record(own, "not-a-record", preimage="1", postimage="2")
    (own / ("c" * 40)).symlink_to(own / ("a" * 40))
    odd = record(own, "d" * 40, preimage="1")
    (odd / "postimage").symlink_to("/etc/passwd")
    assert share(own, shared) == 1
    assert [path.name for path in shared.iterdir()] == ["a" * 40]
    assert sorted(path.name for path in (shared / ("a" * 40)).iterdir()) == ["postimage", "preimage"]


def test_another_resolution_of_the_same_conflict_replaces_it_and_of_another_stands_beside(tmp_path: Path) -> None:
    own, shared, name = tmp_path / "own", tmp_path / "shared", "a" * 40
    record(shared, name, preimage="conflict", postimage="old")
    record(own, name, preimage="conflict", postimage="new", preimage_1="other", postimage_1="its")
    assert share(own, shared) == 2
    found = {path.name: path.read_text() for path in (shared / name).iterdir()}
    assert found == {"preimage": "conflict", "postimage": "new", "preimage.1": "other", "postimage.1": "its"}
    assert bring(shared, tmp_path / "fresh") == 2
    assert {path.name: path.read_text() for path in (tmp_path / "fresh" / name).iterdir()} == found
    assert bring(tmp_path / "nowhere", tmp_path / "fresh") == 0


OLD, NEW = "1" * 39 + "a", "2" * 39 + "b"


def written(tmp_path: Path, entry: str) -> Path:
    path = tmp_path / "patchstack.yaml"
    path.write_bytes(
        f"# head\nseries:\n  other:\n    patches: o\n    upstream: u\n    pin: {OLD}\n  x: {entry}\n# end".encode()
    )
    return path


@pytest.mark.parametrize(
    ("entry", "pin", "ref"),
    [
        ("\n    patches: p\n    upstream: u\n    pin: {pin}   # why\n    fork: f\n    fork_ref: {ref}", OLD, "old"),
        ("\n    patches: p\n    upstream: u\n    pin: '{pin}'\n    fork: f\n    fork_ref: \"{ref}\" # b", OLD, "old"),
        ("{{patches: p, upstream: u, fork_ref: {ref}, fork: f, pin: {pin}}}", OLD, "much-longer/than-before"),
        ("{{patches: p, upstream: u, pin: {pin}, fork: f, fork_ref: {ref}}}\r\n", OLD, "old"),
    ],
)
def test_only_pin_and_branch_change_in_the_workspace_file(tmp_path: Path, entry: str, pin: str, ref: str) -> None:
    path = written(tmp_path, entry.format(pin=pin, ref=ref))
    before = path.read_bytes()
    path.chmod(0o640)
    move_pin(path, "x", NEW, "new-sync-12")
    head, mark, rest = before.partition(b"  x: ")
    assert path.read_bytes() == head + mark + rest.replace(pin.encode(), NEW.encode()).replace(
        ref.encode(), b"new-sync-12"
    )
    assert path.stat().st_mode & 0o777 == 0o640
    (series,) = read_workspace(path).select(["x"])
    assert (series.pin, series.fork_ref) == (NEW, "new-sync-12")
    again = path.stat().st_mtime_ns
    move_pin(path, "x", NEW, "new-sync-12")
    assert path.stat().st_mtime_ns == again, "what is there is not written again"


@pytest.mark.parametrize("pin", ["1" * 40, "1" * 20 + "e" + "1" * 19])
def test_a_pin_that_yaml_would_read_as_a_number_is_quoted(tmp_path: Path, pin: str) -> None:
    path = written(tmp_path, f"\n    patches: p\n    upstream: u\n    pin: {OLD}")
    move_pin(path, "x", pin, None)
    assert f'pin: "{pin}"\n' in path.read_text()
    assert read_workspace(path).select(["x"])[0].pin == pin


def test_a_pin_that_is_an_alias_is_left_to_a_person(tmp_path: Path) -> None:
    path = written(tmp_path, "\n    patches: p\n    upstream: u\n    pin: *old").read_text()
    target = tmp_path / "patchstack.yaml"
    target.write_text(path.replace(f"pin: {OLD}\n  x", f"pin: &old {OLD}\n  x"))
    before = target.read_text()
    with pytest.raises(ConfigError) as caught:
        move_pin(target, "x", NEW, None)
    assert "pin has an unsupported form and was not changed" in caught.value.message
    assert caught.value.hint == f"edit the file: set pin of series x to {NEW}"
    assert target.read_text() == before


def test_a_workspace_that_cannot_be_written_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, f"\n    patches: p\n    upstream: u\n    pin: {OLD}")
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ConfigError, match=r"patchstack\.yaml cannot be written: .*No space left on device"):
        move_pin(path, "x", NEW, None)
    assert path.read_bytes() == before
    assert [left.name for left in tmp_path.iterdir()] == [path.name]
