"""Return the directories of patchstack's caches.

The contents of a cache can be computed or fetched again. This module does not create the directories.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CachePlaces:
    """The caches of a user. Each is a directory or a file below `root`."""

    root: Path

    @property
    def repositories(self) -> Path:
        """Partial clones of repositories, one per URL."""
        return self.root / "repositories"

    @property
    def formatted(self) -> Path:
        """Digests of the patches that git wrote for commits, by repository and format options."""
        return self.root / "formatted"

    @property
    def builds(self) -> Path:
        """Builds, by build key."""
        return self.root / "builds"

    @property
    def toolchains(self) -> Path:
        """Digests and versions of toolchains and images."""
        return self.root / "toolchains"

    @property
    def observations(self) -> Path:
        """Observations of this machine, by key."""
        return self.root / "observations"

    @property
    def outputs(self) -> Path:
        """Outputs of observations, by digest."""
        return self.root / "outputs"

    @property
    def digests(self) -> Path:
        """Digests of models, by path, size and modification time."""
        return self.root / "digests"

    @property
    def durations(self) -> Path:
        """The last duration of each task on this machine."""
        return self.root / "durations"

    @property
    def engine(self) -> Path:
        """The volumes of the host engine."""
        return self.root / "engine"

    @property
    def comparisons(self) -> Path:
        """Comparisons that do not belong to a workspace, one directory per comparison."""
        return self.root / "comparisons"

    @property
    def machine_history(self) -> Path:
        """The reference runs of comparisons, as a SQLite file."""
        return self.root / "machine-history.sqlite"

    @property
    def bisections(self) -> Path:
        """The work directories of `bisect`."""
        return self.root / "bisect"


def cache_directory() -> Path:
    """Return the cache directory.

    This is the value of the environment variable `PATCHSTACK_CACHE`, or else the platform's cache directory.
    """
    named = os.environ.get("PATCHSTACK_CACHE")
    if named:
        return Path(named)
    import platformdirs  # imported only if needed, because the import is slow

    return Path(platformdirs.user_cache_dir("patchstack", appauthor=False))


def cache_places() -> CachePlaces:
    """Return the directories of this user's cache."""
    return CachePlaces(cache_directory())
