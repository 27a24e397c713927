"""Provide an event loop that runs the callbacks of connections while it waits for events.

asyncio creates a handle for each event, puts it into a queue and later runs it. For a small amount of data, this takes
longer than reading the data. The loop of this module reads the data during the wait, and then continues to wait.
"""

from __future__ import annotations

import asyncio
import select
import selectors
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, TypeVar

_Result = TypeVar("_Result")
_MOST_EVENTS = 64
"""The maximum number of events that one system call returns. Timers are checked after each call."""
Call = Callable[[int], None]


class _Wait(selectors.DefaultSelector):
    """A selector that can also run a callback for a descriptor. It requires epoll."""

    def __init__(self) -> None:
        super().__init__()
        self._all = select.epoll()  # the descriptors with callbacks, and the epoll object of the base class
        self._all.register(self.fileno(), select.EPOLLIN)
        self._calls: dict[int, Call] = {}
        self._work = False

    def close(self) -> None:
        self._all.close()
        super().close()

    def add(self, descriptor: int, events: int, call: Call) -> None:
        """Call `call` with the events of a descriptor whenever one of `events` occurs."""
        self._all.register(descriptor, events)
        self._calls[descriptor] = call

    def change(self, descriptor: int, events: int, call: Call) -> None:
        """Replace the events and the callback of a descriptor."""
        self._all.modify(descriptor, events)
        self._calls[descriptor] = call

    def remove(self, descriptor: int) -> None:
        """Remove a descriptor.

        The wait then ends, because the callback that removes a descriptor may also schedule work for asyncio.
        """
        del self._calls[descriptor]
        self._all.unregister(descriptor)
        self._work = True

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait until asyncio has work or the timeout expires, and run the callbacks of ready descriptors."""
        poll, find = self._all.poll, self._calls.get
        until = monotonic() + (timeout or 0.0)
        left = timeout
        self._work = False
        while True:
            for descriptor, events in poll(left, _MOST_EVENTS):
                call = find(descriptor)
                if call is None:  # this descriptor belongs to asyncio
                    self._work = True
                else:
                    call(events)
                    if self._work:  # a later event may belong to a descriptor that was closed and is now reused
                        break
            if self._work:
                return super().select(0)
            if timeout is not None:
                left = until - monotonic()
                if left <= 0:
                    return []


class ClientLoop(asyncio.SelectorEventLoop):
    """asyncio's event loop with a selector that runs callbacks for descriptors."""

    def __init__(self) -> None:
        self.wait = _Wait()
        super().__init__(self.wait)


def run(main: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine as `asyncio.run` does, on a `ClientLoop` if this machine has epoll."""
    with asyncio.Runner(loop_factory=ClientLoop if hasattr(select, "epoll") else None) as runner:
        return runner.run(main)
