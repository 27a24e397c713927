"""Show the progress of long tasks on standard error: a status line on a terminal, otherwise a few plain lines."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from patchstack.files.atomic import signals_blocked
from patchstack.files.durations import recalled_duration, remember_duration
from patchstack.report.streams import beside, quiet, terminal
from patchstack.report.text import printable
from patchstack.tasks import PATIENCE, clock

if TYPE_CHECKING:
    from typing import TextIO

    from patchstack.tasks import Task

_SOON = 0.3  # seconds before an announced task is shown; a cached result takes less time and shows nothing
_TICK = 0.25  # seconds between two updates
_PLAIN = 30.0  # seconds between two lines if stderr is not a terminal


class TaskScreen:
    """Shows the running tasks. Implements `patchstack.tasks.Watcher`.

    `durations` returns the directory in which durations of tasks are stored. It is called only if a duration is needed.
    Durations are also stored with `--quiet`.
    """

    def __init__(self, durations: Callable[[], Path], *, stream: TextIO | None = None) -> None:
        self._durations = durations
        self._stream = stream or sys.stderr
        self._live = terminal(self._stream)
        self._shown = not quiet()
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._ticker: threading.Thread | None = None
        self._tasks: tuple[Task, ...] = ()
        self._recalled: tuple[Task, float | None] | None = None
        self._drawn = False
        self._plain_at = 0.0
        self._forget = beside(self._aside)

    # Tasks call the following methods in the main thread.

    def began(self, tasks: Sequence[Task]) -> None:
        """Start to show a task, or add an inner task to the status line of its outer task."""
        task = tasks[-1]
        if len(tasks) > 1:
            self._tasks = tuple(tasks)
            return
        self._plain_at = _PLAIN
        self._tasks = (task,)
        if not self._shown:
            return
        if task.announced and not self._live:
            print(printable(task.name), file=self._stream, flush=True)
        if self._ticker is None:
            self._ticker = threading.Thread(target=self._tick, name="patchstack-tasks", daemon=True)
            with signals_blocked():  # the new thread inherits the mask, so signals are delivered to the main thread
                self._ticker.start()

    def ended(self, tasks: Sequence[Task]) -> None:
        """Show the outer task again after an inner task ended.

        If the outermost task ended, clear the status line. The duration of the task is stored if it is typical and not
        short, and if the task has a key.
        """
        self._tasks = tuple(tasks[:-1])
        if self._tasks:
            return
        self._clear()
        task, seconds = tasks[-1], monotonic() - tasks[-1].began
        if task.key and task.typical and seconds >= PATIENCE:
            with suppress(OSError):  # an estimate that cannot be stored is not an error
                remember_duration(self._durations(), task.key, seconds)

    def close(self) -> None:
        """Stop the updates and clear the status line."""
        self._forget()
        self._ended.set()
        if self._ticker is not None:
            self._ticker.join(timeout=5)
        self._clear()

    # The ticker thread calls the following methods.

    def _tick(self) -> None:
        while not self._ended.wait(_TICK):
            with suppress(OSError, ValueError):  # the reader is gone, or the stream is closed
                self._look(monotonic())

    def _look(self, now: float) -> None:
        if not self._lock.acquire(blocking=False):  # other code is printing
            return
        try:
            if not (tasks := self._tasks):
                return
            elapsed = now - tasks[0].began
            if self._live and elapsed >= (_SOON if tasks[0].announced else PATIENCE):
                text = fitted(what(tasks), when(tasks, now, self._expected(tasks[0])), _width(self._stream))
                self._stream.write(f"\r\x1b[K{text}")
                self._stream.flush()
                self._drawn = True
            elif not self._live and elapsed >= self._plain_at:
                self._plain_at = elapsed + _PLAIN
                print(f"{what(tasks)}  {when(tasks, now, self._expected(tasks[0]))}", file=self._stream, flush=True)
        finally:
            self._lock.release()

    def _expected(self, task: Task) -> float | None:
        """Return the seconds that a task is expected to take.

        The duration is read when the task is first shown, because most tasks are never shown.
        """
        if self._recalled is None or self._recalled[0] is not task:
            self._recalled = task, recalled_duration(self._durations(), task.key) if task.key else None
        return self._recalled[1]

    def _clear(self) -> None:
        with self._lock:
            if self._drawn:
                self._drawn = False
                with suppress(OSError, ValueError):
                    self._stream.write("\r\x1b[K")
                    self._stream.flush()

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """Hide the status line while other code prints."""
        with self._lock:
            self._clear()
            yield


def what(tasks: Sequence[Task]) -> str:
    """Return the current work as one printable line, from the outermost task to its innermost part."""
    parts = [task.name for task in tasks[1:]]
    if tasks[-1].doing:
        parts.append(tasks[-1].doing)
    line = ": ".join(filter(None, (tasks[0].name, ", ".join(parts))))
    return printable(" ".join(line.split()))


def when(tasks: Sequence[Task], now: float, expected: float | None) -> str:
    """Return the progress of the tasks as text.

    The text contains the elapsed time of the outermost task and, if known, its expected duration or the time left. The
    expected duration is that of the last task of the same kind. If it is not stored, the time left is estimated from
    the finished items.
    """
    elapsed = now - tasks[0].began
    inner = next((task for task in reversed(tasks) if task.total), None)
    count = f"[{inner.done}/{inner.total}]  " if inner is not None else ""
    if expected is not None:
        about = "of about" if elapsed <= expected else "expected about"
        return f"{count}{clock(elapsed)}{' ' if elapsed <= expected else ', '}{about} {clock(expected)}"
    if inner is not None and inner.done and now - inner.began >= 1:
        left = (now - inner.began) * (inner.total - inner.done) / inner.done
        return f"{count}{clock(elapsed)}, about {clock(left)} left"
    return f"{count}{clock(elapsed)}"


def fitted(text: str, tail: str, width: int) -> str:
    """Join a text and its tail into one line of a terminal.

    If the line is too long, the end of the text is cut off. The tail is cut only if it does not fit by itself.
    """
    from rich.cells import cell_len, set_cell_size

    room = width - 1 - cell_len(tail) - 2
    if cell_len(text) > room:
        text = set_cell_size(text, room - 1).rstrip() + "…" if room > 1 else ""
    return f"{text}  {tail}" if text else set_cell_size(tail, min(cell_len(tail), width - 1))


def _width(stream: TextIO) -> int:
    with suppress(ValueError):
        if columns := int(os.environ.get("COLUMNS", "")):
            return columns
    with suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns or 80
    return 80
