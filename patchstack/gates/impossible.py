"""Judge a gate on a build that may lack the checked feature.

A gate that was added with a patch must not PASS without the patch. Without the patch, the gate may FAIL, or it may be
impossible: its program is not in the build, or the program rejects an unknown argument. Elsewhere, the verdict of an
impossible gate is INVALID. In this module, it is FAIL. If the program rejected an argument, the observation is stored,
so that others can compute the same verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from patchstack.gates.judgement import Judgement
from patchstack.gates.registry import kind_of
from patchstack.gates.suite import Gate, judge_gate
from patchstack.observe.exit_status import refused_arguments
from patchstack.observe.layout import Programs
from patchstack.observe.observer import Observer, OtherBuild, RunContext
from patchstack.observe.protocol import Attempt, Complete, Invocation, Model, Observation, Observed
from patchstack.verdict import Verdict

IMPOSSIBLE = "impossible"
"""The `actual` value of a judgement if the gate is impossible on the build."""


class _Impossible(Exception):
    """The gate is impossible on this build. `attempts` are the runs that show this."""

    def __init__(self, why: str, attempts: tuple[Attempt, ...] = ()) -> None:
        super().__init__(why)
        self.attempts = attempts


def judge_without(gate: Gate, runner: Observer) -> Judgement:
    """Observe a gate on a build without the gate's patch, and judge it.

    The verdict is also FAIL if the gate is impossible on this build.

    Raises `EngineLost` and `EngineUnavailable`.
    """
    try:
        judgement = judge_gate(gate, _Watched(runner=runner))
        absent = [name for name in kind_of(gate.kind).programs(gate.settings) if name not in runner.programs()]
        if judgement.verdict is Verdict.INVALID and absent:
            raise _Impossible(f"{absent[0]} is not in the build")
        return judgement
    except _Impossible as found:
        return Judgement(
            verdict=Verdict.FAIL, reason=f"{IMPOSSIBLE}: {found}", actual=IMPOSSIBLE, attempts=found.attempts
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    """An `Observer` that stops the gate if a program is missing or rejects its arguments.

    Programs of other builds do not stop the gate, because they prove nothing about the judged build.
    """

    runner: Observer

    @property
    def context(self) -> RunContext:
        return self.runner.context

    def within(self, context: RunContext) -> Self:
        return replace(self, runner=self.runner.within(context))

    def beside(self, build: str | Programs) -> OtherBuild:
        return self.runner.beside(build)

    def judged_with(self, program: str, judge: Programs) -> OtherBuild:
        return self.runner.judged_with(program, judge)

    def build_digest(self) -> str:
        return self.runner.build_digest()

    def observe(self, invocation: Invocation, *, complete: Complete, tries: int = 3, salt: str = "") -> Observed:
        if invocation.program not in self.programs():
            raise _Impossible(f"{invocation.program} is not in the build")

        def judged(seen: Observation) -> str | None:
            return None if refused_arguments(seen) is not None else complete(seen)

        found = self.runner.observe(invocation, complete=judged, tries=tries, salt=salt)
        refused = refused_arguments(found.observation) if found.observation is not None else None
        if refused is not None:
            raise _Impossible(f"{invocation.program} does not accept its arguments: {refused}", found.attempts)
        return found

    def has(self, kept: str) -> bool:
        return self.runner.has(kept)

    def size_of(self, kept: str) -> int | None:
        return self.runner.size_of(kept)

    def digest_of(self, model: Model) -> str:
        return self.runner.digest_of(model)

    def programs(self) -> frozenset[str]:
        return self.runner.programs()
