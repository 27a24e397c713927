"""Gate kind `engaged`: a program leaves a mark if a switch is on, and no mark if it is off.

Without this gate, a comparison of on and off may compare a code path with itself, because a misspelt switch changes
nothing. The mark is a line that matches a pattern (a trace, the name of a kernel) in stderr, stdout or a file of the
run's directory. Both runs must be complete, because a missing line may have been lost. To run a different program, use
`program:` and `args:` instead of `model:` and `prompt:`.

    - name: mmq-trace
      kind: engaged
      model: q36-35b
      prompt: The capital of France is  # runs llama-completion, or llama-server with server: true
      on: {LLAMA_MOE_MMQ_SHAPE_TRACE: 4}
      mark: '^\\[LLAMA_MOE_MMQ_SHAPE\\] '
      server: false
      at_least: 4
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from patchstack.gates.judgement import Judgement
from patchstack.gates.kind import Kind
from patchstack.llama.asking import with_requests
from patchstack.llama.completions import Question, incomplete, server_fault
from patchstack.llama.program import Program
from patchstack.llama.prompt import Prompting
from patchstack.llama.settings import (
    ENV,
    LOADING,
    MODEL,
    PROGRAM,
    PROMPT,
    SECONDS,
    SENTINEL,
    TOKENS,
    TRIES,
    program_of,
    prompting_of,
)
from patchstack.observe.declared import NO_MODEL, Flag, Pattern, Setting, Text, Values, Variables, Whole
from patchstack.observe.exit_status import complaint_of, fault_of
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Observation, Observed
from patchstack.observe.sentinel import all_lines_of
from patchstack.observe.settings import Environment, merged
from patchstack.verdict import Verdict

OUTPUT, FILE = "output", "file:"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_SHOWN = 3
_STAMP = re.compile(r"^[\d.]+ [IWED] ")  # prefix of llama.cpp's logger; other text may follow on the same line


@dataclass(frozen=True, slots=True, kw_only=True)
class EngagedSettings:
    """The settings of the gate.

    `on` and `off` are the additional environment variables of the two runs. `mark` is the pattern that is searched for
    in each line of `where`. `where` is `stderr`, `stdout`, `output` (both), or `file:NAME` (a file in the directory of
    the run). `at_least` is the minimum number of lines with the mark. `questions` are the requests, if the program is a
    server.
    """

    program: Program
    on: Environment
    mark: str
    off: Environment = ()
    at_least: int = 1
    where: str = OUTPUT
    questions: tuple[Question, ...] = ()

    @property
    def brings(self) -> tuple[str, ...]:
        """The files to copy from the directories of the runs."""
        return (self.where.removeprefix(FILE),) if self.where.startswith(FILE) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The number of lines with the mark in a run. `shown` contains the first of these lines."""

    count: int
    shown: tuple[str, ...]


ON = Setting[Environment](
    name="on",
    form=Variables(),
    default=(),
    option_required=True,
    metavar="K=V",
    help="A variable that turns the switch on (repeat).",
)
OFF = Setting[Environment](
    name="off",
    form=Variables(),
    default=(),
    metavar="K=V",
    help="A variable that is set when the switch is off (repeat).",
)
MARK = Setting[str](
    name="mark",
    form=Pattern(),
    default=".",
    required=True,
    metavar="REGEX",
    help="A pattern of a line that the switch leaves.",
)
AT_LEAST = Setting[int](
    name="at_least", form=Whole(1, 1 << 30), default=1, metavar="N", help="The minimum number of lines with the mark."
)
WHERE = Setting[str](
    name="where",
    form=Text(written="`stderr`, `stdout`, `output` or `file:NAME`"),
    default=OUTPUT,
    metavar="WHERE",
    help="stderr, stdout, output (both) or file:NAME.",
)
SWITCHED_MODEL = replace(MODEL, required=False)
SWITCHED_PROMPT = replace(PROMPT, required=False)
OTHER_PROGRAM = replace(PROGRAM, required=False, help="The program to run instead of llama-completion.")
SERVER = Setting[bool](name="server", form=Flag(), default=False, help="Use llama-server instead of llama-completion.")
SWITCHED = (
    SWITCHED_MODEL,
    SWITCHED_PROMPT,
    replace(TOKENS, option_default=16),
    OTHER_PROGRAM,
    SERVER,
    *LOADING,
    ENV,
    SENTINEL,
    SECONDS,
    TRIES,
)
"""The settings that `switched` reads. They define the program with which a switch is tested."""
_PROMPTED = (SWITCHED_PROMPT, SERVER, *(one for one in (TOKENS, *LOADING) if one.name != "args"))


def settings_of(values: Values) -> EngagedSettings:
    """Return the settings from values: a program or a prompt, and the switch."""
    program, questions = switched(values)
    settings = EngagedSettings(
        program=program,
        questions=questions,
        on=values[ON],
        off=values[OFF],
        mark=values[MARK],
        at_least=values[AT_LEAST],
        where=values[WHERE],
    )
    values.complain_all(settings_problems(settings))
    return settings


def switched(values: Values) -> tuple[Program, tuple[Question, ...]]:
    """Return the program with which a switch is tested, and the requests if the program is a server.

    The program either has its own arguments, or is a llama.cpp program with a prompt. Problems are reported on
    `values`.
    """
    if values.chosen(OTHER_PROGRAM):
        program, args = (values.written(name).rstrip(":") for name in ("program", "args"))
        why = f"not allowed with {program}; use {args}"
        values.unused(_PROMPTED, why)
        for one in (SWITCHED_PROMPT, SERVER) if values.node is None else ():
            if values.chosen(one):
                values.complain(one.name, why)
        return program_of(values), ()
    either = f"{values.written('model')} and {values.written('prompt')}, or {values.written('program')}"
    if values[SWITCHED_MODEL] == NO_MODEL:
        values.missing(SWITCHED_MODEL, f"model is missing: {either}")
    if not values.chosen(SWITCHED_PROMPT):
        values.missing(SWITCHED_PROMPT, f"prompt is missing: {either}")
    served = values[SERVER]
    prompting = prompting_of(values)
    return chosen(prompting, server=served), questions_of(prompting) if served else ()


