"""Judge the gates that a candidate adds.

Such a gate must not PASS before the candidate, and must PASS with it. A patch names its gates in its message
(`New-Gate: NAME`, see `series.brought`). A new switch is therefore accepted together with the gate that proves its
effect. A switch without such a gate requires a reason.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from patchstack.causes import DecisionRefused, ReasonMissing
from patchstack.gates.impossible import judge_without
from patchstack.gates.judgement import Judgement
from patchstack.gates.suite import Gate, Suite, judge_gate, place
from patchstack.observe.observer import Observer
from patchstack.observe.runner import Runner
from patchstack.series.brought import Brought, brought_by_commits
from patchstack.tasks import task
from patchstack.verdict import Verdict
from patchstack.workflow.brought_gates import MARK, MOST, BroughtGate, no_sandbox
from patchstack.workflow.candidate.candidate import CandidateRange

BEFORE = "before"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewGate:
    """A gate that a commit adds.

    `named` is its name in the commit message. `brought` is set if only the change's own workspace file defines the
    gate, and the policy does not. In that case, the gate is not trusted.
    """

    commit: str
    named: str
    suite: Suite
    gate: Gate
    brought: BroughtGate | None = None

    @property
    def path(self) -> str:
        """The unique name `SUITE/NAME`."""
        return f"{self.suite.name}/{self.gate.name}"

    @property
    def title(self) -> str:
        """The gate's name in reports, with a mark if the policy does not contain the gate."""
        return f"{self.path} {MARK}" if self.brought is not None else self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class Brings:
    """The gates and switches that candidates add.

    `unproven` are the commits with switches that no trusted gate proves. `reason` is the reason to accept these
    switches.
    """

    gates: tuple[NewGate, ...] = ()
    unproven: tuple[Brought, ...] = ()
    reason: str = ""

    def without(self, suite: Suite) -> Suite:
        """Return a suite without the gates that the candidates add."""
        own = {one.gate.name for one in self.gates if one.suite.name == suite.name}
        chosen = tuple(gate for gate in suite.gates if gate.name not in own)
        return Suite(name=suite.name, what=suite.what, gates=chosen, allow=suite.allow)

    def document(self) -> dict[str, Any]:
        """Return the additions as JSON, for a decision."""
        return {
            "gates": [
                {"commit": one.commit, "named": one.named, "suite": one.suite.name, "gate": one.gate.name}
                for one in self.gates
            ],
            "unproven": [{"commit": one.commit, "switches": list(one.switches)} for one in self.unproven],
            "reason": self.reason or None,
        }


def brought(way: CandidateRange) -> tuple[Brought, ...]:
    """Return the gates and switches that each candidate adds, in order."""
    found = brought_by_commits((one.oid, way.sources.objects.read(one.oid)[1]) for one in way.fork.commits)
    return found[len(found) - len(way.new) :]


def read_brings(
    found: Sequence[Brought],
    suites: Sequence[Suite],
    reason: str | None,
    *,
    asked: str | None,
    bring: Callable[[str], BroughtGate] | None = None,
) -> Brings:
    """Find the gates that candidates add, and check that every new switch has a gate or a reason.

    `found` contains the gates and switches as the commit messages name them. `asked` is the suite that the candidates
    must pass. If the policy does not contain a gate, `bring` reads it from the change's own workspace file.

    Raises `UsageError` with a list of all missing gates. Also raises `UsageError` for a switch that has neither a gate
    nor a `reason`, and for a `reason` that no switch needs.
    """
    problems: list[str] = []
    gates = [gate for one in found for name in one.gates if (gate := _named(one, name, suites, asked, problems, bring))]
    if len([gate for gate in gates if gate.brought is not None]) > MOST:
        problems = [f"a change may add at most {MOST} gates"]
    if problems:
        raise DecisionRefused(
            "a commit adds a gate that is not in the suites",
            problems=problems,
            hint="add it under suites: in patchstack.yaml, or correct the trailer New-Gate in the commit message",
        )
    shown = {gate.commit for gate in gates if gate.brought is None}
    unproven = tuple(one for one in found if one.switches and one.commit not in shown)
    if reason is not None and not reason.strip():
        hint = 'use --switch-unproven "why no gate can prove it yet"'
        raise ReasonMissing("--switch-unproven needs a reason", hint=hint)
    if reason is not None and not unproven:
        raise DecisionRefused(
            "--switch-unproven is not needed: the candidates have no switch without a gate", hint="omit the option"
        )
    if unproven and reason is None:
        raise DecisionRefused(
            "no gate proves the effect of a switch",
            problems=[_unproven(one) for one in unproven],
            hint="ask a maintainer to add the gate to the policy first, or use --switch-unproven REASON"
            if any(one.gates for one in unproven)
            else "name a gate in the commit message (New-Gate: NAME), or use --switch-unproven REASON",
        )
    return Brings(gates=tuple(gates), unproven=unproven, reason=(reason or "").strip())


