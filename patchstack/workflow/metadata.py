"""What commits' trailers and the ledger say of the patches of series."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchstack.evidence.ledger import accepted_patches
from patchstack.series.files.directory import configured_series
from patchstack.series.status.metadata import PatchMetadata, read_metadata
from patchstack.workspace import SeriesConfig, Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesMetadata:
    """A series with its patches in order; `decisions` has the id and the path of the decision that took a patch in, by
    the patch's file."""

    name: str
    directory: Path
    patches: tuple[PatchMetadata, ...]
    decisions: Mapping[str, tuple[str, Path]]

    def seen_from(self, place: Path) -> tuple[str, dict[str, tuple[str, str]]]:
        """The directory and the decisions with paths relative to a directory."""
        decisions = {
            file: (id_, os.path.relpath(path.resolve(), place)) for file, (id_, path) in self.decisions.items()
        }
        return os.path.relpath(self.directory.resolve(), place), decisions


def read_series_metadata(workspace: Workspace, configs: Iterable[SeriesConfig]) -> Iterator[SeriesMetadata]:
    """Read what commits and ledger say of each series. Raises what loading a series raises."""
    for config in configs:
        yield SeriesMetadata(
            name=config.name,
            directory=config.patches,
            patches=read_metadata(configured_series(config)),
            decisions=accepted_patches(workspace.root / "ledger", config.patches),
        )
