"""Run patchstack on a pseudo-terminal, to test what a person sees."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from tests.support.checkout import ROOT

CLEARED = "\r\x1b[K"
"""The end of one state of a changing line."""


def on_terminal(
    arguments: Sequence[str], cwd: Path, width: int = 80, *, code: int = 0, interrupt_at: str = "", **environment: str
) -> str:
    """Return the output of `python -m patchstack` on a pseudo-terminal of this width. It must exit with `code`. Ctrl-C
    is sent when `interrupt_at` has been printed.
    """
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    done = subprocess.Popen(
        [sys.executable, "-m", "patchstack", *arguments],
        cwd=cwd,
        env={**kept, "TERM": "xterm", "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        stdin=follower,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    seen = b""
    deadline = monotonic() + 60
    try:
        while chunk := os.read(leader, 65536):
            seen += chunk
            assert monotonic() < deadline, seen
            if interrupt_at and interrupt_at.encode() in seen:
                interrupt_at = ""
                done.send_signal(signal.SIGINT)
    except OSError:  # Linux returns EIO when the other side is closed
        pass
    os.close(leader)
    assert done.wait(60) == code, seen
    return seen.decode().replace("\r\n", "\n")


def without_colour(text: str) -> str:
    """Return the text without its colours."""
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def live_lines(told: str) -> list[str]:
    """Return the states of the changing line, in order, from a terminal's output."""
    return [one for one in told.split(CLEARED)[1:] if one and "\n" not in one]


def left_standing(told: str) -> list[str]:
    """Return the lines that stay on the screen, without colours and without cleared lines."""
    return without_colour(re.sub(r"[^\n]*\r\x1b\[K", "", told)).splitlines()
