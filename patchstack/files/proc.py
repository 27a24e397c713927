"""Read `/proc`. Text is empty on a system without it."""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc")


def boot_id() -> str:
    """Return the random id of this start of the machine."""
    return _read("sys/kernel/random/boot_id").strip()


def pid_namespace() -> str:
    """Return the id of the namespace in which this process's numbers are valid."""
    try:
        return str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return ""


def _read(path: str) -> str:
    try:
        return (_PROC / path).read_text(errors="replace")
    except OSError:
        return ""