def chosen(prompting: Prompting, *, server: bool) -> Program:
    """Return the program that receives the prompt."""
    return prompting.server(1) if server else prompting.completion()


def questions_of(prompting: Prompting) -> tuple[Question, ...]:
    """Return the requests to a server: the same prompt, several times."""
    one = Question(prompt=prompting.prompt, tokens=prompting.tokens, seed=prompting.seed, probabilities=0)
    return (one, one)


def settings_problems(settings: EngagedSettings) -> list[tuple[str, str]]:
    """Return the problems in the settings, each with the key of its setting."""
    found = []
    if merged(settings.program.env, settings.on) == merged(settings.program.env, settings.off):
        found.append(("on", "on and off have the same environment, so nothing is switched"))
    if settings.program.sentinel is None and not settings.questions:
        told = "give a pattern of the line that the program prints last, so that lost output is noticed"
        found.append(("sentinel", f"sentinel is missing, and {settings.program.name} has no default: {told}"))
    if settings.where not in (OUTPUT, "stderr", "stdout") and not (settings.brings and _NAME.match(settings.brings[0])):
        found.append(("where", f"{settings.where!r} is not one of stderr, stdout, output and file:NAME"))
    return found


def run(settings: EngagedSettings, runner: Observer) -> Judgement:
    """Run the program with the switch on and off, and judge both runs."""
    pinned = settings.program.pinned
    complete = incomplete(settings.questions, pinned=pinned) if settings.questions else settings.program.complete()
    requests = tuple(question.request() for question in settings.questions)
    on, off = (
        runner.observe(
            with_requests(settings.program.invocation(f"engaged {name}", env, brings=settings.brings), requests),
            complete=complete,
            tries=settings.program.tries,
        )
        for name, env in (("on", settings.on), ("off", settings.off))
    )
    return judgement_of_marks(settings, on, off)


def judgement_of_marks(settings: EngagedSettings, on: Observed, off: Observed) -> Judgement:
    """Return the verdict of both runs."""
    attempts = (*on.attempts, *off.attempts)
    expected = f"on: {settings.at_least} or more; off: 0"
    for name, run_ in (("on", on), ("off", off)):
        seen = run_.observation
        fault_in = server_fault if settings.questions else fault_of
        if seen is not None and (fault := fault_in(seen, pinned=settings.program.pinned)):
            return Judgement(
                verdict=Verdict.FAIL, reason=f"{name}: {fault.reason}", expected=expected, attempts=attempts
            )
    marks = [marks_of(settings, one.observation) if one.observation is not None else None for one in (on, off)]
    with_switch, without = marks
    verdict, reason = _decided(settings, with_switch, without, on, off)
    told = [f"{name}: {one.count}" for name, one in zip(("on", "off"), marks, strict=True) if one is not None]
    return Judgement(
        verdict=verdict,
        reason=reason,
        actual="; ".join(told),
        expected=expected,
        details={
            "mark": settings.mark,
            "on": {"env": dict(settings.on), "lines": with_switch.count, "shown": list(with_switch.shown)}
            if with_switch is not None
            else None,
            "off": {"env": dict(settings.off), "lines": without.count, "shown": list(without.shown)}
            if without is not None
            else None,
        },
        attempts=attempts,
    )


def marks_of(settings: EngagedSettings, seen: Observation) -> Marks:
    """Return the number of lines with the mark in a run, and the first of these lines."""
    if settings.brings:
        streams = [seen.files.get(settings.brings[0], b"")]
    else:
        streams = [
            stream
            for name, stream in (("stderr", seen.stderr), ("stdout", seen.stdout))
            if settings.where in (OUTPUT, name)
        ]
    search = re.compile(settings.mark).search
    lines = all_lines_of(*streams)
    found = [line for line in lines if search(line) or search(_STAMP.sub("", line))]
    return Marks(count=len(found), shown=tuple(line[:300] for line in found[:_SHOWN]))


def _decided(
    settings: EngagedSettings, with_switch: Marks | None, without: Marks | None, on: Observed, off: Observed
) -> tuple[Verdict, str]:
    # A mark is evidence even if the other run failed.
    if without is not None and without.count:
        return Verdict.FAIL, f"off leaves the mark too, {without.count} times: {without.shown[0]}"
    if with_switch is not None and with_switch.count < settings.at_least:
        if not with_switch.count:
            return Verdict.FAIL, "on leaves no mark: the switch does nothing here"
        return Verdict.FAIL, f"on leaves the mark {with_switch.count} times, not {settings.at_least}"
    if with_switch is None:
        return Verdict.INVALID, f"on: {complaint_of(on)}"
    if without is None:
        return Verdict.INVALID, f"off: {complaint_of(off)}"
    return Verdict.PASS, f"on leaves the mark {with_switch.count} times, off never: {with_switch.shown[0]}"


KIND = Kind(
    name="engaged",
    version=1,
    about="Check that a switch leaves its mark when it is on, and none when it is off.",
    settings=(ON, MARK, OFF, AT_LEAST, WHERE, *SWITCHED),
    make=settings_of,
    run=run,
    programs=lambda settings: (settings.program.name,),
)
