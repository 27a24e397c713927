"""The names that volumes may have."""

from __future__ import annotations

import re

from patchstack.errors import UsageError

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}")


def checked(volume: str) -> str:
    """The volume's name, if it is one; `UsageError` for anything that could be taken for a path."""
    if not _NAME.fullmatch(volume):
        raise UsageError(f"{volume!r} is no name for a volume: letters, digits, '_', '.' and '-', and no more than 128")
    return volume
