"""A time limit for work in this process: a search for a pattern may never end."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class TookTooLong(Exception):
    """The work did not finish within its time limit."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `TookTooLong` in the body after that many seconds, even during a search with `re`.

    Python's `re` checks for signals while it searches. Signals reach only the main thread, so other threads have no
    limit. If a timer is already running, it is restarted with its remaining time.
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
