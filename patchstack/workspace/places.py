"""Repositories as a workspace names them: URLs, and paths taken from the workspace's directory."""

from __future__ import annotations

import os
import re
from pathlib import Path

from patchstack.errors import ConfigError


def located(repository: str, root: Path) -> str:
    """A repository as configured: a URL as it is, a path taken from the workspace's directory.

    A path below the current directory is given as one writes it there (`./fork`), since it is shown to the user.
    """
    if is_url(repository):
        return repository
    try:
        path = os.path.normpath(root / Path(repository).expanduser())
    except RuntimeError as error:
        raise ConfigError(f"{repository}: {error}") from error
    return path if os.sep in path else os.path.join(os.curdir, path)


def is_url(repository: str) -> bool:
    """Whether git would fetch from it: `scheme://…` or `host:path`."""
    return "://" in repository or bool(re.match(r"[^/\\]{2,}:(?!\\)", repository))
