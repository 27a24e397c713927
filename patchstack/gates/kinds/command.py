"""Gate kind `command`: run any program of the build, and check its exit code and its output.

    - name: recurrent-rollback
      kind: command
      program: test-recurrent-state-rollback
      args: [-m, "{model:q36-35b}"]
      must: recurrent rollback checkpoint restored successfully
      must_not: [NaN, "fallback"]

An exit code alone is not a check, because a program that skipped everything also exits with 0. So the gate also
requires a line that the program must print. A missing line may have been lost (see `observe.sentinel`). If the line is
missing and the program has no sentinel, the program is run up to three times. The gate can fail because of the line
only if it is missing in every run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from patchstack.gates.judgement import Judgement
from patchstack.gates.kind import Kind
from patchstack.llama.program import Program, loses_output
from patchstack.llama.settings import ARGS, ENV, ITS_MODEL, PROGRAM, SECONDS, SENTINEL, TRIES, program_of
from patchstack.observe.declared import Patterns, Setting, Values, Whole
from patchstack.observe.exit_status import Fault, cause_of_crash, complaint_of, crashed, fault_of
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Attempt, Complete, Observation, Observed
from patchstack.observe.sentinel import LOST, all_lines_of
from patchstack.verdict import Verdict

_REPEATS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """The settings of the gate.

    `exit` is the expected exit code. If a signal kills the program, the exit code is 128 plus the signal's number. Each
    pattern of `must` must match a line of stdout or stderr. No pattern of `must_not` may match a line.
    """

    program: Program
    must: tuple[str, ...]
    must_not: tuple[str, ...] = ()
    exit: int = 0


MUST = Setting[tuple[str, ...]](
    name="must",
    form=Patterns(),
    default=(),
    option_required=True,
    metavar="REGEX",
    help="A pattern that a line of the output must match (repeat).",
)
MUST_NOT = Setting[tuple[str, ...]](
    name="must_not",
    form=Patterns(),
    default=(),
    metavar="REGEX",
    help="A pattern that no line of the output may match (repeat).",
)
EXIT = Setting[int](name="exit", form=Whole(0, 255), default=0, metavar="N", help="The expected exit code.")


def settings_of(values: Values) -> CommandSettings:
    """Return the settings from values."""
    settings = CommandSettings(
        program=program_of(values), must=values[MUST], must_not=values[MUST_NOT], exit=values[EXIT]
    )
    values.complain_all(settings_problems(settings))
    return settings


def settings_problems(settings: CommandSettings) -> list[tuple[str, str]]:
    """Return the problems in the settings, each with the key of its setting."""
    found = []
    if not settings.must:
        found.append(
            ("must", "must is missing or empty: a program that did nothing has an exit code too; what must it print?")
        )
    if anything := [text for text in settings.must if re.search(text, "") is not None]:
        found.append(("must", f"{anything[0]!r} matches every line, even an empty one, so the gate could not fail"))
    if both := [text for text in settings.must if text in settings.must_not]:
        found.append(("must_not", f"{both[0]!r} is in both must and must_not"))
    return found


def run(settings: CommandSettings, runner: Observer) -> Judgement:
    """Run the program, repeat the run if a line may have been lost, and judge the runs."""
    runs: list[Observed] = []
    for number in range(1, _REPEATS + 1):
        salt = f"run {number}" if number > 1 else ""
        seen = runner.observe(
            settings.program.invocation(settings.program.name),
            complete=complete(settings),
            tries=settings.program.tries,
            salt=salt,
        )
        runs.append(seen)
        if seen.observation is None or not _doubtful(settings, seen.observation):
            break
    return judgement_of_runs(settings, runs)


def complete(settings: CommandSettings) -> Complete:
    """Return a function that checks whether a run can be judged."""

    def complaint(seen: Observation) -> str | None:
        if seen.code != settings.exit:
            fault = _fault(settings, seen)
            if fault is None or fault.by_build:
                return None
            # A program that loses no output may exit with 1 without a message. Such a run can be judged: it fails.
            return None if fault.unexplained and not loses_output(settings.program.name) else fault.reason
        if not seen.stdout.strip() and not seen.stderr.strip():
            return "it printed nothing"
        return settings.program.lost(seen)

    return complaint


def judgement_of_runs(settings: CommandSettings, runs: Sequence[Observed]) -> Judgement:
    """Return the verdict of the runs. There are several runs only if a required line was missing."""
    attempts = tuple(attempt for one in runs for attempt in one.attempts)
    seen = [one.observation for one in runs if one.observation is not None]
    if not settings.must:
        return _judgement(settings, Verdict.INVALID, settings_problems(settings)[0][1], None, attempts)
    if not seen:
        why = complaint_of(runs[-1]) if runs else "nothing was run"
        if why == LOST:
            why = f"{LOST} ({settings.program.sentinel}); sentinel: names it, or is none if it prints no such line"
        return _judgement(settings, Verdict.INVALID, why, None, attempts)
    for one in seen:
        if (found := _contradiction(settings, one)) is not None:
            return _judgement(settings, Verdict.FAIL, found, one, attempts)
    missing = [missing_of(settings.must, one) for one in seen]
    if missing[-1] and len(seen) < len(runs):
        return _judgement(settings, Verdict.INVALID, complaint_of(runs[-1]), seen[-1], attempts)
    if not any(missing):
        return _passed(settings, seen[-1], attempts)
    if all(missing) and not _may_be_lost(settings):
        return _judgement(settings, Verdict.FAIL, f"it does not print {missing[-1][0]!r}", seen[-1], attempts)
    if all(missing):
        reason = f"it does not print {missing[-1][0]!r}, or that was lost; sentinel: names the line that it prints last"
        return _judgement(settings, Verdict.INVALID, reason, seen[-1], attempts)
    told = sum(not one for one in missing)
    reason = f"{told} of {len(missing)} runs print the required lines: the others may have lost them"
    return _judgement(settings, Verdict.INVALID, reason, seen[-1], attempts)


def missing_of(wanted: Sequence[str], seen: Observation) -> tuple[str, ...]:
    """Return the patterns that match no line of a run's output."""
    lines = all_lines_of(seen.stdout, seen.stderr)
    return tuple(text for text in wanted if not any(re.search(text, line) for line in lines))


