"""Read `series.lock`: what each patch was made from. `export` alone writes it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from patchstack.errors import ConfigError
from patchstack.git.objects import FULL_ID
from patchstack.workspace import read_yaml

FILE_NAME = "series.lock"
SCHEMA = "patchstack.lock/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedPatch:
    """What the lock records of a patch: file name, SHA-256 of its bytes, fork commit and prefix tree."""

    file: str
    sha256: str
    commit: str
    tree: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A lock as far as verify needs it. `tree` is the fork head's tree, which the whole series must give."""

    path: Path
    base_commit: str
    base_tree: str
    tree: str
    patches: tuple[LockedPatch, ...]


def read_lock(directory: Path) -> Lock | None:
    """The lock beside a series, or None where there is none. Raises `ConfigError` for one that cannot be used."""
    path = directory / FILE_NAME
    if not os.path.lexists(path):
        return None
    try:
        document = read_yaml(path, comments=False)
    except ConfigError as error:
        raise _unusable(path, [f"it cannot be read: {error.message.removeprefix(str(path)).lstrip(': ')}"]) from error
    return _checked(path, document)


def _checked(path: Path, document: object) -> Lock:
    problems: list[str] = []

    def mapping(value: object, where: str) -> Mapping[object, object]:
        if isinstance(value, Mapping):
            return value
        problems.append(f"{where}: not a mapping")
        return {}

    def text(holder: Mapping[object, object], key: str, where: str, *, oid: bool = True) -> str:
        value = holder.get(key)
        if not isinstance(value, str) or (oid and not FULL_ID.match(value)):
            problems.append(f"{where}.{key}: {'not a full commit or tree id' if oid else 'not text'}")
            return ""
        return value

    top = mapping(document, "the lock")
    if top.get("schema") != SCHEMA:
        problems.append(f"schema: {top.get('schema')!r}, not {SCHEMA!r}")
    base = mapping(top.get("base"), "base")
    fork = mapping(top.get("fork"), "fork")
    entries = top.get("patches")
    patches = []
    if not isinstance(entries, list) or not entries:
        problems.append("patches: not a list of patches")
        entries = []
    for position, entry in enumerate(entries, 1):
        where = f"patches[{position}]"
        held = mapping(entry, where)
        patches.append(
            LockedPatch(
                file=text(held, "file", where, oid=False),
                sha256=text(held, "sha256", where, oid=False),
                commit=text(held, "commit", where),
                tree=text(held, "tree", where),
            )
        )
    files = [patch.file for patch in patches]
    problems += [f"patches: {file} is there {count} times" for file, count in Counter(files).items() if count > 1]
    if files != sorted(files, key=os.fsencode):
        problems.append("patches: they are not in the order of their file names, which is the order they apply in")
    lock = Lock(
        path=path,
        base_commit=text(base, "commit", "base"),
        base_tree=text(base, "tree", "base"),
        tree=text(fork, "tree", "fork"),
        patches=tuple(patches),
    )
    if problems:
        raise _unusable(path, problems)
    return lock


def _unusable(path: Path, problems: list[str]) -> ConfigError:
    return ConfigError(
        f"{path} cannot be used", problems=problems, hint="it is generated: export the series anew rather than edit it"
    )
