"""Measure the lag of the client's event loop, the client's CPU time, and its open file descriptors."""

from __future__ import annotations

import asyncio
import os
import time

try:
    import resource
except ImportError:  # this module does not exist on Windows
    resource = None  # type: ignore[assignment]

EACH = 0.005
_EACH_NS = round(EACH * 1e9)
_MOST_MISSED = 100_000
_ROUNDED = 0.001
"""The part of a delay that is not counted, in seconds. epoll rounds waiting times up to whole milliseconds."""


class SelfWatch:
    """Takes a sample every `EACH` seconds while an event loop runs.

    `late` contains the delays of the sampling timer in ns, each reduced by one millisecond. `shares` contains, for each
    second, the CPU time of the process divided by the wall time.

    If the loop blocks, it misses samples. Missed samples are added with the delays that they would have had. Otherwise,
    a long stall would be only one sample among many, and a percentile would not show it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None
        self._due = 0.0
        self.late: list[int] = []
        self.shares: list[float] = []
        self._cpu = self._wall = 0.0
        self._cpu_began = self._wall_began = 0.0
        self._queued_began = 0

    def start(self) -> None:
        """Start to take samples."""
        self._cpu = self._cpu_began = time.process_time()
        self._wall = self._wall_began = time.monotonic()
        self._queued_began = _run_queue()
        self._next()

    def stop(self) -> None:
        """Stop taking samples. The last incomplete second is not counted."""
        if self._handle is not None:
            self._handle.cancel()

    def document(self) -> dict[str, object]:
        """Return the measurements as a JSON object.

        The name of a figure contains its unit. `busiest_second` is a share of a core.
        """
        late = sorted(self.late)
        wall = time.monotonic() - self._wall_began
        cpu = time.process_time() - self._cpu_began
        return {
            "samples": len(late),
            "lag_p50_ms": _at(late, 0.5),
            "lag_p99_ms": _at(late, 0.99),
            "lag_max_ms": late[-1] / 1e6 if late else 0.0,
            "cpu_seconds": round(cpu, 6),
            "wall_seconds": round(wall, 6),
            "busiest_second": round(max(self.shares, default=cpu / wall if wall > 0 else 0.0), 4),
            "waited_for_cpu_ms": round((_run_queue() - self._queued_began) / 1e6, 3),
        }

    def _next(self) -> None:
        self._due = self._loop.time() + EACH
        self._handle = self._loop.call_at(self._due, self._sample)

    def _sample(self) -> None:
        now = time.monotonic()
        late = max(0, round((now - self._due - _ROUNDED) * 1e9))
        self.late += range(late, max(0, late - _MOST_MISSED * _EACH_NS), -_EACH_NS) if late else (0,)
        if now - self._wall >= 1.0:
            cpu = time.process_time()
            self.shares.append((cpu - self._cpu) / (now - self._wall))
            self._cpu, self._wall = cpu, now
        self._next()


def raise_descriptors(wanted: int) -> tuple[int, int]:
    """Raise the soft limit on open files to `wanted`, or to the hard limit if that is lower.

    Return the soft and the hard limit.
    """
    if resource is None:
        return wanted, wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft != unlimited and soft < wanted:
        soft = wanted if hard == unlimited else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    most = 1 << 30
    return most if soft == unlimited else soft, most if hard == unlimited else hard


def open_descriptors() -> int:
    """Return the number of open file descriptors of this process. Return 0 if it is unknown."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def _run_queue() -> int:
    """Return the time during which this process was ready to run but had no core, in ns.

    Return 0 if the kernel does not report this time.
    """
    try:
        with open("/proc/self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _at(ordered: list[int], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1e6 if ordered else 0.0
