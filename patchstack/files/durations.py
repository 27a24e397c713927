"""Store how long tasks took on this machine, to estimate the time of later runs."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

from patchstack.files.atomic import replace_file


def recalled_duration(directory: Path, key: str) -> float | None:
    """Return the last stored duration of a task in seconds. Return None if no valid duration is stored."""
    try:
        seconds = float((directory / _name(key)).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None


def remember_duration(directory: Path, key: str, seconds: float) -> None:
    """Store the duration of a task. Raises `OSError` if it cannot be written."""
    directory.mkdir(parents=True, exist_ok=True)
    replace_file(directory / _name(key), f"{seconds:.3f}\n".encode())


def _name(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:32]
