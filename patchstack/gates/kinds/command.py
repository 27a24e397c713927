"""Gate kind `command`: any program of the build, its exit code, and what it must and must not print.

    - name: recurrent-rollback
      kind: command
      program: test-recurrent-state-rollback
      args: [-m, "{model:q36-35b}"]
      must: recurrent rollback checkpoint restored successfully
      must_not: [NaN, "fallback"]

An exit code alone is no check: a program that skipped everything exits 0 too. So what it must print is asked for.
A line that is not there may have been lost (see `sentinel`): where no sentinel is known, the program is run again, and
the line counts as missing only where it is missing each time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchstack.gates.judgement import Judgement
from patchstack.llama.program import Program, loses_output, read_program
from patchstack.observe.exit_status import Fault, cause_of_crash, complaint_of, crashed, fault_of
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Attempt, Complete, Model, Observation, Observed
from patchstack.observe.sentinel import LOST, all_lines_of
from patchstack.observe.settings import bounded, patterns
from patchstack.verdict import Verdict
from patchstack.workspace.mapping import Mapping as Node

KIND = "command"
VERSION = 1

_REPEATS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The settings. `exit` is the exit code (128 + signal for a program that ends by one). Each pattern of `must` is
    found in some line of stdout or stderr, none of `must_not` in any."""

    program: Program
    must: tuple[str, ...]
    must_not: tuple[str, ...] = ()
    exit: int = 0


def read(node: Node, models: Mapping[str, Model]) -> Spec:
    """The settings of a suite's entry."""
    before = len(node.problems)
    must = patterns(node, "must")
    unusable = len(node.problems) > before
    spec = Spec(
        program=read_program(node, models),
        must=must,
        must_not=patterns(node, "must_not"),
        exit=bounded(node, "exit", default=0, least=0, most=255),
    )
    for key, problem in spec_problems(spec):
        if key != "must" or not unusable:
            node.complain(key if key in node.node else None, problem)
    node.finish()
    return spec


def spec_problems(spec: Spec) -> list[tuple[str, str]]:
    """What is wrong with the settings: each with the key it is about."""
    found = []
    if not spec.must:
        found.append(
            ("must", "must is missing or empty: a program that did nothing has an exit code too; what must it print?")
        )
    if both := [text for text in spec.must if text in spec.must_not]:
        found.append(("must_not", f"{both[0]!r} must be printed, and must not"))
    return found


def run(spec: Spec, runner: Observer) -> Judgement:
    """Run it, again where a line may have been lost, and judge."""
    runs: list[Observed] = []
    for number in range(1, _REPEATS + 1):
        salt = f"run {number}" if number > 1 else ""
        seen = runner.observe(
            spec.program.invocation(spec.program.name), complete=complete(spec), tries=spec.program.tries, salt=salt
        )
        runs.append(seen)
        if seen.observation is None or not _doubtful(spec, seen.observation):
            break
    return judge(spec, runs)


def complete(spec: Spec) -> Complete:
    """Judges whether a run can be judged."""

    def complaint(seen: Observation) -> str | None:
        if seen.code != spec.exit:
            fault = _fault(spec, seen)
            if fault is None or fault.by_build:
                return None
            # Programs that lose no words may well exit with 1 without one: that is an answer, and not the expected one.
            return None if fault.unexplained and not loses_output(spec.program.name) else fault.reason
        if not seen.stdout.strip() and not seen.stderr.strip():
            return "it printed nothing"
        return spec.program.lost(seen)

    return complaint


