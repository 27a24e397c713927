"""Read the settings of a workspace from a trusted file.

A pull request can change the workspace file that configures its own tests. Therefore, the settings come from a commit
or a file that a maintainer is responsible for. The head of the pull request provides only the `pin` of each series, the
patch files and the lock. All other keys, including keys that are added later, come from the trusted file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchstack.causes import WorkspaceUnusable
from patchstack.workspace.model import FULL_ID, Workspace
from patchstack.workspace.node import read_yaml
from patchstack.workspace.read import read_workspace

GIVEN_BY_THE_HEAD = frozenset({"pin"})
"""The keys of a series that the head may set. The values of all other keys come from the trusted file."""
_KEPT_HERE = ("ledger", "evidence", ".patchstack")
"""The directories next to the workspace file that commands read and write."""
_NAMES_NO_FILE = frozenset({"patches", "upstream", "fork", "pin"})
_LONGEST = 120
_MOST_TOLD = 10


def governed(head: Path, policy: Path, origin: str) -> Workspace:
    """Return a workspace with the settings of the file `policy` and the pins of the file `head`.

    `origin` describes the source of `policy`. The paths of repositories, patches, lock, ledger and evidence are
    relative to the directory of `head`. The paths of other files in the settings are relative to the directory of
    `policy`. Raises `ConfigError` for a file that cannot be used, and for files of the head that are outside the
    workspace.
    """
    refuse_outside(head, head.parent, "the settings of the change")
    for name in _KEPT_HERE:
        refuse_outside(head.parent / name, head.parent, f"the files of {name}")
    trusted = read_workspace(policy, root=head.parent)
    pins = _pins(head)
    series = []
    for config in trusted.series:
        refuse_outside(config.patches, head.parent, f"the patches of {config.name}")
        series.append(replace(config, pin=pins.get(config.name, config.pin)))
    changed = tuple(changes(read_yaml(policy, comments=False), read_yaml(head, comments=False)))
    return replace(trusted, path=head, words=policy, series=tuple(series), policy=origin, not_used=changed)


def refuse_outside(path: Path, root: Path, what: str) -> None:
    """Raise `ConfigError` if a path is outside the directory `root` or in a `.git` directory.

    Symbolic links are followed. All links below the path are checked too. A link loop is refused. `what` describes the
    files in the message.
    """
    outside = [path] if leads_out(path, root) else list(_links_out(path, root))
    if outside:
        raise WorkspaceUnusable(
            f"{what} are not inside the workspace",
            problems=[f"{one} resolves to {os.path.realpath(one)}" for one in outside[:_MOST_TOLD]],
            hint="files of the proposed change must be in the directory that contains patchstack.yaml",
        )


def leads_out(path: Path, root: Path) -> bool:
    """Return whether a path is outside the directory `root` or in a `.git` directory.

    Symbolic links are followed. A link loop counts as outside. A `.git` directory is refused, because the git
    configuration of a checkout may contain a token.
    """
    inside, within = os.path.realpath(root), os.path.realpath(path)
    below = Path(os.path.relpath(within, inside)).parts
    return below[:1] == (os.pardir,) or ".git" in map(str.lower, below) or os.path.islink(within)


def _links_out(path: Path, root: Path) -> Iterator[Path]:
    """Yield the symbolic links below `path` that lead out of `root`. Linked directories are not searched."""
    for parent, directories, files in os.walk(path):
        for name in sorted((*directories, *files)):
            one = Path(parent, name)
            if one.is_symlink() and leads_out(one, root):
                yield one


def named_files(policy: Path) -> Iterator[str]:
    """Yield every string in a workspace file that could be a file name.

    The values of `patches`, `upstream`, `fork` and `pin` are skipped, because they are not names of files.
    """
    pending: list[Any] = [read_yaml(policy, comments=False)]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            pending += [one for key, one in value.items() if key not in _NAMES_NO_FILE]
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, str) and 0 < len(value) < 1024 and "\0" not in value and "\n" not in value:
            yield value


def changes(trusted: Any, head: Any, where: str = "") -> Iterator[str]:
    """Yield the differences between the trusted document and the head's document, one per key.

    Keys that the head may change are skipped. List entries are compared by name if each has a different name.
    """
    by_name = _by_name(trusted), _by_name(head)
    if by_name[0] is not None and by_name[1] is not None:
        trusted, head = by_name
    if isinstance(trusted, Mapping) and isinstance(head, Mapping):
        for key in dict.fromkeys([*trusted, *head]):
            path = f"{where}.{key}" if where else str(key)
            if where.startswith("series.") and where.count(".") == 1 and key in GIVEN_BY_THE_HEAD:
                continue
            if key not in head:
                yield f"{path}: removed"
            elif key not in trusted:
                yield f"{path}: added ({_shown(head[key])})"
            else:
                yield from changes(trusted[key], head[key], path)
    elif trusted != head:
        yield f"{where or 'the file'}: {_shown(head)}, not {_shown(trusted)}"


def _by_name(value: Any) -> dict[str, Any] | None:
    """Convert a list of mappings to a mapping from name to entry. Return None if a name is missing or occurs twice."""
    if not isinstance(value, list) or not all(isinstance(one, Mapping) and "name" in one for one in value):
        return None
    found = {str(one["name"]): one for one in value}
    return found if len(found) == len(value) else None


def _pins(head: Path) -> dict[str, str]:
    """Return the pins in an untrusted workspace file, by series. Raises `ConfigError` if the file is invalid."""
    document = read_yaml(head, comments=False)
    series = document.get("series") if isinstance(document, Mapping) else None
    if not isinstance(series, Mapping):
        raise WorkspaceUnusable(f"{head}: cannot read the pins: `series` is missing")
    pins, problems = {}, []
    for name, one in series.items():
        pin = one.get("pin") if isinstance(one, Mapping) else None
        if isinstance(pin, str) and FULL_ID.match(pin):
            pins[str(name)] = pin
        else:
            problems.append(f"{head}: series.{name}.pin: not a full commit id of 40 hexadecimal digits")
    if problems:
        raise WorkspaceUnusable(f"{head.name} cannot be used", problems=problems)
    return pins


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    text = "a list" if isinstance(value, list) else repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
