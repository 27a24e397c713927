"""Gate kind `routes`: a switch changes the route that it claims to change, by counts of the traces.

`engaged` sees that a switch leaves a line. Whether the calls go where they should is another matter: a route can be
taken once in a warm-up and never again. Here the traces of both runs are counted, and held against expectations as
`patchstack trace read --expect` has them. What a trace with a limit did not keep, and records that contradict their
summary, are INVALID, never a count.

    - name: grouped
      kind: routes
      model: q36-35b                # with a prompt, or server: true; or program: and args:
      prompt: The capital of France is
      env: {LLAMA_MOE_MMID_ROUTE_TRACE: 1000000}
      on: {GROUPED_MMQ: 1}
      expect: ['route=mmq type=nvfp4 >= 1000', 'route=host_sync == 0']
      expect_off: ['route=mmq == 0']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from patchstack.errors import UsageError
from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds.engaged import chosen, questions_of
from patchstack.llama.completions import Question, incomplete, server_fault
from patchstack.llama.program import Program, read_program
from patchstack.llama.prompt import read_prompting
from patchstack.llama.traces.contradictions import findings
from patchstack.llama.traces.expectations import Answer, Expectation, answer, read_expectation
from patchstack.llama.traces.reader import Reader
from patchstack.observe.exit_status import complaint_of, fault_of
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Model, Observed
from patchstack.observe.settings import Environment, environment, merged
from patchstack.verdict import Verdict
from patchstack.workspace.mapping import Mapping as Node

KIND = "routes"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The settings. `on` and `off` are what the environment has more in either run; `env` of the program switches the
    traces on in both. `expect` must hold with the switch on. `expect_off` must hold with it off; if it is empty, off
    must show otherwise than `expect` says."""

    program: Program
    on: Environment
    expect: tuple[Expectation, ...]
    expect_off: tuple[Expectation, ...] = ()
    off: Environment = ()
    questions: tuple[Question, ...] = ()


def read(node: Node, models: Mapping[str, Model]) -> Spec:
    """The settings of a suite's entry: those of a program, or of a prompt, the switch, and what is expected."""
    prompting = read_prompting(node, models) if node.text("program") is None else None
    served = prompting is not None and node.boolean("server")
    spec = Spec(
        program=read_program(node, models) if prompting is None else chosen(prompting, server=served),
        questions=questions_of(prompting) if prompting is not None and served else (),
        on=environment(node, "on"),
        off=environment(node, "off"),
        expect=_expectations(node, "expect"),
        expect_off=_expectations(node, "expect_off"),
    )
    for key, problem in spec_problems(spec):
        if key != "expect" or not node.texts("expect"):  # one that cannot be read was complained of
            node.complain(key if key in node.node else None, problem)
    node.finish()
    return spec


def _expectations(node: Node, key: str) -> tuple[Expectation, ...]:
    found = []
    for text in node.texts(key) or ():
        try:
            found.append(read_expectation(text))
        except UsageError as error:
            node.complain(key, error.message)
    return tuple(found)


def spec_problems(spec: Spec) -> list[tuple[str, str]]:
    """What is wrong with the settings: each with the key it is about."""
    found = []
    if merged(spec.program.env, spec.on) == merged(spec.program.env, spec.off):
        found.append(("on", "on and off have the same environment: nothing is switched"))
    if not spec.expect:
        found.append(("expect", "expect is missing: what the traces must show with the switch on"))
    if spec.program.sentinel is None and not spec.questions:
        told = "it must be a pattern of the line that the program prints last, or lost records look like none"
        found.append(("sentinel", f"sentinel is missing, and none is known of {spec.program.name}: {told}"))
    return found


def run(spec: Spec, runner: Observer) -> Judgement:
    """Run it with the switch on and off, and judge."""
    pinned = spec.program.pinned
    complete = incomplete(spec.questions, pinned=pinned) if spec.questions else spec.program.complete()
    requests = tuple(question.request() for question in spec.questions)
    on, off = (
        runner.observe(
            replace(spec.program.invocation(f"routes {name}", env), requests=requests),
            complete=complete,
            tries=spec.program.tries,
        )
        for name, env in (("on", spec.on), ("off", spec.off))
    )
    return judge(spec, on, off)


def judge(spec: Spec, on: Observed, off: Observed) -> Judgement:
    """The verdict of both runs."""
    attempts = (*on.attempts, *off.attempts)
    expected = "; ".join(f"on: {one.text}" for one in spec.expect)
    expected += "".join(f"; off: {one.text}" for one in spec.expect_off) or "; off: otherwise"

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
        fault_in = server_fault if spec.questions else fault_of
        if run_.observation is None:
            return told(Verdict.INVALID, f"{name}: {complaint_of(run_)}")
        if fault := fault_in(run_.observation, pinned=spec.program.pinned):
            return told(Verdict.FAIL, f"{name}: {fault.reason}")
    assert on.observation is not None and off.observation is not None
    try:
        answers = {
            "on": _answers(spec.expect, on.observation.stderr),
            "off": _answers(spec.expect_off or spec.expect, off.observation.stderr),
        }
    except UsageError as error:
        return told(Verdict.INVALID, error.message)
    verdict, reason = _decided(answers["on"], answers["off"], otherwise=not spec.expect_off)
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
