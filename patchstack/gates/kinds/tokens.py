"""Gate kind `tokens`: a greedy continuation by `llama-server`, compared token id by token id.

A digest of text says that something differs; ids say where, and how close a call it was. One slot, one request at a
time, nothing taken from a cache: concurrent greedy requests need not match solo ones. A reference is a list of ids, in
a file beside the workspace file, or only its digest; states are those of `completion`, and so is `kl`.

    - name: moe-tokens
      kind: tokens
      model: q36-35b
      prompt: The capital of France is
      tokens: 48
      states:
        paged: {env: {LLAMA_KV_PAGED: 1}, expect_file: references/moe-paged.json}
        graphs: {env: {LLAMA_KV_PAGED: 1, LLAMA_MOE_FORCE_GRAPHS: 1}, same_as: paged}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from patchstack.gates.judgement import Judgement, near_or_not, verdict_of, worst
from patchstack.gates.reference.model_unchanged import (
    Changed,
    Measure,
    as_environment,
    gathered,
    read_measure,
    with_evidence,
)
from patchstack.gates.reference.tokens import Reference, read_reference
from patchstack.llama.ask_server import ServerAnswers, arguments_taken, ask_servers
from patchstack.llama.completions import Divergence, Generated, Question, first_difference
from patchstack.llama.prompt import Prompting, read_prompting
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Json, Model
from patchstack.observe.settings import Environment, bounded, environment
from patchstack.verdict import Verdict
from patchstack.workspace.mapping import Mapping as Node

KIND = "tokens"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One environment, with the ids it must give, or the state whose ids it must give, or both. `file` is where the
    reference's ids are kept, as it is written. The only state of a gate without states has no name."""

    name: str = ""
    env: Environment = ()
    reference: Reference | None = None
    file: str | None = None
    same_as: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """`repeats` is how often one server is asked the same, `runs` how many servers are asked. `probabilities` is how
    many candidates the server names for each token. A difference where the two tokens are no further apart than
    `margin` in probability is INVALID instead of FAIL; never PASS. `measure` is how the model is measured where ids
    changed."""

    prompting: Prompting
    states: tuple[State, ...] = (State(),)
    repeats: int = 2
    runs: int = 1
    probabilities: int = 8
    margin: float = 0.0
    measure: Measure | None = None

    @property
    def questions(self) -> tuple[Question, ...]:
        asked = self.prompting
        one = Question(prompt=asked.prompt, tokens=asked.tokens, seed=asked.seed, probabilities=self.probabilities)
        return (one,) * self.repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one state comes to. `steady`: all its answers were one and the same, so that it can be a reference."""

    state: State
    verdict: Verdict
    reason: str
    steady: bool = False
    answer: Generated | None = None
    expected: str = ""
    divergence: Divergence | None = None

    @property
    def actual(self) -> str:
        return told(self.answer.digest, len(self.answer.ids)) if self.answer is not None else ""

    def document(self) -> dict[str, Json]:
        """Of answers that are not steady, no ids are told: they are nothing to compare with."""
        answer = self.answer if self.steady else None
        reference = self.state.reference
        return {
            "name": self.state.name,
            "verdict": str(self.verdict),
            "reason": self.reason,
            "ids": list(answer.ids) if answer is not None else None,
            "sha256": answer.digest if answer is not None else None,
            "text": answer.content if answer is not None else None,
            "expected": reference.sha256 if reference is not None else None,
            "expect_file": self.state.file,
            "same_as": self.state.same_as,
            "divergence": self.divergence.document() if self.divergence is not None else None,
        }


# Settings


def read(node: Node, models: Mapping[str, Model]) -> Spec:
    """The settings of a suite's entry: those of a `Prompting`, `states` (or `expect`, `expect_file` for the only one),
    `repeats`, `runs`, `probabilities`, `margin`, `kl`."""
    prompting = read_prompting(node, models)
    alone = _read_expected(State(), node)
    named = node.mapping("states")
    states = tuple(_read_state(name, one) for name, one in named.children()) if named is not None else (alone,)
    if named is not None and alone.reference is not None:
        node.complain("states", "each state has its own expect and expect_file; the gate has none")
    spec = Spec(
        prompting=prompting,
        states=states,
        repeats=bounded(node, "repeats", default=2, least=1, most=16),
        runs=bounded(node, "runs", default=1, least=1, most=100),
        probabilities=bounded(node, "probabilities", default=8, least=2, most=100),
        margin=read_margin(node),
        measure=read_measure(node, models, prompting),
    )
    for key, problem in spec_problems(spec):
        node.complain(key if key in node.node else None, problem)
    node.finish()
    return spec


def read_margin(node: Node) -> float:
    """`margin`: a difference in probability, from 0 up to 1."""
    node.used.append("margin")
    value = node.node.get("margin", 0.0)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1:
        return float(value)
    node.complain("margin", f"{str(value)[:40]!r} is no difference in probability: from 0 up to 1")
    return 0.0


def spec_problems(spec: Spec) -> list[tuple[str, str]]:
    """What is wrong with the settings, each with the key it is about."""
    found = [("args", f"{text} is the gate's own") for text in arguments_taken(spec.prompting.args)]
    if not spec.states:
        found.append(("states", "there is no state: nothing would be checked"))
    by_name = {state.name: state for state in spec.states}
    for state in spec.states:
        count = len(state.reference.ids or ()) if state.reference is not None else 0
        if count > spec.prompting.tokens:
            found.append(("tokens", f"{spec.prompting.tokens} are asked for, and the reference has {count}"))
        if state.same_as is None:
            continue
        if state.same_as == state.name or state.same_as not in by_name:
            found.append(("states", f"{state.name}: there is no other state {state.same_as!r}"))
        elif by_name[state.same_as].env == state.env:
            found.append(("states", f"{state.name} and {state.same_as} have the same environment: they would be one"))
    return found


def _read_state(name: str, node: Node) -> State:
    state = _read_expected(State(name=name, env=environment(node), same_as=node.text("same_as")), node)
    node.finish()
    return state


def _read_expected(state: State, node: Node) -> State:
    file = node.node.get("expect_file")
    return replace(state, reference=read_reference(node), file=file if isinstance(file, str) else None)


# Running


def run(spec: Spec, runner: Observer) -> Judgement:
    """Ask in every state, and compare. Where something differs, servers are started afresh to see whether each of them
    says the same."""
    asked = _ask_all(spec, runner, spec.runs)
    findings = judge(spec, asked)
    if spec.runs == 1 and any(one.verdict is Verdict.FAIL and one.answer is not None for one in findings):
        asked = _ask_all(spec, runner, 2)
        findings = judge(spec, asked)
    judgement = _judgement(findings, asked)
    if spec.measure is None:
        return judgement
    return with_evidence(judgement, gathered(spec.measure, _changed(spec, findings, asked), runner))


def _changed(spec: Spec, findings: Sequence[Finding], asked: Mapping[str, ServerAnswers]) -> list[Changed]:
    """The states whose ids are others, each with what it was held against."""
    own = spec.prompting.env
    envs = {state.name: as_environment(own, state.env) for state in spec.states}
    found = []
    for one in findings:
        state, digest = one.state, one.answer.digest if one.answer is not None and one.steady else None
        if digest is None:
            continue
        if state.reference is not None and state.reference.sha256 != digest:
            found.append(Changed(state=state.name, env=envs[state.name], gives=partial(gives, spec, state)))
        elif state.same_as is not None and (theirs := asked[state.same_as].answers) and theirs[0][0].digest != digest:
            other = envs[state.same_as]
            found.append(Changed(state=state.name, env=envs[state.name], other=state.same_as, other_env=other))
    return found


def gives(spec: Spec, state: State, runner: Observer) -> str | None:
    """Why a build is not the one that a state's reference is of; None where it gives those ids."""
    if state.reference is None:
        return None
    asked = ask_servers(
        spec.prompting.server(1), spec.questions, runner, env=state.env, what=f"{state.name} server".strip()
    )
    if not asked.answers:
        return asked.reason
    actual = asked.answers[0][0].digest
    return None if actual == state.reference.sha256 else f"it does not give the reference's ids either, but {actual}"


