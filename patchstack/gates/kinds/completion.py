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

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds.completion_states import NO_REFERENCE, Parted, Seen, State, judge, parted
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
from patchstack.llama.transcript import digest_like, reference_problem
from patchstack.observe.exit_status import complaint_of, fault_of
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Complete, Invocation, Model, Observation, Observed
from patchstack.observe.sentinel import lines_of
from patchstack.observe.settings import Environment, bounded, environment, merged
from patchstack.workspace.mapping import Mapping as Node

__all__ = ["KIND", "NO_REFERENCE", "VERSION", "Spec", "State", "gives", "invocation", "read", "run", "spec_problems"]

KIND = "completion"
VERSION = 1

_DECODED = re.compile(r"[^t] eval time = .*/ +(\d+) runs")


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
    seen = [Seen(state=state, runs=_observed(spec, state, runner)) for state in spec.states]
    judgement = judge(seen, pinned=spec.prompting.completion().pinned)
    if spec.measure is None:
        return judgement
    return with_evidence(judgement, gathered(spec.measure, _changed(spec, seen), runner))


def _changed(spec: Spec, seen: Sequence[Seen]) -> list[Changed]:
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
