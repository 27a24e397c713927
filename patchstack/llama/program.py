"""Describe the run of a program, and check that its output is complete.

llama.cpp's tools put their output into a queue, and a separate thread prints the entries (`common/log.cpp`). Entries
that are still in the queue at exit are lost, although the exit status is 0 (ggml-org/llama.cpp#22142). The queue
preserves the order of its entries, and every entry is flushed.

The sentinel of a tool is a line that it queues after all its results. If the sentinel was printed, the results were
printed too. Lines after the sentinel do not matter. Examples are the memory table of `-lv 4`, and counters that a patch
prints from a destructor.
"""

from __future__ import annotations

from dataclasses import dataclass

from patchstack.observe.exit_status import fault_of
from patchstack.observe.protocol import Complete, Invocation, Model, Observation
from patchstack.observe.sentinel import sentinel_missing
from patchstack.observe.settings import Environment, merged

GRAPHS_REUSED = r"^(?:\S+ +I +)?\w+: +graphs reused = +\d+$"
"""The pattern of the last line that `common_perf_print` prints (`common/sampling.cpp`).

All tools need `--perf` to print it. All tools except llama-completion also need `-lv 4`.
"""

MEMORY_BREAKDOWN = r"^(?:\S+ +I +)?\w+: \| +- Host +\|.*\|$"
"""The pattern of the last line that `common_memory_breakdown_print` prints. Tools need `--perf -lv 4` to print it."""

_OF_TOOLS = {
    "llama-completion": GRAPHS_REUSED,
    "llama-batched-bench": GRAPHS_REUSED,
    "llama-perplexity": MEMORY_BREAKDOWN,
}
SECONDS = 600
TRIES = 5
NONE = "none"
"""The value of the setting `sentinel` for a program that has no sentinel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program to run.

    `sentinel` is the pattern of the sentinel, or None if the program has no sentinel. `seconds` is the limit for the
    wall time of a run. `tries` is the maximum number of runs until one of them can be judged.
    """

    name: str
    args: tuple[str, ...] = ()
    models: tuple[Model, ...] = ()
    env: Environment = ()
    sentinel: str | None = None
    seconds: int = SECONDS
    tries: int = TRIES

    def invocation(self, what: str, env: Environment = (), *, brings: tuple[str, ...] = ()) -> Invocation:
        """Return an invocation of the program.

        `env` are additional environment variables. `brings` are the files of the run's work directory that become part
        of the observation.
        """
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
        """Whether all models are known to match their digests."""
        return all(model.sha256 is not None for model in self.models)

    def complete(self) -> Complete:
        """Return a check of a run. The check returns None if the run can be judged, and otherwise the reason.

        A run can be judged if it exited by itself and printed its sentinel, or if it failed because of the build.
        """

        def complaint(seen: Observation) -> str | None:
            if fault := fault_of(seen, pinned=self.pinned):
                return None if fault.by_build else fault.reason
            return self.lost(seen)

        return complaint

    def lost(self, seen: Observation) -> str | None:
        """Return the reason why the output of a run may be incomplete.

        Return None if it is complete, or if the program has no sentinel.
        """
        if self.sentinel is None:
            return None
        missing = sentinel_missing(seen.stderr, self.sentinel)
        # The stdout of llama.cpp's tools is not searched, because generated text could contain a fake sentinel.
        if missing and not loses_output(self.name):
            return sentinel_missing(seen.stdout, self.sentinel)
        return missing


def program_problem(name: str) -> str | None:
    """Return the reason why a text is not a valid name of a program. Return None if it is valid."""
    if "/" in name or name in (".", ".."):
        return f"{name!r} is a path; give the name of a program in the build's bin directory"
    return None


def sentinel_of(program: str) -> str | None:
    """Return the sentinel of a llama.cpp tool. Return None if no sentinel is known."""
    return _OF_TOOLS.get(program)


def loses_output(program: str) -> bool:
    """Return whether a program prints through llama.cpp's queue, which can lose lines at exit."""
    return program.startswith("llama-")