def _ask_all(spec: Spec, runner: Observer, runs: int) -> dict[str, ServerAnswers]:
    program = spec.prompting.server(1)
    found: dict[str, ServerAnswers] = {}
    for state in spec.states:
        what = f"{state.name}, server" if state.name else "server"
        found[state.name] = ask_servers(program, spec.questions, runner, runs=runs, env=state.env, what=what)
    return found


# Judging


def judge(spec: Spec, asked: Mapping[str, ServerAnswers]) -> tuple[Finding, ...]:
    """What each state comes to, from what was asked in it and in the state it must be like."""
    followed = {state.same_as for state in spec.states}
    return tuple(judge_state(state, asked, spec.margin, state.name in followed) for state in spec.states)


def judge_state(state: State, asked: Mapping[str, ServerAnswers], margin: float, followed: bool = False) -> Finding:
    """PASS needs a reference or another state, and ids equal to the end with it, and all answers equal. A state without
    either holds where it is `followed`: another state is compared with it, and has the verdict."""
    own = asked[state.name]
    if not own.answers:
        return Finding(state=state, verdict=verdict_of(own), reason=own.reason)
    answer = own.answers[0][0]

    if (where := own.unsteady()) is not None:
        return Finding(
            state=state,
            verdict=Verdict.INVALID,
            reason=f"servers started afresh do not agree: {where.words}",
            answer=answer,
            divergence=where,
        )
    for again in own.answers[0][1:]:
        if (where := first_difference(again, answer.ids, answer)) is not None:
            reason = f"the same server, asked again, answers otherwise: {where.words}"
            verdict, reason = near_or_not(where, margin, reason)
            return Finding(state=state, verdict=verdict, reason=reason, answer=answer, divergence=where)

    def finding(verdict: Verdict, reason: str, expected: str = "", where: Divergence | None = None) -> Finding:
        return Finding(
            state=state,
            verdict=verdict,
            reason=reason,
            steady=True,
            answer=answer,
            expected=expected,
            divergence=where,
        )

    expectations = _expectations(state, asked)
    if isinstance(expectations, str):
        if followed and state.same_as is None:
            return finding(Verdict.PASS, f"{len(answer.ids)} tokens, for others to compare with")
        return finding(Verdict.INVALID, expectations)
    for reference, other, name in expectations:
        expected = told(reference.sha256, len(reference.ids) if reference.ids is not None else None)
        if reference.sha256 == answer.digest:
            continue
        if reference.ids is None:
            hint = "where they part can be told with the ids (expect_file)"
            return finding(Verdict.FAIL, f"the ids are not those of {name}; {hint}", expected)
        where = first_difference(answer, reference.ids, other)
        assert where is not None
        return finding(*near_or_not(where, margin, f"not as {name}: {where.words}"), expected, where)
    names = " and ".join(name for _, _, name in expectations)
    end = "to the end of text" if answer.ended else "to the last"
    first = expectations[0][0]
    return finding(
        Verdict.PASS, f"{len(answer.ids)} tokens, equal {end} with {names}", told(first.sha256, len(answer.ids))
    )


