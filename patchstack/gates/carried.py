"""Write and read the copy of a suite that a decision contains.

The copy contains the suite's entry from the workspace file, the digests of all models in this file, and the digests and
sizes of the files that the entry names. The contents of these files are stored separately.

With this copy, the verdicts of the decision can be recomputed even if the workspace file has changed. The copy is JSON,
and the code that reads the workspace file also reads the copy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from patchstack.causes import InputMissing, SuiteDamaged
from patchstack.gates.suite import Suite, find_suite, read_suites
from patchstack.workspace import Workspace, read_yaml
from patchstack.workspace.node import Node, as_if_read

SCHEMA = "patchstack.carried-suite/1"
_MOST = 16 << 20  # the largest file that a gate may name, in bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraGate:
    """A gate that is not in the workspace file.

    `entry` is the gate's entry as it would be written in that file. `files` maps the name of each file that the entry
    names to the content of the file.
    """

    entry: Mapping[str, Any]
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedSuite:
    """The copy of a suite: its name, and its content as JSON.

    The JSON keys keep the order of the workspace file, because the states of a gate run in this order.
    """

    name: str
    content: bytes


def carry(workspace: Path, name: str, keep: Callable[[bytes], str], more: Sequence[ExtraGate] = ()) -> CarriedSuite:
    """Return the copy of a workspace's suite for a decision.

    The gates in `more` are added at the end. If the workspace file does not contain the suite, the copy contains only
    the gates in `more`. `keep` stores the content of a file and returns its digest.

    Raises `ConfigError` if a file is too large.
    """
    document = read_yaml(workspace, comments=False)
    entry = (document.get("suites") or {}).get(name) or {}
    contents = {text: _named_file(workspace.parent, text) for text in sorted(set(_texts(entry)))}
    for extra in more:
        contents = {**extra.files, **contents}
    if more:
        entry = {**entry, "gates": [*entry.get("gates", ()), *(extra.entry for extra in more)]}
    files = {
        text: {"sha256": keep(content), "size": len(content)}
        for text, content in sorted(contents.items())
        if content is not None
    }
    models = {
        model: {"path": model, **{key: one[key] for key in ("sha256", "what") if key in one}}
        for model, one in (document.get("models") or {}).items()
    }
    whole = {"schema": SCHEMA, "suite": name, "entry": entry, "models": models, "files": files}
    return CarriedSuite(name=name, content=json.dumps(whole, default=str, ensure_ascii=False).encode())


def unpack(content: bytes, read: Callable[[str, int], bytes | None], directory: Path) -> Suite:
    """Read a suite from its copy in a decision.

    The files of the suite are written below `directory`, which must be empty. `read` returns the content with a given
    digest and size, or None if no such content is stored.

    Raises `ConfigError` for an unusable copy, and `MissingError` if a file is missing.
    """
    try:
        document = json.loads(content)
        if document["schema"] != SCHEMA:
            raise SuiteDamaged(f"the suite of the decision cannot be read: schema {document['schema']}, not {SCHEMA}")
        name, entry, models = str(document["suite"]), document["entry"], document["models"]
        files = {str(path): (str(one["sha256"]), int(one["size"])) for path, one in document["files"].items()}
        read_again = as_if_read({"models": models, "suites": {name: entry}})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SuiteDamaged(f"the suite of the decision is damaged: {type(error).__name__}") from error
    for path, (digest, size) in files.items():
        found = read(digest, size) if size <= _MOST else None
        if found is None:
            raise InputMissing(f"the file {path} is missing in the suite of the decision")
        if not _inside(path):
            raise SuiteDamaged(f"the suite names a file outside its directory: {path}")
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(found)
    workspace = directory / "patchstack.yaml"  # not written: gates use only its directory, to find files
    problems: list[str] = []
    top = Node(read_again, workspace, "", problems)
    parsed = Workspace(path=workspace, series=(), models=top.mapping("models"), suites=top.mapping("suites"))
    return find_suite(read_suites(parsed), name, workspace)


def carried_name(content: bytes) -> str:
    """Return the name of a suite from its copy in a decision. Return an empty string if the copy is unusable."""
    try:
        return str(json.loads(content)["suite"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def _named_file(root: Path, text: str) -> bytes | None:
    """Return the content of a file below the workspace's directory `root`.

    Return None if `text` does not name such a file. Raises `ConfigError` if the file is too large.
    """
    if not text or len(text) > 255 or "\n" in text or "\0" in text or not _inside(text):
        return None
    path = root / text
    if not path.is_file():
        return None
    if path.stat().st_size > _MOST:
        raise SuiteDamaged(f"{text} cannot be stored in evidence: it is larger than {_MOST >> 20} MiB")
    return path.read_bytes()


def _inside(text: str) -> bool:
    path = PurePosixPath(text)
    return not path.is_absolute() and ".." not in path.parts and path.name not in ("", "patchstack.yaml")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
