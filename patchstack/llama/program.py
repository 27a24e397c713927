"""A program of a build with its arguments, and the line that shows that it printed everything.

llama.cpp's tools print through one queue that a thread of its own writes out (`common/log.cpp`); what is in it at exit
is lost, and the exit code is 0 all the same (ggml-org/llama.cpp#22142). The queue keeps its order and every entry is
flushed, so a line that a tool queues after all its results proves that the results are out: the sentinel. What follows
it does not matter (`-lv 4` prints a table of memory, a patch may print counters from a destructor).
"""

from __future__ import annotations

from dataclasses import dataclass

from patchstack.observe.exit_status import fault_of
from patchstack.observe.protocol import Complete, Invocation, Model, Observation
from patchstack.observe.sentinel import sentinel_missing
from patchstack.observe.settings import Environment, merged

GRAPHS_REUSED = r"^(?:\S+ +I +)?\w+: +graphs reused = +\d+$"
"""The last line of `common_perf_print` (`common/sampling.cpp`): wants `--perf`, and `-lv 4` but for completion."""

MEMORY_BREAKDOWN = r"^(?:\S+ +I +)?\w+: \| +- Host +\|.*\|$"
"""The last line of `common_memory_breakdown_print`: wants `--perf -lv 4`."""

_OF_TOOLS = {
    "llama-completion": GRAPHS_REUSED,
    "llama-batched-bench": GRAPHS_REUSED,
    "llama-perplexity": MEMORY_BREAKDOWN,
}
SECONDS = 600
TRIES = 5
NONE = "none"
"""A sentinel that is none: the program prints no line that shows that all was printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is run. `sentinel` is a pattern of the line that shows that all was printed, None if there is no such
    line. `seconds` is wall time; `tries` is how often a run that cannot be judged is tried in all."""

    name: str
    args: tuple[str, ...] = ()
    models: tuple[Model, ...] = ()
    env: Environment = ()
    sentinel: str | None = None
    seconds: int = SECONDS
    tries: int = TRIES

    def invocation(self, what: str, env: Environment = (), *, brings: tuple[str, ...] = ()) -> Invocation:
        """One run of it, with more variables than it always has."""
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
        """Whether all its models are known to be the ones of their digests."""
        return all(model.sha256 is not None for model in self.models)

    def complete(self) -> Complete:
        """Judges whether a run can be judged: it ended by its own doing, and printed what it prints last. A run that
        the build is to blame for can."""

        def complaint(seen: Observation) -> str | None:
            if fault := fault_of(seen, pinned=self.pinned):
                return None if fault.by_build else fault.reason
            return self.lost(seen)

        return complaint

    def lost(self, seen: Observation) -> str | None:
        """Why what a run printed may not be all; None if it is, or where no line shows it."""
        if self.sentinel is None:
            return None
        missing = sentinel_missing(seen.stderr, self.sentinel)
        # llama.cpp's tools write to stdout what their model says, which may be anything.
        if missing and not loses_output(self.name):
            return sentinel_missing(seen.stdout, self.sentinel)
        return missing


def program_problem(name: str) -> str | None:
    """Why a text is not the name of a program; None for one that is."""
    if "/" in name or name in (".", ".."):
        return f"{name!r} is a path; a program is named as it is below the build's bin"
    return None


def sentinel_of(program: str) -> str | None:
    """The sentinel of a tool of llama.cpp; None for a program that is not known to have one."""
    return _OF_TOOLS.get(program)


def loses_output(program: str) -> bool:
    """Whether a program prints through llama.cpp's queue, so that a line that is not there may have been printed."""
    return program.startswith("llama-")