def _passed(settings: CommandSettings, seen: Observation, attempts: tuple[Attempt, ...]) -> Judgement:
    if settings.must_not and _may_be_lost(settings):
        reason = "what it must not print may have been lost; sentinel: names the line that it prints last"
        return _judgement(settings, Verdict.INVALID, reason, seen, attempts)
    return _judgement(settings, Verdict.PASS, f"exit code {seen.code}, and what it must print", seen, attempts)


def _contradiction(settings: CommandSettings, seen: Observation) -> str | None:
    """Return how a run contradicts the settings: by a wrong exit code, or by a line that is not allowed.

    Return None if the run does not contradict them.
    """
    if seen.code != settings.exit:
        fault = _fault(settings, seen) or Fault(by_build=True, reason="it exited with 0")
        told = cause_of_crash(seen) if crashed(seen.code) else fault.reason
        return f"exit code {seen.code}, not {settings.exit}: {told}"
    lines = all_lines_of(seen.stdout, seen.stderr)
    for text in settings.must_not:
        if (line := next((line for line in lines if re.search(text, line)), None)) is not None:
            return f"it prints what it must not ({text!r}): {line.strip()[:300]}"
    return None


def _fault(settings: CommandSettings, seen: Observation) -> Fault | None:
    """Return the fault of a failed run.

    The stdout of a llama.cpp tool is not searched, because it may be text that a model generated.
    """
    return fault_of(seen, pinned=settings.program.pinned, stdout=not loses_output(settings.program.name))


def _doubtful(settings: CommandSettings, seen: Observation) -> bool:
    """Return whether the program must be run again, because the only problem is a line that may have been lost."""
    if settings.program.sentinel is not None or _contradiction(settings, seen) is not None:
        return False
    return bool(missing_of(settings.must, seen))


def _may_be_lost(settings: CommandSettings) -> bool:
    return settings.program.sentinel is None and loses_output(settings.program.name)


def _judgement(
    settings: CommandSettings, verdict: Verdict, reason: str, seen: Observation | None, attempts: tuple[Attempt, ...]
) -> Judgement:
    missing = missing_of(settings.must, seen) if seen is not None else settings.must
    last = all_lines_of(seen.stdout, seen.stderr)[-20:] if seen is not None else []
    return Judgement(
        verdict=verdict,
        reason=reason,
        actual=f"exit {seen.code}" + (f", without {', '.join(missing)}" if missing else "") if seen is not None else "",
        expected=f"exit {settings.exit}, with {', '.join(settings.must)}"
        + (f", without {', '.join(settings.must_not)}" if settings.must_not else ""),
        details={
            "program": settings.program.name,
            "missing": list(missing),
            "last_lines": [line[:300] for line in last],
        },
        attempts=attempts,
    )


KIND = Kind(
    name="command",
    version=1,
    about="Run a program of the build, and check its exit code and its output.",
    settings=(PROGRAM, MUST, MUST_NOT, EXIT, ARGS, ITS_MODEL, ENV, SENTINEL, SECONDS, TRIES),
    make=settings_of,
    run=run,
    programs=lambda settings: (settings.program.name,),
)
