"""Read the metadata of patches from commit trailers and the ledger."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchstack.evidence.ledger import AcceptedBy, accepted_patches
from patchstack.series.files.directory import configured_series
from patchstack.series.status.metadata import PatchMetadata, read_metadata
from patchstack.workspace import SeriesConfig, Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The decision that accepted a patch, in the form used in documents.

    `path` is relative to the document. `switch_unproven` is the reason why a switch has no gate. It is empty if every
    switch has a gate.
    """

    id: str
    path: str
    switch_unproven: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesMetadata:
    """A series, with its patches in order.

    `decisions` maps each patch file to the decision that accepted the patch.
    """

    name: str
    directory: Path
    patches: tuple[PatchMetadata, ...]
    decisions: Mapping[str, AcceptedBy]

    def seen_from(self, place: Path) -> tuple[str, dict[str, Accepted]]:
        """Return the directory of the series, and the decisions by patch file. All paths are relative to `place`."""
        decisions = {
            file: Accepted(
                id=one.id, path=os.path.relpath(one.path.resolve(), place), switch_unproven=one.switch_unproven
            )
            for file, one in self.decisions.items()
        }
        return os.path.relpath(self.directory.resolve(), place), decisions


def read_series_metadata(workspace: Workspace, configs: Iterable[SeriesConfig]) -> Iterator[SeriesMetadata]:
    """Read the metadata of each series from its patches and the ledger. Raises the errors of `configured_series`."""
    for config in configs:
        yield SeriesMetadata(
            name=config.name,
            directory=config.patches,
            patches=read_metadata(configured_series(config)),
            decisions=accepted_patches(workspace.root / "ledger", config.patches),
        )
