"""Limit the run time of code in this process.

Without a limit, a search with a regular expression may never end.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class TookTooLong(Exception):
    """The code did not finish within its time limit."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `TookTooLong` in the `with` block after this many seconds, even during a search with `re`.

    Python's `re` checks for signals while it searches. Only the main thread receives signals, so the block has no limit
    in other threads. A timer that was already running continues afterwards with its remaining time.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, stop)
    running, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if running:
            signal.setitimer(signal.ITIMER_REAL, max(0.001, running - seconds))
