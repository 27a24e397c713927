"""Read the metadata of patches from the trailers of their messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from patchstack.git.patch.trailers import read_message
from patchstack.series.files.directory import Series


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchMetadata:
    """A patch with the values of the trailers that patchstack defines, by name (`switch`, `default`, …)."""

    file: str
    number: int | None
    subject: str
    values: Mapping[str, tuple[str, ...]]

    def told(self, name: str) -> str:
        """Return the values of a trailer, joined by commas. Return an empty string if there are no values."""
        return ", ".join(self.values.get(name, ()))


def read_metadata(series: Series) -> tuple[PatchMetadata, ...]:
    """Return the metadata of every patch, in order.

    Reads only the patch files. Does not raise.
    """
    return tuple(
        PatchMetadata(
            file=patch.file,
            number=patch.number,
            subject=patch.subject,
            values=read_message(patch.data or b"").metadata(),
        )
        for patch in series.patches
    )
