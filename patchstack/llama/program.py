"""A program of a build with its arguments, and the line that proves that its output is complete. llama.cpp's tools
print through a queue that a separate thread writes (`common/log.cpp`). Entries left in the queue at exit are lost,
although the exit status is 0 (ggml-org/llama.cpp#22142). The queue keeps its order and every entry is flushed, so a
line that a tool queues after all its results proves that the results are out: the sentinel. Later lines do not matter
(`-lv 4` prints a table of memory, a patch may print counters from a destructor).
"""

from __future__ import annotations

from dataclasses import dataclass

from patchstack.observe.exit_status import fault_of
from patchstack.observe.protocol import Complete, Invocation, Model, Observation
from patchstack.observe.sentinel import sentinel_missing
from patchstack.observe.settings import Environment, merged

GRAPHS_REUSED = r"^(?:\S+ +I +)?\w+: +graphs reused = +\d+$"
"""The last line of `common_perf_print` (`common/sampling.cpp`). Needs `--perf`, and `-lv 4` except for completion."""

MEMORY_BREAKDOWN = r"^(?:\S+ +I +)?\w+: \| +- Host +\|.*\|$"
"""The last line of `common_memory_breakdown_print`. Needs `--perf -lv 4`."""

_OF_TOOLS = {
    "llama-completion": GRAPHS_REUSED,
    "llama-batched-bench": GRAPHS_REUSED,
    "llama-perplexity": MEMORY_BREAKDOWN,
}
SECONDS = 600
TRIES = 5
NONE = "none"
"""No sentinel: the program prints no line that proves that its output is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program to run. `sentinel` is the pattern of the line that proves that its output is complete, None if there is
    no such line. `seconds` is wall time; `tries` is the total number of tries if a run cannot be judged."""

    name: str
    args: tuple[str, ...] = ()
    models: tuple[Model, ...] = ()
    env: Environment = ()
    sentinel: str | None = None
    seconds: int = SECONDS
    tries: int = TRIES

    def invocation(self, what: str, env: Environment = (), *, brings: tuple[str, ...] = ()) -> Invocation:
        """Return one run of it, with additional variables."""
        return Invocation(
            what=what,
            program=self.name,
            args=self.args,
            env=merged(self.env, env),
            models=self.models,
            brings=brings,
            seconds=float(self.seconds),
        )

    @property
    def pinned(self) -> bool:
        """Whether all its models are known to match their digests."""
        return all(model.sha256 is not None for model in self.models)

    def complete(self) -> Complete:
        """Return a function that decides whether a run can be judged: it exited by itself and printed its sentinel. A
        failure caused by the build can be judged too."""

        def complaint(seen: Observation) -> str | None:
            if fault := fault_of(seen, pinned=self.pinned):
                return None if fault.by_build else fault.reason
            return self.lost(seen)

        return complaint

    def lost(self, seen: Observation) -> str | None:
        """Return why the output of a run may be incomplete; None if it is complete, or if there is no sentinel."""
        if self.sentinel is None:
            return None
        missing = sentinel_missing(seen.stderr, self.sentinel)
        # llama.cpp's tools write the model's text to stdout, which may contain anything.
        if missing and not loses_output(self.name):
            return sentinel_missing(seen.stdout, self.sentinel)
        return missing


def program_problem(name: str) -> str | None:
    """Return why a text is not the name of a program, None if it is."""
    if "/" in name or name in (".", ".."):
        return f"{name!r} is a path; a program is named as it is below the build's bin"
    return None


def sentinel_of(program: str) -> str | None:
    """Return the sentinel of a tool of llama.cpp, None if it has no known one."""
    return _OF_TOOLS.get(program)


def loses_output(program: str) -> bool:
    """Return whether a program prints through llama.cpp's queue, so that a missing line may have been lost."""
    return program.startswith("llama-")
