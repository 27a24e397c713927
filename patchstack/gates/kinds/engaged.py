"""Gate kind `engaged`: a switch that is on leaves its mark, and one that is off leaves none.

Without it, on against off may compare a path with itself: a switch with a misspelt name changes nothing, and nothing is
what is found. The mark is a line that matches a pattern (a trace, the name of a kernel) in stderr, stdout or a file of
the run's directory. Both runs must be complete: a line that is not there may have been lost.

    - name: mmq-trace
      kind: engaged
      model: q36-35b               # with a prompt: llama-completion, or llama-server; or program: and args:
      prompt: The capital of France is
      on: {LLAMA_MOE_MMQ_SHAPE_TRACE: 4}
      mark: '^\\[LLAMA_MOE_MMQ_SHAPE\\] '
      server: false
      at_least: 4
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from patchstack.gates.judgement import Judgement
from patchstack.llama.completions import Question, incomplete, server_fault
from patchstack.llama.program import Program, read_program
from patchstack.llama.prompt import Prompting, read_prompting
from patchstack.observe.exit_status import complaint_of, fault_of
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Model, Observation, Observed
from patchstack.observe.sentinel import all_lines_of
from patchstack.observe.settings import Environment, bounded, environment, merged, pattern
from patchstack.verdict import Verdict
from patchstack.workspace.mapping import Mapping as Node

KIND = "engaged"
VERSION = 1

OUTPUT, FILE = "output", "file:"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_SHOWN = 3
_STAMP = re.compile(r"^[\d.]+ [IWED] ")  # of llama.cpp's logger; a thread that writes past it may get behind one too


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The settings. `on` and `off` are what the environment has more in either run. `mark` is searched for in each line
    of `where`: `stderr`, `stdout`, `output` (both), or `file:NAME`, a file of the run's directory. `at_least` is how
    many lines the switch leaves."""

    program: Program
    on: Environment
    mark: str
    off: Environment = ()
    at_least: int = 1
    where: str = OUTPUT
    questions: tuple[Question, ...] = ()

    @property
    def brings(self) -> tuple[str, ...]:
        """The files the runs bring back."""
        return (self.where.removeprefix(FILE),) if self.where.startswith(FILE) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """How many lines a run has with the mark, and the first of them."""

    count: int
    shown: tuple[str, ...]


def read(node: Node, models: Mapping[str, Model]) -> Spec:
    """The settings of a suite's entry: those of a program, or of a prompt, and the switch."""
    prompting = read_prompting(node, models) if node.text("program") is None else None
    served = prompting is not None and node.boolean("server")
    spec = Spec(
        program=read_program(node, models) if prompting is None else chosen(prompting, server=served),
        questions=questions_of(prompting) if prompting is not None and served else (),
        on=environment(node, "on"),
        off=environment(node, "off"),
        mark=pattern(node, "mark", required=True) or ".",
        at_least=bounded(node, "at_least", default=1, least=1, most=1 << 30),
        where=node.text("where") or OUTPUT,
    )
    for key, problem in spec_problems(spec):
        node.complain(key if key in node.node else None, problem)
    node.finish()
    return spec


def chosen(prompting: Prompting, *, server: bool) -> Program:
    """The program that a prompt is given to."""
    return prompting.server(1) if server else prompting.completion()


def questions_of(prompting: Prompting) -> tuple[Question, ...]:
    """What a server is asked: the prompt, once and again."""
    one = Question(prompt=prompting.prompt, tokens=prompting.tokens, seed=prompting.seed, probabilities=0)
    return (one, one)


