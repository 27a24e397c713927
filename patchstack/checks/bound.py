"""A bound on the time that a piece of work takes in this process: for patterns, which may search for ever."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class TookTooLong(Exception):
    """The work was not done within its time."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `TookTooLong` in what is done inside after so many seconds, a search of `re` included.

    Python's `re` looks for signals while it searches. A signal reaches the main thread alone: elsewhere there is no
    bound. A timer that is running already is set again with what is left of it.
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
