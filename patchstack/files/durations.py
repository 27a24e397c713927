"""How long something took the last time on this machine, so that the next time has an expected duration."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

from patchstack.files.atomic import replace_file


def recalled_duration(directory: Path, key: str) -> float | None:
    """Return the seconds that the task with this key took the last time; None if that is not known."""
    try:
        seconds = float((directory / _name(key)).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None


def remember_duration(directory: Path, key: str, seconds: float) -> None:
    """Keep a duration in place of the last one. Raises `OSError`."""
    directory.mkdir(parents=True, exist_ok=True)
    replace_file(directory / _name(key), f"{seconds:.3f}\n".encode())


def _name(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:32]
