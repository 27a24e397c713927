"""What every JSON document is: a type, from which its schema in the reference is made.

A document's first field is its schema, such as `patchstack.cost/1`. A published document keeps its fields: new ones may
be added, none is removed and none changes its meaning; a change that cannot keep to that gets a new number.
"""

from __future__ import annotations

import msgspec

from patchstack.canonical import indented, one_line


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a document. A subclass says `frozen=True, kw_only=True` again: neither is inherited in full."""


class Printed(Part, frozen=True, kw_only=True):
    """What a command prints on a line of its own."""

    @property
    def line(self) -> str:
        """The document on one line, keys sorted."""
        return one_line(msgspec.to_builtins(self))

    @property
    def indented(self) -> bytes:
        """The document as a file that people read."""
        return indented(msgspec.to_builtins(self))


class Document(Printed, frozen=True, kw_only=True, tag_field="schema"):
    """A whole document. A subclass names its schema, such as `tag="patchstack.suites/1"`, beside the two."""

    @classmethod
    def schema(cls) -> str:
        """The name and version of its schema, such as `patchstack.verify/1`."""
        return str(cls.__struct_config__.tag)
