"""The parts of a command's work that take time, for whoever shows them.

A task without a watcher costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing import Protocol

    class Watcher(Protocol):
        """Shows tasks. Each call gets the open tasks, the outermost first."""

        def began(self, tasks: list[Task]) -> None:
            """The last of the tasks has begun."""
            ...

        def ended(self, tasks: list[Task]) -> None:
            """The last of the tasks ends."""
            ...

        def close(self) -> None:
            """No more tasks come."""
            ...


Item = TypeVar("Item")

PATIENCE = 2.0
"""Seconds: what takes less is not worth showing."""


class Task:
    """One part of the work, under way. Only `task` makes it; the code inside says how far it is.

    `name` says what is done (`verify paged`). `key` names the tasks that take equally long: the last one's duration is
    what this one is expected to take; without a key nothing is expected. `done` of `total` items are done; `total` is 0
    if that is not known. `doing` is what happens now, in a few words. `announced` tasks are shown from their start,
    others after a while. `typical`: the duration is worth remembering. `began` is of the monotonic clock, in seconds.
    """

    __slots__ = ("announced", "began", "doing", "done", "key", "name", "total", "typical")

    # No dataclass: every command line waits for this module.
    def __init__(self, name: str, key: str = "", *, announced: bool = False) -> None:
        self.name = name
        self.key = key
        self.announced = announced
        self.total = self.done = 0
        self.doing = ""
        self.typical = True
        self.began = monotonic()

    def at(self, done: int, total: int, doing: str = "") -> None:
        """Say how far the task is."""
        self.done, self.total, self.doing = done, total, doing


class _Watch:
    """A watcher that is made when the first task begins."""

    def __init__(self, make: Callable[[], Watcher]) -> None:
        self.make = make
        self.made: Watcher | None = None

    def watcher(self) -> Watcher:
        if self.made is None:
            self.made = self.make()
        return self.made


_open: list[Task] = []
_watches: list[_Watch] = []


def watch(make: Callable[[], Watcher]) -> Callable[[], None]:
    """Let a watcher see the tasks that begin from now on; it is made for the first of them. Return what ends that."""
    one = _Watch(make)
    _watches.append(one)

    def end() -> None:
        _watches.remove(one)
        if one.made is not None:
            one.made.close()

    return end


@contextmanager
def task(name: str, *, key: str = "", announced: bool = False) -> Iterator[Task]:
    """Do a part of the work, which is shown while the block, or the decorated function, runs."""
    one = Task(name, key, announced=announced)
    _open.append(one)
    watcher = _watches[-1].watcher() if _watches else None
    try:
        if watcher is not None:
            watcher.began(_open)
        yield one
    except BaseException:
        one.typical = False
        raise
    finally:
        if watcher is not None:
            watcher.ended(_open)
        _open.remove(one)


def counted(items: Iterable[Item], one: Task, total: int, say: Callable[[Item], str]) -> Iterator[Item]:
    """The items, while the task counts them. `say` gives what is done with an item, in a few words."""
    for number, item in enumerate(items):
        one.at(number, total, say(item))
        yield item


def doing(text: str) -> None:
    """Say what happens now in the innermost task, if there is one."""
    if _open:
        _open[-1].doing = text


def timed(items: Iterable[Item]) -> Iterator[tuple[Item, float]]:
    """The items, each with the seconds that it took to come."""
    began = monotonic()
    for item in items:
        yield item, monotonic() - began
        began = monotonic()


def longest(durations: Sequence[tuple[str, float]]) -> str | None:
    """Which of several took most of the time (`greedy took 41 s of 63 s`); None if all were quick, or there is one."""
    total = sum(seconds for _, seconds in durations)
    if len(durations) < 2 or total <= PATIENCE:
        return None
    name, seconds = max(durations, key=lambda one: one[1])
    return f"{name} took {clock(seconds)} of {clock(total)}"


def clock(seconds: float) -> str:
    """A duration: `9.2 s`, `41 s`, `1 min 03 s`, `2 h 05 min`."""
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