def spec_problems(spec: Spec) -> list[tuple[str, str]]:
    """What is wrong with the settings: each with the key it is about."""
    found = []
    if merged(spec.program.env, spec.on) == merged(spec.program.env, spec.off):
        found.append(("on", "on and off have the same environment: nothing is switched"))
    if spec.program.sentinel is None and not spec.questions:
        told = "it must be a pattern of the line that the program prints last, or a lost mark looks like none"
        found.append(("sentinel", f"sentinel is missing, and none is known of {spec.program.name}: {told}"))
    if spec.where not in (OUTPUT, "stderr", "stdout") and not (spec.brings and _NAME.match(spec.brings[0])):
        found.append(("where", f"{spec.where!r} is none of stderr, stdout, output and file:NAME"))
    return found


def run(spec: Spec, runner: Observer) -> Judgement:
    """Run it with the switch on and off, and judge."""
    pinned = spec.program.pinned
    complete = incomplete(spec.questions, pinned=pinned) if spec.questions else spec.program.complete()
    requests = tuple(question.request() for question in spec.questions)
    on, off = (
        runner.observe(
            replace(spec.program.invocation(f"engaged {name}", env, brings=spec.brings), requests=requests),
            complete=complete,
            tries=spec.program.tries,
        )
        for name, env in (("on", spec.on), ("off", spec.off))
    )
    return judge(spec, on, off)


def judge(spec: Spec, on: Observed, off: Observed) -> Judgement:
    """The verdict of both runs."""
    attempts = (*on.attempts, *off.attempts)
    expected = f"on: {spec.at_least} or more; off: 0"
    for name, run_ in (("on", on), ("off", off)):
        seen = run_.observation
        fault_in = server_fault if spec.questions else fault_of
        if seen is not None and (fault := fault_in(seen, pinned=spec.program.pinned)):
            return Judgement(
                verdict=Verdict.FAIL, reason=f"{name}: {fault.reason}", expected=expected, attempts=attempts
            )
    marks = [marks_of(spec, one.observation) if one.observation is not None else None for one in (on, off)]
    with_switch, without = marks
    verdict, reason = _decided(spec, with_switch, without, on, off)
    told = [f"{name}: {one.count}" for name, one in zip(("on", "off"), marks, strict=True) if one is not None]
    return Judgement(
        verdict=verdict,
        reason=reason,
        actual="; ".join(told),
        expected=expected,
        details={
            "mark": spec.mark,
            "on": {"env": dict(spec.on), "lines": with_switch.count, "shown": list(with_switch.shown)}
            if with_switch is not None
            else None,
            "off": {"env": dict(spec.off), "lines": without.count, "shown": list(without.shown)}
            if without is not None
            else None,
        },
        attempts=attempts,
    )


def marks_of(spec: Spec, seen: Observation) -> Marks:
    """The lines of a run that have the mark."""
    if spec.brings:
        streams = [seen.files.get(spec.brings[0], b"")]
    else:
        streams = [
            stream
            for name, stream in (("stderr", seen.stderr), ("stdout", seen.stdout))
            if spec.where in (OUTPUT, name)
        ]
    search = re.compile(spec.mark).search
    lines = all_lines_of(*streams)
    found = [line for line in lines if search(line) or search(_STAMP.sub("", line))]
    return Marks(count=len(found), shown=tuple(line[:300] for line in found[:_SHOWN]))


def _decided(
    spec: Spec, with_switch: Marks | None, without: Marks | None, on: Observed, off: Observed
) -> tuple[Verdict, str]:
    # What is seen is seen, whatever became of the other run.
    if without is not None and without.count:
        return Verdict.FAIL, f"off leaves the mark too, {without.count} times: {without.shown[0]}"
    if with_switch is not None and with_switch.count < spec.at_least:
        if not with_switch.count:
            return Verdict.FAIL, "on leaves no mark: the switch does nothing here"
        return Verdict.FAIL, f"on leaves the mark {with_switch.count} times, not {spec.at_least}"
    if with_switch is None:
        return Verdict.INVALID, f"on: {complaint_of(on)}"
    if without is None:
        return Verdict.INVALID, f"off: {complaint_of(off)}"
    return Verdict.PASS, f"on leaves the mark {with_switch.count} times, off never: {with_switch.shown[0]}"
