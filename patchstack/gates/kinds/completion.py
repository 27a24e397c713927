"""Gate kind `completion`: the same greedy transcript, byte for byte, as the reference; per path and per switch state.

A reference is a digest of the stdout of `llama-completion` under one exact command line and environment. A state is an
environment (a switch on, a switch off) with a reference of its own, or with another state whose transcript it must
give (`same_as`), or both. That on equals off is asked for only where a reference says so.

    - name: moe
      kind: completion
      model: q36-35b
      prompt: The capital of France is
      tokens: 48
      env: {GGML_NO_BACKTRACE: 1}
      states:
        paged: {env: {LLAMA_KV_PAGED: 1, LLAMA_MOE_FORCE_GRAPHS: 1}, expect: 8cb0ce23777bf55f92f63d0292c756b0}
        plain: {expect: 07db32c2bcb78d17a43ed18bc22705cd}
        graphs: {env: {LLAMA_MOE_FORCE_GRAPHS: 1}, same_as: plain}

Where a transcript changed, `kl` says how far the model is from what it was: see `changed`. With `parallel: N` the
transcripts of N requests at once are held against that of one alone: see `parallel_greedy`.
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from patchstack.gates.judgement import Judgement, worst
from patchstack.gates.kinds.parallel_greedy import judge_parallel, observe_parallel
from patchstack.gates.reference.model_unchanged import (
    Changed,
    Measure,
    as_environment,
    gathered,
    read_measure,
    with_evidence,
)
from patchstack.llama.prompt import Prompting, read_prompting
from patchstack.llama.transcript import as_text, difference, digest_like, md5_of, reference_problem, sha256_of
from patchstack.observe.exit_status import complaint_of, fault_of
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Attempt, Complete, Invocation, Json, Model, Observation, Observed
from patchstack.observe.sentinel import lines_of
from patchstack.observe.settings import Environment, bounded, environment, merged
from patchstack.verdict import Verdict
from patchstack.workspace.mapping import Mapping as Node

__all__ = ["KIND", "NO_REFERENCE", "VERSION", "Spec", "State", "gives", "invocation", "read", "run", "spec_problems"]

KIND = "completion"
VERSION = 1

_DECODED = re.compile(r"[^t] eval time = .*/ +(\d+) runs")


class Parted(enum.Enum):
    """What a transcript differs from."""

    FROM_REFERENCE = enum.auto()
    FROM_STATE = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One environment. `expect` is the digest of its transcript, MD5 or SHA-256; `transcript` is the reference itself,
    where it is kept, and only serves to show where another parts from it; `same_as` names a state that must give the
    same. The only state of a gate without states has no name."""

    name: str = ""
    env: Environment = ()
    expect: str | None = None
    transcript: bytes | None = None
    same_as: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRuns:
    """A state with what came of its runs."""

    state: State
    runs: tuple[Observed, ...]

    @property
    def observations(self) -> tuple[Observation, ...]:
        """The runs that can be judged."""
        return tuple(run.observation for run in self.runs if run.observation is not None)

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        return tuple(attempt for run in self.runs for attempt in run.attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateVerdict:
    """What one state comes to. `actual` is its digest (of the kind of its reference), where it has one transcript;
    `changed`: it is not the reference's."""

    verdict: Verdict
    reason: str
    actual: str = ""
    changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The settings. `runs` is how often each state is run: all must give the same. `parallel` is how many requests are
    made at once; 0: a completion alone. `measure` is how the model is measured where a transcript changed."""

    prompting: Prompting
    states: tuple[State, ...] = (State(),)
    runs: int = 1
    parallel: int = 0
    measure: Measure | None = None


# Settings


def read(node: Node, models: Mapping[str, Model]) -> Spec:
    """The settings of a suite's entry."""
    prompting = read_prompting(node, models)
    alone = _read_state("", node, env=())
    named = node.mapping("states")
    states = tuple(_read_state(name, one) for name, one in named.children()) if named is not None else (alone,)
    if named is not None and (alone.expect or alone.transcript or alone.same_as):
        node.complain("states", "each state has its own expect, transcript and same_as; the gate has none")
    spec = Spec(
        prompting=prompting,
        states=states,
        runs=bounded(node, "runs", default=1, least=1, most=1000),
        parallel=bounded(node, "parallel", default=0, least=0, most=256),
        measure=read_measure(node, models, prompting),
    )
    for key, problem in spec_problems(spec):
        node.complain(key if key in node.node else None, problem)
    node.finish()
    return spec


def spec_problems(spec: Spec) -> list[tuple[str, str]]:
    """What is wrong with states and modes: each with the key it is about."""
    found: list[tuple[str, str]] = []
    by_name = {state.name: state for state in spec.states}
    if not spec.states:
        found.append(("states", "there are none: nothing would be checked"))
    for state in spec.states:
        where = f"state {state.name}: " if state.name else ""
        if state.expect is not None and (problem := reference_problem(state.expect)):
            found.append(("states" if state.name else "expect", f"{where}{problem}"))
        elif state.transcript is not None and digest_like(state.transcript, state.expect or "") != state.expect:
            where_to = "states" if state.name else "transcript"
            found.append((where_to, f"{where}the transcript is not the one of the digest expected"))
        if state.same_as is not None:
            found += [("states", f"{where}{problem}") for problem in _comparison_problems(spec, state, by_name)]
    if spec.parallel == 1:
        found.append(("parallel", "one request is not parallel; 2 or more"))
    if spec.parallel and spec.measure is not None:
        found.append(("kl", "requests at once are held against one alone: no transcript changes"))
    if spec.parallel and any(state.expect or state.same_as for state in spec.states):
        found.append(("parallel", "requests at once are held against one alone: no expect, no same_as"))
    return found


def _comparison_problems(spec: Spec, state: State, by_name: Mapping[str, State]) -> list[str]:
    other = by_name.get(state.same_as or "")
    if other is None or not state.same_as:
        return [f"there is no state {state.same_as!r} for same_as"]
    if other is state:
        return ["same_as is itself"]
    if other.same_as is not None:
        return [f"same_as {other.name}, which is compared itself: name {other.same_as}"]
    common = spec.prompting.env
    if merged(common, other.env) == merged(common, state.env):
        return [f"has the environment of {other.name}: a run would be compared with itself"]
    return []


def _read_state(name: str, node: Node, env: Environment | None = None) -> State:
    """A state's settings; the unnamed one's are among those of the gate, whose `env` is already read."""
    text = node.text("transcript")
    expect = node.text("expect")
    state = State(
        name=name,
        env=environment(node) if env is None else env,
        expect=expect.lower() if expect is not None else None,
        transcript=text.encode() if text is not None else None,
        same_as=node.text("same_as"),
    )
    if name:
        node.finish()
    return state


# Observing


def run(spec: Spec, runner: Observer) -> Judgement:
    """Run every state, and judge."""
    if spec.parallel:
        states = [(state.name, state.env) for state in spec.states]
        return judge_parallel(
            [(name, observe_parallel(spec.prompting, spec.parallel, env, name, runner)) for name, env in states]
        )
    seen = [StateRuns(state=state, runs=_observed(spec, state, runner)) for state in spec.states]
    judgement = judge(seen, pinned=spec.prompting.completion().pinned)
    if spec.measure is None:
        return judgement
    return with_evidence(judgement, gathered(spec.measure, _changed(spec, seen), runner))


def _changed(spec: Spec, seen: Sequence[StateRuns]) -> list[Changed]:
    """The states whose transcript is another one, each with what it was held against."""
    by_name = {state.name: state for state in spec.states}
    own = spec.prompting.env
    found = []
    for one in seen:
        state, whole = one.state, as_environment(own, one.state.env)
        match parted(one, seen):
            case Parted.FROM_REFERENCE:
                found.append(Changed(state=state.name, env=whole, gives=partial(gives, spec, state)))
            case Parted.FROM_STATE:
                other = by_name[state.same_as or ""]
                theirs = as_environment(own, other.env)
                found.append(Changed(state=state.name, env=whole, other=other.name, other_env=theirs))
            case None:
                pass
    return found


def gives(spec: Spec, state: State, runner: Observer) -> str | None:
    """Why a build is not the one that a state's reference is of; None where it gives that transcript."""
    if state.expect is None:
        return None
    tried = runner.observe(invocation(spec, state), complete=complete(spec.prompting), tries=spec.prompting.tries)
    if tried.observation is None:
        return complaint_of(tried)
    if (fault := fault_of(tried.observation, pinned=spec.prompting.completion().pinned)) is not None:
        return fault.reason
    actual = digest_like(tried.observation.stdout, state.expect)
    return None if actual == state.expect else f"it does not give the reference's transcript either, but {actual}"


def invocation(spec: Spec, state: State) -> Invocation:
    """The run of a state."""
    return spec.prompting.completion().invocation(f"completion {state.name}".strip(), state.env)


def complete(prompting: Prompting) -> Complete:
    """Judges whether a transcript can be judged: it is whole, and it is one."""
    ended = prompting.completion().complete()

    def complaint(seen: Observation) -> str | None:
        if (why := ended(seen)) is not None or seen.code != 0:
            return why
        if not seen.stdout.strip():
            return "the transcript is empty"
        if prompting.tokens > 1 and _decoded(seen) == 0:
            return "the model ended at once: there is no transcript"
        return None

    return complaint


def _observed(spec: Spec, state: State, runner: Observer) -> tuple[Observed, ...]:
    found: list[Observed] = []
    for number in range(1, spec.runs + 1):
        salt = f"run {number}" if number > 1 else ""
        seen = runner.observe(
            invocation(spec, state), complete=complete(spec.prompting), tries=spec.prompting.tries, salt=salt
        )
        found.append(seen)
        if seen.observation is None:
            break  # the next would most likely not come to more, and each may take all the time it has
    return tuple(found)


def _decoded(seen: Observation) -> int | None:
    """How many tokens were decoded after the first, as the tool's own counters say; None where they do not."""
    counts = [int(found.group(1)) for line in lines_of(seen.stderr) if (found := _DECODED.search(line))]
    return counts[-1] if counts else None


NO_REFERENCE = "no reference yet: gate record"


# Verdicts


def judge(seen: Sequence[StateRuns], *, pinned: bool) -> Judgement:
    """The verdict of all states. Details: `states`, each with digests, sizes and the transcript where it is text; and
    `changed`, the states whose transcript is not the reference's (for these, KL evidence is due). `pinned`: the models
    are known to be the ones of their digests."""
    targets = {one.state.same_as for one in seen if one.state.same_as is not None}
    by_name = {one.state.name: one for one in seen}
    verdicts = [
        judge_state(
            one,
            pinned=pinned,
            other=by_name[one.state.same_as] if one.state.same_as is not None else None,
            compared=one.state.name in targets,
        )
        for one in seen
    ]
    attempts = tuple(attempt for one in seen for attempt in one.attempts)
    lost = sum(attempt.complaint is not None for attempt in attempts)
    overall = worst([verdict.verdict for verdict in verdicts])
    reasons = [
        f"{one.state.name}: {verdict.reason}" if one.state.name else verdict.reason
        for one, verdict in zip(seen, verdicts, strict=True)
        if verdict.verdict is overall
    ]
    told = "; ".join(reasons) + (f" ({lost} of {len(attempts)} tries could not be judged)" if lost else "")
    return Judgement(
        verdict=overall,
        reason=told,
        actual=_table([(one.state.name, verdict.actual) for one, verdict in zip(seen, verdicts, strict=True)]),
        expected=_table([(one.state.name, _expectation(one.state)) for one in seen]),
        details={
            "states": [_state_details(one, verdict) for one, verdict in zip(seen, verdicts, strict=True)],
            "changed": [one.state.name for one, verdict in zip(seen, verdicts, strict=True) if verdict.changed],
            "tries_lost": lost,
        },
        attempts=attempts,
    )


def judge_state(seen: StateRuns, *, pinned: bool, other: StateRuns | None, compared: bool) -> StateVerdict:
    """The verdict of one state. `other` is the state it is compared with; `compared`: another one is compared with it,
    and so it needs no reference of its own."""
    state, observations = seen.state, seen.observations
    faults = [fault.reason for one in observations if (fault := fault_of(one, pinned=pinned)) is not None]
    if faults:
        of = f"{len(faults)} of {len(seen.runs)} runs: " if len(seen.runs) > 1 else ""
        return StateVerdict(verdict=Verdict.FAIL, reason=of + faults[0])
    counts = Counter(one.stdout for one in observations)
    if len(counts) > 1:
        return StateVerdict(verdict=Verdict.FAIL, reason=_unsteady(counts))
    transcript = next(iter(counts), None)
    actual = digest_like(transcript, state.expect or "") if transcript is not None else ""
    if state.expect is not None and transcript is not None and actual != state.expect:
        parts = difference(state.transcript, transcript) if state.transcript is not None else None
        reason = f"the transcript is another one: {actual}, not {state.expect}" + (f"; {parts}" if parts else "")
        return StateVerdict(verdict=Verdict.FAIL, reason=reason, actual=actual, changed=True)
    theirs = _sole(other) if other is not None else None
    if transcript is not None and theirs is not None and (parts := difference(theirs, transcript)):
        reason = f"not the transcript of {state.same_as}; {parts}"
        return StateVerdict(verdict=Verdict.FAIL, reason=reason, actual=actual, changed=True)
    missing = next((run for run in seen.runs if run.observation is None), None)
    if missing is not None or transcript is None:
        why = complaint_of(missing) if missing is not None else "nothing was run"
        return StateVerdict(verdict=Verdict.INVALID, reason=why, actual=actual)
    if other is not None and theirs is None:
        return StateVerdict(
            verdict=Verdict.INVALID, reason=f"{state.same_as} gave nothing to compare it with", actual=actual
        )
    if state.expect is None and other is None and not compared:
        return StateVerdict(verdict=Verdict.INVALID, reason=NO_REFERENCE, actual=actual)
    return StateVerdict(verdict=Verdict.PASS, reason=_held(state, len(seen.runs)), actual=actual)


def parted(seen: StateRuns, all_seen: Sequence[StateRuns]) -> Parted | None:
    """From what a state's one transcript differs, its reference first; None where it differs from nothing."""
    transcript, state = _sole(seen), seen.state
    if transcript is None:
        return None
    if state.expect is not None and digest_like(transcript, state.expect) != state.expect:
        return Parted.FROM_REFERENCE
    other = next((one for one in all_seen if state.same_as is not None and one.state.name == state.same_as), None)
    theirs = _sole(other) if other is not None else None
    return Parted.FROM_STATE if theirs is not None and theirs != transcript else None


def _sole(seen: StateRuns) -> bytes | None:
    """The one transcript of a state; None where it has none, or several."""
    found = {one.stdout for one in seen.observations if one.code == 0}
    return next(iter(found)) if len(found) == 1 else None


def _held(state: State, runs: int) -> str:
    what = "the reference's transcript" if state.expect is not None else "a transcript to compare with"
    if state.same_as is not None:
        also = "the reference's transcript, and " if state.expect is not None else ""
        what = f"{also}the transcript of {state.same_as}"
    return f"{what}, {runs} times of {runs}" if runs > 1 else what


def _unsteady(counts: Counter[bytes]) -> str:
    ranked = counts.most_common()
    told = ", ".join(f"{count} times {md5_of(text)}" for text, count in ranked[:4])
    return f"{sum(counts.values())} runs gave {len(ranked)} transcripts: {told}; " + str(
        difference(ranked[0][0], ranked[1][0])
    )


def _expectation(state: State) -> str:
    return state.expect or (f"as {state.same_as}" if state.same_as is not None else "")


def _table(pairs: Sequence[tuple[str, str]]) -> str:
    """A value for each state, for a column: alone, or with the state's name."""
    if len(pairs) == 1:
        return pairs[0][1]
    return " ".join(f"{name}={value}" for name, value in pairs if value)


def _state_details(seen: StateRuns, verdict: StateVerdict) -> dict[str, Json]:
    transcript = _sole(seen)
    warned = [line for one in seen.observations for line in lines_of(one.stderr) if line.startswith("warning: ")]
    return {
        "state": seen.state.name,
        "env": dict(seen.state.env),
        "verdict": str(verdict.verdict),
        "reason": verdict.reason,
        "expected": seen.state.expect,
        "same_as": seen.state.same_as,
        "runs": len(seen.runs),
        "md5": md5_of(transcript) if transcript is not None else None,
        "sha256": sha256_of(transcript) if transcript is not None else None,
        "bytes": len(transcript) if transcript is not None else None,
        "transcript": as_text(transcript) if transcript is not None else None,
        "warnings": list(dict.fromkeys(warned))[:8],
    }
