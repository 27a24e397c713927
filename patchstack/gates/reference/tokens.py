"""References of token ids: what they must be, as they are written in `patchstack.yaml` and in files beside it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from patchstack.llama.completions import digest_of_ids
from patchstack.workspace.mapping import Mapping as Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The digest of the ids (`digest_of_ids`), and the ids themselves where they are at hand."""

    sha256: str
    ids: tuple[int, ...] | None = None


def reference_of(value: object) -> Reference | str:
    """A reference as it is written: a list of ids, or their digest; else a text with what is wrong."""
    if isinstance(value, str):
        right = len(value) == 64 and set(value) <= set("0123456789abcdef")
        return (
            Reference(sha256=str(value))
            if right
            else "neither 64 lower-case hexadecimal digits nor a list of token ids"
        )
    if not isinstance(value, list) or not value or not all(type(one) is int and one >= 0 for one in value):
        return "no list of token ids"
    ids = tuple(int(one) for one in value)
    return Reference(sha256=digest_of_ids(ids), ids=ids)


def reference_in(path: Path) -> Reference | str:
    """The reference in a file, a JSON list of ids; else a text with what is wrong."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        return f"{path} cannot be read: {getattr(error, 'strerror', None) or 'not JSON'}"
    found = reference_of(value) if isinstance(value, list) else "no list of token ids"
    return found if isinstance(found, Reference) else f"{path}: {found}"


def combined(given: Reference | None, filed: Reference | None) -> Reference | str | None:
    """One reference of a digest and a file, which must belong together; else a text with what is wrong."""
    if given is not None and filed is not None and given.sha256 != filed.sha256:
        return f"the ids of the file are not those of the digest: theirs is {filed.sha256}"
    return filed or given


def read_reference(node: Node) -> Reference | None:
    """`expect` (ids, or their digest) and `expect_file` (beside the workspace file) of a mapping."""
    found: dict[str, Reference | None] = {"expect": None, "expect_file": None}
    for key in found:
        node.used.append(key)
        if key not in node.node:
            continue
        value = node.node[key]
        if key == "expect":
            one = reference_of(value)
        elif isinstance(value, str) and value:
            one = reference_in(node.path.parent / value)
        else:
            one = "not the name of a file"
        if isinstance(one, str):
            node.complain(key, one)
        else:
            found[key] = one
    whole = combined(found["expect"], found["expect_file"])
    if isinstance(whole, str):
        node.complain("expect_file", whole)
        return None
    return whole
