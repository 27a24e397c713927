"""Define the base types of all JSON documents.

The schemas in the reference are generated from the subclasses of `Document`. A document's first field is its schema,
such as `patchstack.cost/1`. Fields of a published document are never removed and never change their meaning. New fields
may be added. Any other change needs a new schema version.
"""

from __future__ import annotations

import msgspec

from patchstack.canonical import indented, one_line


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a document.

    Subclasses must repeat `frozen=True, kw_only=True`, because these options are not fully inherited.
    """


class Printed(Part, frozen=True, kw_only=True):
    """A value that is written as JSON, on one line or indented."""

    @property
    def line(self) -> str:
        """Return the value as one line of JSON, with sorted keys."""
        return one_line(msgspec.to_builtins(self))

    @property
    def indented(self) -> bytes:
        """Return the value as indented JSON, for a file that people read."""
        return indented(msgspec.to_builtins(self))


class Document(Printed, frozen=True, kw_only=True, tag_field="schema"):
    """A whole document. Subclasses also set their schema, for example with `tag="patchstack.suites/1"`."""

    @classmethod
    def schema(cls) -> str:
        """Return the name and version of the schema, such as `patchstack.verify/1`."""
        return str(cls.__struct_config__.tag)
