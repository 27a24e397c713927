"""Gate kind `routes`: count traces with a switch on and off, and compare the counts with expectations.

The gate shows that a switch changes the route of calls. `engaged` does not prove this. It checks only that the mark
appears with the switch on, and is missing with the switch off. A call in a warm-up may leave the mark although no later
call takes the route. The expectations are written as for `patchstack trace read --expect`. The gate is INVALID if
records were lost because of a trace's limit, or if records contradict their summary. To run a different program, use
`program:` and `args:` instead of `model:` and `prompt:`.

    - name: grouped
      kind: routes
      model: q36-35b
      prompt: The capital of France is  # runs llama-completion, or llama-server with server: true
      env: {LLAMA_MOE_MMID_ROUTE_TRACE: 1000000}
      on: {GROUPED_MMQ: 1}
      expect: ['route=mmq type=nvfp4 >= 1000', 'route=host_sync == 0']
      expect_off: ['route=mmq == 0']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchstack.errors import UsageError
from patchstack.gates.judgement import Judgement
from patchstack.gates.kind import Kind
from patchstack.gates.kinds.engaged import OFF, ON, SWITCHED, switched
from patchstack.llama.asking import with_requests
from patchstack.llama.completions import Question, incomplete, server_fault
from patchstack.llama.program import Program
from patchstack.llama.traces.contradictions import findings
from patchstack.llama.traces.expectations import Answer, Expectation, answer, read_expectation
from patchstack.llama.traces.reader import Reader
from patchstack.observe.declared import Models, Setting, Values
from patchstack.observe.exit_status import complaint_of, fault_of
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Observed
from patchstack.observe.settings import Environment, merged
from patchstack.verdict import Verdict
from patchstack.workspace.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutesSettings:
    """The settings of the gate.

    `on` and `off` are the additional environment variables of the two runs. The program's `env` enables the traces in
    both runs. `expect` must hold with the switch on. `expect_off` must hold with the switch off. If `expect_off` is
    empty, at least one expectation of `expect` must not hold with the switch off. `questions` are the requests, if the
    program is a server.
    """

    program: Program
    on: Environment
    expect: tuple[Expectation, ...]
    expect_off: tuple[Expectation, ...] = ()
    off: Environment = ()
    questions: tuple[Question, ...] = ()


@dataclass(frozen=True, slots=True)
class Expectations:
    """The form of a setting that contains expectations, written as for `patchstack trace read --expect`."""

    written: str = "a list of expectations"
    option: Any = list[str]

    def read(self, node: Node, name: str, models: Models) -> tuple[Expectation, ...] | None:
        found = []
        for text in node.texts(name) or ():
            try:
                found.append(read_expectation(text))
            except UsageError as error:
                node.complain(name, error.message)
        return tuple(found)

    def convert(self, given: Sequence[str], name: str, models: Models) -> tuple[Expectation, ...]:
        return tuple(read_expectation(text) for text in given)


EXPECT = Setting[tuple[Expectation, ...]](
    name="expect",
    form=Expectations(),
    default=(),
    option_required=True,
    metavar="TEXT",
    help="An expectation for the traces with the switch on, as in 'trace read'.",
)
EXPECT_OFF = Setting[tuple[Expectation, ...]](
    name="expect_off",
    form=Expectations(),
    default=(),
    metavar="TEXT",
    help="An expectation for the traces with the switch off [default: expect must not hold].",
)


def settings_of(values: Values) -> RoutesSettings:
    """Return the settings from values: a program or a prompt, the switch, and the expectations."""
    program, questions = switched(values)
    settings = RoutesSettings(
        program=program,
        questions=questions,
        on=values[ON],
        off=values[OFF],
        expect=values[EXPECT],
        expect_off=values[EXPECT_OFF],
    )
    values.complain_all(settings_problems(settings))
    return settings


def settings_problems(settings: RoutesSettings) -> list[tuple[str, str]]:
    """Return the problems in the settings, each with the key of its setting."""
    found = []
    if merged(settings.program.env, settings.on) == merged(settings.program.env, settings.off):
        found.append(("on", "on and off have the same environment, so nothing is switched"))
    if not settings.expect:
        found.append(("expect", "expect is missing; it defines what the traces must show with the switch on"))
    if settings.program.sentinel is None and not settings.questions:
        told = "give a pattern of the line that the program prints last, so that lost output is noticed"
        found.append(("sentinel", f"sentinel is missing, and {settings.program.name} has no default: {told}"))
    return found


def run(settings: RoutesSettings, runner: Observer) -> Judgement:
    """Run the program with the switch on and off, and judge both runs."""
    pinned = settings.program.pinned
    complete = incomplete(settings.questions, pinned=pinned) if settings.questions else settings.program.complete()
    requests = tuple(question.request() for question in settings.questions)
    on, off = (
        runner.observe(
            with_requests(settings.program.invocation(f"routes {name}", env), requests),
            complete=complete,
            tries=settings.program.tries,
        )
        for name, env in (("on", settings.on), ("off", settings.off))
    )
    return judgement_of_routes(settings, on, off)


def judgement_of_routes(settings: RoutesSettings, on: Observed, off: Observed) -> Judgement:
    """Return the verdict of both runs."""
    attempts = (*on.attempts, *off.attempts)
    expected = "; ".join(f"on: {one.text}" for one in settings.expect)
    expected += "".join(f"; off: {one.text}" for one in settings.expect_off) or "; off: otherwise"

    def told(verdict: Verdict, reason: str, answers: Mapping[str, Sequence[Answer]] | None = None) -> Judgement:
        shown = {} if answers is None else answers
        return Judgement(
            verdict=verdict,
            reason=reason,
            actual="; ".join(f"{name}: {one.why}" for name, several in shown.items() for one in several),
            expected=expected,
            details={
                name: [
                    {"expect": one.expectation.text, "holds": one.holds, "count": one.count, "why": one.why}
                    for one in several
                ]
                for name, several in shown.items()
            },
            attempts=attempts,
        )

    for name, run_ in (("on", on), ("off", off)):
        fault_in = server_fault if settings.questions else fault_of
        if run_.observation is None:
            return told(Verdict.INVALID, f"{name}: {complaint_of(run_)}")
        if fault := fault_in(run_.observation, pinned=settings.program.pinned):
            return told(Verdict.FAIL, f"{name}: {fault.reason}")
    assert on.observation is not None and off.observation is not None
    try:
        answers = {
            "on": _answers(settings.expect, on.observation.stderr),
            "off": _answers(settings.expect_off or settings.expect, off.observation.stderr),
        }
    except UsageError as error:
        return told(Verdict.INVALID, error.message)
    verdict, reason = _decided(answers["on"], answers["off"], otherwise=not settings.expect_off)
    return told(verdict, reason, answers)


def _answers(expectations: Sequence[Expectation], log: bytes) -> tuple[Answer, ...]:
    reader = Reader()
    reader.feed(log)
    reading = reader.reading()
    found = findings(reading)
    return tuple(answer(one, reading, found) for one in expectations)


def _decided(on: Sequence[Answer], off: Sequence[Answer], *, otherwise: bool) -> tuple[Verdict, str]:
    for name, answers in (("on", on), *(() if otherwise else (("off", off),))):
        wrong = next((one for one in answers if one.holds is False), None)
        if wrong is not None:
            return Verdict.FAIL, f"{name}: not {wrong.expectation.text}: {wrong.why}"
    if otherwise and all(one.holds for one in off):
        return Verdict.FAIL, f"off shows the same as on: the switch changes no such route: {off[0].why}"
    for name, answers in (("on", on), ("off", off)):
        unsure = next((one for one in answers if one.holds is None), None)
        if unsure is not None and not (name == "off" and otherwise and any(one.holds is False for one in answers)):
            return Verdict.INVALID, f"{name}: {unsure.expectation.text} cannot be judged: {unsure.why}"
    shown = next((one for one in off if one.holds is False), off[0]) if otherwise else off[0]
    return Verdict.PASS, f"on: {on[0].why}; off: {shown.why}"


KIND = Kind(
    name="routes",
    version=1,
    about="Count traces to check that a switch changes the route that it claims to change. Enable the traces for both "
    "runs with --env.",
    settings=(ON, EXPECT, EXPECT_OFF, OFF, *SWITCHED),
    make=settings_of,
    run=run,
    programs=lambda settings: (settings.program.name,),
)