def judge(spec: Spec, runs: Sequence[Observed]) -> Judgement:
    """The verdict of the runs: one, or several where a line that must be there was not."""
    attempts = tuple(attempt for one in runs for attempt in one.attempts)
    seen = [one.observation for one in runs if one.observation is not None]
    if not spec.must:
        return _judgement(spec, Verdict.INVALID, spec_problems(spec)[0][1], None, attempts)
    if not seen:
        why = complaint_of(runs[-1]) if runs else "nothing was run"
        if why == LOST:
            why = f"{LOST} ({spec.program.sentinel}); sentinel names another, or is none where it prints no such line"
        return _judgement(spec, Verdict.INVALID, why, None, attempts)
    for one in seen:
        if (found := _contradiction(spec, one)) is not None:
            return _judgement(spec, Verdict.FAIL, found, one, attempts)
    missing = [missing_of(spec.must, one) for one in seen]
    if missing[-1] and len(seen) < len(runs):
        return _judgement(spec, Verdict.INVALID, complaint_of(runs[-1]), seen[-1], attempts)
    if not any(missing):
        return _passed(spec, seen[-1], attempts)
    if all(missing) and not _may_be_lost(spec):
        return _judgement(spec, Verdict.FAIL, f"it does not print {missing[-1][0]!r}", seen[-1], attempts)
    if all(missing):
        reason = f"it does not print {missing[-1][0]!r}, or that was lost; sentinel: names the line that it prints last"
        return _judgement(spec, Verdict.INVALID, reason, seen[-1], attempts)
    told = sum(not one for one in missing)
    reason = f"{told} of {len(missing)} runs print what they must: the others may have lost it"
    return _judgement(spec, Verdict.INVALID, reason, seen[-1], attempts)


def missing_of(wanted: Sequence[str], seen: Observation) -> tuple[str, ...]:
    """The patterns that are found in no line of a run."""
    lines = all_lines_of(seen.stdout, seen.stderr)
    return tuple(text for text in wanted if not any(re.search(text, line) for line in lines))


def _passed(spec: Spec, seen: Observation, attempts: tuple[Attempt, ...]) -> Judgement:
    if spec.must_not and _may_be_lost(spec):
        reason = "what it must not print may have been lost; sentinel: names the line that it prints last"
        return _judgement(spec, Verdict.INVALID, reason, seen, attempts)
    return _judgement(spec, Verdict.PASS, f"exit code {seen.code}, and what it must print", seen, attempts)


def _contradiction(spec: Spec, seen: Observation) -> str | None:
    """What a run shows that must not be; None where nothing is."""
    if seen.code != spec.exit:
        fault = _fault(spec, seen) or Fault(by_build=True, reason="it exited with 0")
        told = cause_of_crash(seen) if crashed(seen.code) else fault.reason
        return f"exit code {seen.code}, not {spec.exit}: {told}"
    lines = all_lines_of(seen.stdout, seen.stderr)
    for text in spec.must_not:
        if (line := next((line for line in lines if re.search(text, line)), None)) is not None:
            return f"it prints what it must not ({text!r}): {line.strip()[:300]}"
    return None


def _fault(spec: Spec, seen: Observation) -> Fault | None:
    """What is wrong with how a run ended. A tool of llama.cpp may have a model's words on stdout, which may be any."""
    return fault_of(seen, pinned=spec.program.pinned, stdout=not loses_output(spec.program.name))


def _doubtful(spec: Spec, seen: Observation) -> bool:
    """Whether another run may tell more: all is well but for a line that may have been lost."""
    if spec.program.sentinel is not None or _contradiction(spec, seen) is not None:
        return False
    return bool(missing_of(spec.must, seen))


def _may_be_lost(spec: Spec) -> bool:
    return spec.program.sentinel is None and loses_output(spec.program.name)


def _judgement(
    spec: Spec, verdict: Verdict, reason: str, seen: Observation | None, attempts: tuple[Attempt, ...]
) -> Judgement:
    missing = missing_of(spec.must, seen) if seen is not None else spec.must
    last = all_lines_of(seen.stdout, seen.stderr)[-20:] if seen is not None else []
    return Judgement(
        verdict=verdict,
        reason=reason,
        actual=f"exit {seen.code}" + (f", without {', '.join(missing)}" if missing else "") if seen is not None else "",
        expected=f"exit {spec.exit}, with {', '.join(spec.must)}"
        + (f", without {', '.join(spec.must_not)}" if spec.must_not else ""),
        details={"program": spec.program.name, "missing": list(missing), "last_lines": [line[:300] for line in last]},
        attempts=attempts,
    )
