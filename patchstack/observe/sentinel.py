"""Whether a tool of llama.cpp printed all it had to print.

llama.cpp's tools print through one queue that a thread of its own writes out (`common/log.cpp`); what is in it at exit
is lost, and the exit code is 0 all the same (ggml-org/llama.cpp#22142). The queue keeps its order and every entry is
flushed, so a line that a tool queues after all its results proves that the results are out: the sentinel. What follows
it does not matter (`-lv 4` prints a table of memory, a patch may print counters from a destructor).
"""

from __future__ import annotations

import re

GRAPHS_REUSED = r"^(?:\S+ +I +)?\w+: +graphs reused = +\d+$"
"""The last line of `common_perf_print` (`common/sampling.cpp`): wants `--perf`, and `-lv 4` but for completion."""

MEMORY_BREAKDOWN = r"^(?:\S+ +I +)?\w+: \| +- Host +\|.*\|$"
"""The last line of `common_memory_breakdown_print`: wants `--perf -lv 4`."""

LOST = "its output was lost: the line that it prints last is not there"

_OF_TOOLS = {
    "llama-completion": GRAPHS_REUSED,
    "llama-batched-bench": GRAPHS_REUSED,
    "llama-perplexity": MEMORY_BREAKDOWN,
}
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def sentinel_of(program: str) -> str | None:
    """The sentinel of a tool of llama.cpp; None for a program that is not known to have one."""
    return _OF_TOOLS.get(program)


def loses_output(program: str) -> bool:
    """Whether a program prints through llama.cpp's queue, so that a line that is not there may have been printed."""
    return program.startswith("llama-")


def lines_of(stream: bytes) -> list[str]:
    """The lines of a stream, without colours; a last one that was not ended is left out: it may be half of one."""
    return [line.rstrip("\r") for line in _plain(stream).split("\n")[:-1]]


def all_lines_of(*streams: bytes) -> list[str]:
    """Every line of some streams, without colours (`test-backend-ops` colours even what it writes to a file)."""
    return [line for stream in streams for line in _plain(stream).splitlines()]


def sentinel_missing(stream: bytes, pattern: str) -> str | None:
    """Why a run cannot be trusted to have printed everything; None where the sentinel is there."""
    search = re.compile(pattern).search
    if any(search(line) for line in reversed(lines_of(stream))):
        return None
    return LOST


def _plain(stream: bytes) -> str:
    return _COLOUR.sub("", stream.decode("utf-8", "backslashreplace"))