def _unproven(one: Brought) -> str:
    gates = f"; {', '.join(one.gates)} comes with the change, so its PASS proves nothing" if one.gates else ""
    return f"{one.commit[:12]} ({one.subject}): Switch: {', '.join(one.switches)}{gates}"


def judge_new(brings: Brings, runner: Runner, which: str) -> Iterator[tuple[NewGate, Judgement]]:
    """Judge every gate that the candidates add, either on the build before them or on their own build.

    Raises `EngineLost` and `EngineUnavailable`.
    """
    for number, one in enumerate(brings.gates, 1):
        name = f"new gate {one.title} ({which}){place(number, len(brings.gates))}"
        with task(name, key=f"gate {one.gate.name} {one.gate.kind} {one.gate.settings!r}", announced=True) as this:
            why = no_sandbox(runner.about) if one.brought is not None else None
            judgement = (
                judge_new_gate(one.gate, runner, which)
                if why is None
                else Judgement(verdict=Verdict.INVALID, reason=why)
            )
            this.typical = bool(judgement.attempts) and not any(one.recalled for one in judgement.attempts)
        yield one, judgement


def judge_new_gate(gate: Gate, runner: Observer, which: str) -> Judgement:
    """Judge a gate that candidates add. On the build before them, a gate that cannot run is FAIL."""
    return judge_without(gate, runner) if which == BEFORE else judge_gate(gate, runner)


def outcome(which: str, judgement: Judgement) -> tuple[Verdict, str]:
    """Return the verdict for the candidates, and the reason.

    A gate that the candidates add must not PASS on the build before them.
    """
    if which != BEFORE or judgement.verdict is Verdict.INVALID:
        return judgement.verdict, judgement.reason
    if judgement.verdict is Verdict.PASS:
        return Verdict.FAIL, f"the gate does not see the patch: without it, it is PASS: {judgement.reason}"
    return Verdict.PASS, f"FAIL without the patch, as it must: {judgement.reason}"


def _named(
    one: Brought,
    name: str,
    suites: Sequence[Suite],
    asked: str | None,
    problems: list[str],
    bring: Callable[[str], BroughtGate] | None,
) -> NewGate | None:
    """Return the gate with this name. If several suites contain it, return the gate of the requested suite.

    If no gate can be chosen, add the problem to `problems` and return None.
    """
    suite, _, gate = name.rpartition("/")
    found = [
        NewGate(commit=one.commit, named=name, suite=of, gate=known)
        for of in suites
        if suite in ("", of.name)
        for known in of.gates
        if known.name == gate
    ]
    chosen = found if len(found) == 1 else [new for new in found if new.suite.name == asked]
    if len(chosen) == 1:
        return chosen[0]
    where = f"{one.commit[:12]} ({one.subject}): New-Gate: {name}"
    if found:
        problems.append(f"{where}: several suites have it; name one of {', '.join(new.path for new in found)}")
        return None
    if bring is not None:
        brought = bring(name)
        if brought.gate is not None:
            allow = next((known.allow for known in suites if known.name == brought.suite), ())
            own = Suite(name=brought.suite, what="", gates=(brought.gate,), allow=allow)
            return NewGate(commit=one.commit, named=name, suite=own, gate=brought.gate, brought=brought)
        problems.append(f"{where}: {brought.problem}")
        return None
    near = difflib.get_close_matches(gate, [known.name for of in suites for known in of.gates], 1)
    problems.append(f"{where}: no suite has it" + (f"; perhaps you meant {near[0]}" if near else ""))
    return None
