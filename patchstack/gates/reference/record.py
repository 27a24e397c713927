"""Record the output of a gate as its new reference.

The reason for the new reference is added as a comment in `patchstack.yaml`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchstack.causes import NothingToRecord, SettingsRefused, SettingsUnusable
from patchstack.files.atomic import replace_file
from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds import completion, tokens
from patchstack.workspace import read_yaml

_SHORT = 12  # the number of hex digits of a build's key in the output


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedReference:
    """A reference in a gate's entry.

    `keys` is the path to the value in the entry. `old` is None if there was no value. If the entry names a file of
    token ids instead, `file` is this file (next to the workspace file), and `ids` is its new content.
    """

    keys: tuple[str, ...]
    old: str | int | None
    new: str | int
    file: str | None = None
    ids: tuple[int, ...] = ()


def references(kind: str, judgement: Judgement) -> tuple[RecordedReference, ...]:
    """Return the references that a judgement contains.

    Raises `UsageError` for a kind without references, and `NotHeldError` if the gate gave no usable result.
    """
    details: Mapping[str, Any] = judgement.details
    match kind:
        case "completion":
            found = [_transcript(one) for one in details.get("states", ())]
        case "tokens":
            found = [_ids(one) for one in details.get("states", ())]
        case "backend-ops":
            found = _cases(details)
        case _:
            raise SettingsRefused(
                f"a gate of kind {kind} has no reference to record", hint="edit the gate's settings instead"
            )
    kept = tuple(one for one in found if one is not None)
    if not kept:
        raise NothingToRecord(
            f"nothing to record: {judgement.reason}",
            hint="after the gate gives a complete answer, run patchstack gate record again",
        )
    return kept


def changed(found: Sequence[RecordedReference]) -> tuple[RecordedReference, ...]:
    """Return the references that replace a different transcript or different ids. Each of them needs evidence."""
    replaced = (one for one in found if one.old is not None and one.old != one.new)
    return tuple(one for one in replaced if one.keys[-1] == "expect" and isinstance(one.old, str))


def state_of(reference: RecordedReference) -> str:
    """Return the name of the state that has this reference."""
    return reference.keys[1] if len(reference.keys) > 2 else ""


def base_of(settings: object, build: str | None) -> RecordedReference | None:
    """Return a reference that makes the current build the base of the next KL measurement.

    Return None for a gate without `kl`, and for programs that do not belong to a stored build.
    """
    if (
        build is None
        or not isinstance(settings, completion.CompletionSettings | tokens.TokensSettings)
        or settings.measure is None
    ):
        return None
    return RecordedReference(keys=("kl", "build"), old=settings.measure.build, new=build[:_SHORT])


def write_references(path: Path, suite: str, gate: str, found: Sequence[RecordedReference], note: str) -> None:
    """Write references into a workspace file, and add `note` as a comment after each of them.

    A reference that has a `file` is written to this file instead. A build under `kl` gets no comment. Nothing else in
    the workspace file changes.

    Raises `ConfigError` if the gate is no longer in the file.
    """
    from io import StringIO

    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap

    document = read_yaml(path)
    try:
        entry = next(one for one in document["suites"][suite]["gates"] if one["name"] == gate)
    except (KeyError, TypeError, StopIteration) as error:
        raise SettingsUnusable(f"{path} has no gate {gate} in suite {suite}") from error
    entry.fa.set_block_style()  # in flow style, the comment would hide the rest of the entry
    for one in found:
        if one.file is not None:
            replace_file(path.parent / one.file, f"{json.dumps(list(one.ids))}\n".encode())
            continue
        node = entry
        for key in one.keys[:-1]:
            if not isinstance(node.get(key), CommentedMap):
                node[key] = CommentedMap()
            node = node[key]
            node.fa.set_block_style()
        node[one.keys[-1]] = one.new
        if one.keys[0] != "kl":  # the note is about the reference, not about the build
            node.yaml_add_eol_comment(" ".join(note.split()), key=one.keys[-1])
    out = StringIO()
    yaml = YAML()
    yaml.width = 4096
    yaml.preserve_quotes = True
    if _indented(path.read_text(encoding="utf-8")):
        yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump(document, out)
    replace_file(path, out.getvalue().encode())


def _indented(text: str) -> bool:
    """Return whether the file indents lists below their keys."""
    match = re.search(r"^( *)gates:[^\n]*\n(?: *#[^\n]*\n)*( *)- ", text, re.MULTILINE)
    return match is not None and len(match.group(2)) > len(match.group(1))


def _transcript(state: Mapping[str, Any]) -> RecordedReference | None:
    """Return the reference for the transcript of a state.

    Return None if the state has no transcript, or is only compared with another state.
    """
    if state["md5"] is None or (state["same_as"] is not None and state["expected"] is None):
        return None
    old = state["expected"]
    new = state["sha256"] if old is not None and len(old) == 64 else state["md5"]
    return RecordedReference(keys=_keys(state["state"]), old=old, new=new)


def _ids(state: Mapping[str, Any]) -> RecordedReference | None:
    old, file = state.get("expected"), state.get("expect_file")
    if state["sha256"] is None or state["ids"] is None or (state.get("same_as") is not None and old is None):
        return None
    return RecordedReference(
        keys=_keys(state["name"]), old=old, new=state["sha256"], file=file, ids=tuple(state["ids"]) if file else ()
    )


def _cases(details: Mapping[str, Any]) -> list[RecordedReference | None]:
    whole = details.get("reference")
    if not whole or not whole["count"] or details.get("passed") != details.get("total"):
        return []
    return [
        RecordedReference(keys=("expect",), old=None, new=details["passed"]),
        RecordedReference(keys=("cases", "count"), old=None, new=whole["count"]),
        RecordedReference(keys=("cases", "sha256"), old=None, new=whole["sha256"]),
    ]


def _keys(state: str) -> tuple[str, ...]:
    return ("states", state, "expect") if state else ("expect",)
