"""Find the changes between two pins that matter for builds.

The changes concern CMake options, submodules, GPU architectures, language standards, and versions of CUDA and CMake.
They are read from the text of CMakeLists.txt, *.cmake and .gitmodules, without evaluating CMake code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from patchstack.git.objects import MissingObject, Objects
from patchstack.git.overlay import SUBMODULE
from patchstack.git.trees import PathChange, compare_trees, content, want_contents

_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
_OPTION = re.compile(
    r"^\s*(?:option|cmake_dependent_option)\s*\(\s*([A-Z]\w*)\s+\"(?:[^\"\\]|\\.)*\"\s*([^\s)]*)",
    re.MULTILINE | re.IGNORECASE,
)
_CACHED = re.compile(r"^\s*set\s*\(\s*([A-Z]\w*)\s+(\"[^\"]*\"|\S*)\s+CACHE\s+(?!INTERNAL)", re.MULTILINE)
_CUDA_ASKED = re.compile(
    r"(?:CUDAToolkit_VERSION|CUDA_VERSION|CMAKE_CUDA_COMPILER_VERSION)\s+VERSION_\w+\s+\"?(\d+(?:\.\d+)*)"
)
_CUDA_NEEDED = re.compile(
    r"find_package\s*\(\s*CUDAToolkit\s+(\d+(?:\.\d+)*)"
    r"|(?:CUDAToolkit_VERSION|CUDA_VERSION|CMAKE_CUDA_COMPILER_VERSION)\s+VERSION_LESS\s+\"?(\d+(?:\.\d+)*)[^\n]*\n"
    r"\s*message\s*\(\s*FATAL_ERROR"
)
_CMAKE_NEEDED = re.compile(r"cmake_minimum_required\s*\(\s*VERSION\s+(\d+(?:\.\d+)*)", re.IGNORECASE)
_ARCHITECTURE = re.compile(r"\b(\d{2,3}[af]?-(?:real|virtual))\b")
_STANDARD = re.compile(r"\b(?:cxx_std_|cuda_std_|CMAKE_(?:CXX|CUDA)_STANDARD\s+)\d+")
_SUBMODULE_PATH = re.compile(r"^\s*path\s*=\s*(.+?)\s*$", re.MULTILINE)

Versions = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A build option, or a submodule.

    `old` and `new` are the defaults of the option, or the commits of the submodule. A value is None if the option or
    submodule does not exist. If a submodule was only added to or removed from .gitmodules, `listed` replaces the
    commit. `file` is a file that defines the option or submodule.
    """

    name: str
    old: str | None
    new: str | None
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A changed requirement of the build. `what` names it. `old` and `new` are quoted from the build files."""

    what: str
    old: Versions
    new: Versions


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolchainChanges:
    """All changes that matter for builds.

    `files` are the changed build files. `unread` are build files whose contents are not available.
    """

    options: tuple[Setting, ...]
    requirements: tuple[Requirement, ...]
    submodules: tuple[Setting, ...]
    files: tuple[str, ...]
    unread: tuple[str, ...]

    @property
    def none(self) -> bool:
        return not (self.options or self.requirements or self.submodules or self.unread)


def compare_toolchains(objects: Objects, old: str, new: str) -> ToolchainChanges:
    """Compare the build files of two trees. Unchanged files are not read."""
    changes = list(compare_trees(objects, old, new))
    build = [change for change in changes if _is_build_file(change.path)]
    want_contents(objects, build)
    unread: list[str] = []
    before = {_name(change): _text(objects, change, "old", unread) for change in build}
    after = {_name(change): _text(objects, change, "new", unread) for change in build}
    options = _compared(_settings(before), _settings(after))
    submodules = [
        Setting(name=_name(change), old=_commit(change.old), new=_commit(change.new), file=".gitmodules")
        for change in changes
        if SUBMODULE in {entry[0] for entry in (change.old, change.new) if entry}
    ]
    listed = [_paths(texts.get(".gitmodules", "")) for texts in (before, after)]
    known = {one.name for one in submodules}
    submodules += [
        Setting(
            name=path,
            old="listed" if path in listed[0] else None,
            new="listed" if path in listed[1] else None,
            file=".gitmodules",
        )
        for path in sorted((listed[0] ^ listed[1]) - known)
    ]
    return ToolchainChanges(
        options=tuple(options),
        requirements=tuple(_requirements(before, after)),
        submodules=tuple(submodules),
        files=tuple(sorted(before)),
        unread=tuple(dict.fromkeys(unread)),
    )


def _is_build_file(path: bytes) -> bool:
    name = path.rpartition(b"/")[2]
    return name == b"CMakeLists.txt" or name.endswith(b".cmake") or path == b".gitmodules"


def _name(change: PathChange) -> str:
    return change.path.decode("utf-8", "replace")


def _text(objects: Objects, change: PathChange, side: str, unread: list[str]) -> str:
    entry = change.old if side == "old" else change.new
    try:
        text = content(objects, entry, change.path).decode("utf-8", "replace")
    except MissingObject:
        unread.append(_name(change))
        return ""
    return text if _name(change) == ".gitmodules" else _COMMENT.sub("", text)


def _settings(texts: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return every option with its default and its file.

    If several files define an option, the first one counts.
    """
    found: dict[str, tuple[str, str]] = {}
    for file, text in texts.items():
        for pattern in (_OPTION, _CACHED):
            for name, default in pattern.findall(text):
                found.setdefault(name, (default.strip('"') or ("OFF" if pattern is _OPTION else "empty"), file))
    return found


def _compared(before: Mapping[str, tuple[str, str]], after: Mapping[str, tuple[str, str]]) -> Iterable[Setting]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None or new is None or old[0] != new[0]:
            file = new[1] if new else old[1] if old else ""
            yield Setting(name=name, old=old[0] if old else None, new=new[0] if new else None, file=file)


def _requirements(before: Mapping[str, str], after: Mapping[str, str]) -> Iterable[Requirement]:
    """Return the changed requirements of all changed files.

    The minimum CUDA and CMake versions are listed by file, because files may differ.
    """

    def needed(pattern: re.Pattern[str]) -> Callable[[str], list[str]]:
        return lambda text: ["".join(match.groups("")) for match in pattern.finditer(text)]

    for what, pattern in (("CUDA minimum", _CUDA_NEEDED), ("CMake minimum", _CMAKE_NEEDED)):
        for file in sorted(before):
            old, new = needed(pattern)(before[file]), needed(pattern)(after[file])
            # For an added or removed file, only the CUDA minimum is listed here: its options are listed already.
            both = bool(before[file] and after[file]) or pattern is _CUDA_NEEDED
            if old != new and both:
                yield Requirement(what=f"{what} ({file})", old=tuple(old), new=tuple(new))
    wholes = ("CUDA versions asked about", _CUDA_ASKED), ("GPU architectures", _ARCHITECTURE)
    for what, pattern in (*wholes, ("language standards", _STANDARD)):
        old_all = {one for text in before.values() for one in pattern.findall(text)}
        new_all = {one for text in after.values() for one in pattern.findall(text)}
        if old_all != new_all:
            yield Requirement(what=what, old=tuple(sorted(old_all - new_all)), new=tuple(sorted(new_all - old_all)))


def _paths(text: str) -> set[str]:
    return set(_SUBMODULE_PATH.findall(text))


def _commit(entry: tuple[int, str] | None) -> str | None:
    return entry[1] if entry is not None and entry[0] == SUBMODULE else None
