"""Report the slow parts of a command to a watcher, which shows the progress.

Without a watcher, reporting takes almost no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing import Protocol

    class Watcher(Protocol):
        """The display of tasks. Each method receives the open tasks, outermost first."""

        def began(self, tasks: list[Task]) -> None:
            """Show the innermost task, which has just begun."""
            ...

        def ended(self, tasks: list[Task]) -> None:
            """Show that the innermost task ends. The task is still in `tasks`."""
            ...

        def close(self) -> None:
            """Close the display, because no more tasks will begin."""
            ...


Item = TypeVar("Item")

PATIENCE = 2.0
"""The delay in seconds after which a task is shown, unless it is `announced`. The durations of shorter tasks are not
stored."""


class Task:
    """One part of the work in progress. Only the function `task` creates tasks.

    `name` describes the work (`verify paged`). Tasks with the same `key` take about the same time, so the duration of
    one task is the estimate for the next task. `done` of `total` items are done. `total` is 0 if the number of items is
    unknown. `doing` describes the current activity. A task that is `announced` is shown from its start, any other task
    after a delay. If `typical` is true, the duration is stored. `began` is a time of the monotonic clock in seconds.
    """

    __slots__ = ("announced", "began", "doing", "done", "key", "name", "total", "typical")

    # Not a dataclass, because every command imports this module and must start fast.
    def __init__(self, name: str, key: str = "", *, announced: bool = False) -> None:
        self.name = name
        self.key = key
        self.announced = announced
        self.total = self.done = 0
        self.doing = ""
        self.typical = True
        self.began = monotonic()

    def at(self, done: int, total: int, doing: str = "") -> None:
        """Set the progress of the task."""
        self.done, self.total, self.doing = done, total, doing


class _Watch:
    """A watcher that is created when the first task begins."""

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
    """Show all later tasks with a watcher.

    `make` creates the watcher when the first task begins. Return a function that removes the watcher.
    """
    one = _Watch(make)
    _watches.append(one)

    def end() -> None:
        _watches.remove(one)
        if one.made is not None:
            one.made.close()

    return end


@contextmanager
def task(name: str, *, key: str = "", announced: bool = False) -> Iterator[Task]:
    """Show a task while the block, or the decorated function, runs."""
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
    """Yield the items, and set the progress of the task `one` before each item. `say` describes the work on an item."""
    for number, item in enumerate(items):
        one.at(number, total, say(item))
        yield item


def doing(text: str) -> None:
    """Set the current activity of the innermost task, if any."""
    if _open:
        _open[-1].doing = text


def timed(items: Iterable[Item]) -> Iterator[tuple[Item, float]]:
    """Yield each item with the number of seconds that it took to produce."""
    began = monotonic()
    for item in items:
        yield item, monotonic() - began
        began = monotonic()


def longest(durations: Sequence[tuple[str, float]]) -> str | None:
    """Return a note that names the slowest of several tasks, such as `greedy took 41 s of 63 s`.

    Return None if there are fewer than two tasks, or if they took at most `PATIENCE` seconds in total.
    """
    total = sum(seconds for _, seconds in durations)
    if len(durations) < 2 or total <= PATIENCE:
        return None
    name, seconds = max(durations, key=lambda one: one[1])
    return f"{name} took {clock(seconds)} of {clock(total)}"


def clock(seconds: float) -> str:
    """Return a duration as text, such as `9.2 s`, `41 s`, `1 min 03 s` or `2 h 05 min`."""
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