def _expectations(
    state: State, asked: Mapping[str, ServerAnswers]
) -> Sequence[tuple[Reference, Generated | None, str]] | str:
    """What the ids must be, each with the answer it comes from and its name; a text where that is not known."""
    found: list[tuple[Reference, Generated | None, str]] = []
    if state.reference is not None:
        found.append((state.reference, None, "the reference"))
    if state.same_as is not None:
        other = asked[state.same_as]
        if not other.answers:
            return f"{state.same_as} gives nothing to compare with: {other.reason}"
        if (where := other.unsteady()) is not None:
            return f"in {state.same_as}, servers started afresh do not agree: {where.words}"
        source = other.answers[0][0]
        found.append((Reference(sha256=source.digest, ids=source.ids), source, state.same_as))
    return found or "no reference yet: what came is in the details"


def _judgement(findings: Sequence[Finding], asked: Mapping[str, ServerAnswers]) -> Judgement:
    def joined(texts: Sequence[str]) -> str:
        named = zip(findings, texts, strict=True)
        return "; ".join(f"{one.state.name}: {text}" if one.state.name else text for one, text in named if text)

    verdict = worst([one.verdict for one in findings])
    return Judgement(
        verdict=verdict,
        reason=joined([one.reason if one.verdict is verdict else "" for one in findings]),
        actual=joined([one.actual for one in findings]),
        expected=joined([one.expected for one in findings]),
        details={"states": [one.document() for one in findings]},
        attempts=tuple(attempt for one in asked.values() for attempt in one.attempts),
    )


def told(digest: str, count: int | None) -> str:
    """Ids in short: how many, and their digest."""
    return f"{count} tokens {digest}" if count is not None else f"tokens {digest}"
