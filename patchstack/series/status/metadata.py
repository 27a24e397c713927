"""What the commits say of themselves: the metadata in their trailers, as the patches of a series carry it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from patchstack.git.patch.trailers import read_message
from patchstack.series.files.directory import Series


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchMetadata:
    """One patch and the values of the trailers patchstack knows, by name (`switch`, `default`, …)."""

    file: str
    number: int | None
    subject: str
    values: Mapping[str, tuple[str, ...]]

    def told(self, name: str) -> str:
        """The values of a trailer in one text; empty if the commit has none."""
        return ", ".join(self.values.get(name, ()))


def read_metadata(series: Series) -> tuple[PatchMetadata, ...]:
    """The metadata of every patch, in order. Looks at the patch files alone; never fails."""
    return tuple(
        PatchMetadata(
            file=patch.file,
            number=patch.number,
            subject=patch.subject,
            values=read_message(patch.data or b"").metadata(),
        )
        for patch in series.patches
    )
