"""Read references of token ids from `patchstack.yaml` and from files next to it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchstack.causes import BadValue
from patchstack.llama.completions import digest_of_ids
from patchstack.observe.declared import Models, Setting, Values
from patchstack.workspace.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenReference:
    """The digest of the ids (`digest_of_ids`), and the ids themselves if they are known."""

    sha256: str
    ids: tuple[int, ...] | None = None


def reference_of(value: object) -> TokenReference | str:
    """Parse a reference, which is a list of ids or the digest of such a list.

    If the reference is invalid, return the problem as text.
    """
    if isinstance(value, str):
        right = len(value) == 64 and set(value) <= set("0123456789abcdef")
        return (
            TokenReference(sha256=str(value))
            if right
            else "neither 64 lower-case hexadecimal digits nor a list of token ids"
        )
    if not isinstance(value, list) or not value or not all(type(one) is int and one >= 0 for one in value):
        return "not a list of token ids"
    ids = tuple(int(one) for one in value)
    return TokenReference(sha256=digest_of_ids(ids), ids=ids)


def reference_in(path: Path) -> TokenReference | str:
    """Read a reference from a file that contains a JSON list of ids.

    If the file is invalid, return the problem as text.
    """
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        return f"{path} cannot be read: {getattr(error, 'strerror', None) or 'not JSON'}"
    found = reference_of(value) if isinstance(value, list) else "not a list of token ids"
    return found if isinstance(found, TokenReference) else f"{path}: {found}"


def combined(given: TokenReference | None, filed: TokenReference | None) -> TokenReference | str | None:
    """Combine the reference from `expect` with the reference from a file.

    Return None if neither is given. If they do not match, return the problem as text.
    """
    if given is not None and filed is not None and given.sha256 != filed.sha256:
        return f"the ids of the file do not match expect: their digest is {filed.sha256}"
    return filed or given


@dataclass(frozen=True, slots=True)
class TokenIds:
    """The form of a setting that contains token ids or their digest."""

    written: str = "a list of token ids, or their SHA-256"
    option: Any = str

    def read(self, node: Node, name: str, models: Models) -> TokenReference | None:
        found = reference_of(node.node.get(name))
        if isinstance(found, TokenReference):
            return found
        node.complain(name, found)
        return None

    def convert(self, given: str, name: str, models: Models) -> TokenReference:
        words = given.replace(",", " ").split()
        ids = [int(word) for word in words if word.isdecimal() and len(word) < 20]
        found = reference_of(ids if len(ids) == len(words) else given.strip().lower())
        if isinstance(found, TokenReference):
            return found
        raise BadValue(
            f"--expect {given[:80]!r} is neither token ids nor their SHA-256", hint="give ids as in --expect 12,7,99"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Filed:
    """The reference from a file. `name` is the name of the file as it is written in the workspace file."""

    name: str
    reference: TokenReference


@dataclass(frozen=True, slots=True)
class IdsFile:
    """The form of a setting that names a file of token ids.

    In a suite, the path is relative to the directory of the workspace file.
    """

    written: str = "a file next to the workspace file, with a JSON list"
    option: Any = Path

    def read(self, node: Node, name: str, models: Models) -> Filed | None:
        value = node.node.get(name)
        named = isinstance(value, str) and bool(value)
        found = reference_in(node.path.parent / str(value)) if named else "not the name of a file"
        if isinstance(found, TokenReference):
            return Filed(name=str(value), reference=found)
        node.complain(name, found)
        return None

    def convert(self, given: Path, name: str, models: Models) -> Filed:
        found = reference_in(given)
        if isinstance(found, TokenReference):
            return Filed(name=str(given), reference=found)
        raise BadValue(found, hint="--json prints the received ids in details")


EXPECT = Setting[TokenReference | None](
    name="expect",
    form=TokenIds(),
    default=None,
    metavar="IDS",
    help="The token ids, such as 12,7,99, or their SHA-256.",
)
EXPECT_FILE = Setting[Filed | None](
    name="expect_file", form=IdsFile(), default=None, metavar="FILE", help="A file with the token ids as a JSON list."
)


def reference_of_values(values: Values) -> TokenReference | None:
    """Return the reference from `EXPECT` and `EXPECT_FILE`. Return None if neither is given.

    If they do not match, report the problem on `values` and return None.
    """
    filed = values[EXPECT_FILE]
    whole = combined(values[EXPECT], filed.reference if filed is not None else None)
    if isinstance(whole, str):
        values.complain("expect_file", whole)
        return None
    return whole
