"""Gate kind `completion`: compare the greedy transcript of each state with a reference, byte for byte.

A reference is a digest of the stdout of `llama-completion` for one exact command line and environment. A state is an
environment, for example with a switch on. It may have its own reference. With `same_as`, it names another state that
must give the same transcript. Without `same_as`, the transcripts of two states may differ.

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

If a transcript changed, `kl` measures how much the model changed (see `model_unchanged`). With `parallel: N`, the
transcripts of N concurrent requests are compared with the transcript of a single request (see `parallel_greedy`).
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from patchstack.gates.judgement import Judgement, worst
from patchstack.gates.kind import Kind
from patchstack.gates.kinds.parallel_greedy import judgement_of_parallel, observe_parallel
from patchstack.gates.reference.model_unchanged import (
    MEASURED,
    Changed,
    Measure,
    as_environment,
    gathered,
    measure_of,
    with_evidence,
)
from patchstack.llama.prompt import COMPLETION, SERVER, Prompting
from patchstack.llama.settings import (
    ENV,
    LOADING,
    MODEL,
    PROMPT,
    SECONDS,
    SENTINEL,
    SWITCH,
    TOKENS,
    TRIES,
    prompting_of,
)
from patchstack.llama.transcript import as_text, difference, digest_like, md5_of, reference_problem, sha256_of
from patchstack.observe.declared import Named, Setting, Text, Values, Whole
from patchstack.observe.exit_status import complaint_of, fault_of
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Attempt, Complete, Invocation, Json, Observation, Observed
from patchstack.observe.sentinel import lines_of
from patchstack.observe.settings import Environment, merged
from patchstack.verdict import Verdict

_DECODED = re.compile(r"[^t] eval time = .*/ +(\d+) runs")


class Parted(enum.Enum):
    """The transcript from which a state's transcript differs: the reference, or the transcript of another state."""

    FROM_REFERENCE = enum.auto()
    FROM_STATE = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptState:
    """One environment of the gate.

    `expect` is the MD5 or SHA-256 digest of the expected transcript. `transcript` is the expected transcript itself, if
    it is stored. It is only used to show the first difference. `same_as` names a state that must give the same
    transcript. If the gate has no named states, its only state has an empty name.
    """

    name: str = ""
    env: Environment = ()
    expect: str | None = None
    transcript: bytes | None = None
    same_as: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRuns:
    """A state with the results of its runs."""

    state: TranscriptState
    runs: tuple[Observed, ...]

    @property
    def observations(self) -> tuple[Observation, ...]:
        """The observations of the runs that can be judged."""
        return tuple(run.observation for run in self.runs if run.observation is not None)

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        return tuple(attempt for run in self.runs for attempt in run.attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateVerdict:
    """The verdict of one state.

    `actual` is the digest of the state's transcript, if all runs gave the same transcript. Otherwise, it is empty. The
    digest has the same type as the reference (MD5 or SHA-256). `changed` is true if the transcript differs from the
    expected transcript.
    """

    verdict: Verdict
    reason: str
    actual: str = ""
    changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionSettings:
    """The settings of the gate.

    `runs` is the number of runs of each state. All runs of a state must produce the same transcript. `parallel` is the
    number of concurrent requests to `llama-server`. If it is 0, the gate runs `llama-completion` instead. `measure`
    defines how the model is measured if a transcript changed.
    """

    prompting: Prompting
    states: tuple[TranscriptState, ...] = (TranscriptState(),)
    runs: int = 1
    parallel: int = 0
    measure: Measure | None = None


# Settings


EXPECT = Setting[str | None](
    name="expect",
    form=Text(written="an MD5 or SHA-256"),
    default=None,
    metavar="MD5",
    help="The MD5 or SHA-256 of the transcript.",
)
TRANSCRIPT = Setting[str | None](
    name="transcript",
    form=Text(),
    default=None,
    on_command_line=False,
    help="The expected transcript, to show the first difference.",
)
SAME_AS = Setting[str | None](
    name="same_as",
    form=Text(written="a state's name"),
    default=None,
    on_command_line=False,
    help="The state that must give the same transcript.",
)


def state_of(name: str, values: Values, env: Environment = ()) -> TranscriptState:
    """Return one named state, or the only state of a gate without named states."""
    expect, transcript = values[EXPECT], values[TRANSCRIPT]
    return TranscriptState(
        name=name,
        env=env,
        expect=expect.lower() if expect is not None else None,
        transcript=transcript.encode() if transcript is not None else None,
        same_as=values[SAME_AS],
    )


STATES = Setting[tuple[TranscriptState, ...] | None](
    name="states",
    form=Named(settings=(ENV, EXPECT, TRANSCRIPT, SAME_AS), make=lambda name, own: state_of(name, own, own[ENV])),
    default=None,
    on_command_line=False,
    help="Environments in addition to `env`, each with its own reference.",
)
PARALLEL = Setting[int](
    name="parallel",
    form=Whole(0, 256),
    default=0,
    metavar="N",
    help="Compare N concurrent requests with a single request.",
)
RUNS = Setting[int](
    name="runs",
    form=Whole(1, 1000),
    default=1,
    metavar="N",
    help="Run the program N times. All runs must give the same transcript.",
)


def settings_of(values: Values) -> CompletionSettings:
    """Return the settings from values."""
    prompting = prompting_of(values)
    alone, states = state_of("", values), values[STATES]
    if states is not None and (alone.expect or alone.transcript or alone.same_as):
        values.complain(
            "states", "each state has its own expect, transcript and same_as, so the gate must not have them"
        )
    if switch := values[SWITCH]:
        states = (replace(alone, name="off"), replace(alone, name="on", env=switch, expect=None, same_as="off"))
    settings = CompletionSettings(
        prompting=prompting,
        states=(alone,) if states is None else states,
        runs=values[RUNS],
        parallel=values[PARALLEL],
        measure=measure_of(values, prompting),
    )
    values.complain_all(settings_problems(settings))
    return settings


def settings_problems(settings: CompletionSettings) -> list[tuple[str, str]]:
    """Return the problems in the states and modes, each with the key of its setting."""
    found: list[tuple[str, str]] = []
    by_name = {state.name: state for state in settings.states}
    if not settings.states:
        found.append(("states", "the list is empty, so nothing would be checked"))
    for state in settings.states:
        where = f"state {state.name}: " if state.name else ""
        if state.expect is not None and (problem := reference_problem(state.expect)):
            found.append(("states" if state.name else "expect", f"{where}{problem}"))
        elif state.transcript is not None and digest_like(state.transcript, state.expect or "") != state.expect:
            where_to = "states" if state.name else "transcript"
            found.append((where_to, f"{where}the transcript does not have the expected digest"))
        if state.same_as is not None:
            found += [("states", f"{where}{problem}") for problem in _comparison_problems(settings, state, by_name)]
    if settings.parallel == 1:
        found.append(("parallel", "1 request is not concurrent; use 2 or more"))
    if settings.parallel and settings.measure is not None:
        found.append(("kl", "cannot be combined with parallel, which has no reference"))
    if settings.parallel and any(state.expect or state.same_as for state in settings.states):
        found.append(("parallel", "concurrent requests have no reference, so expect and same_as are not allowed"))
    return found


def _comparison_problems(
    settings: CompletionSettings, state: TranscriptState, by_name: Mapping[str, TranscriptState]
) -> list[str]:
    other = by_name.get(state.same_as or "")
    if other is None or not state.same_as:
        return [f"there is no state {state.same_as!r} for same_as"]
    if other is state:
        return ["same_as names the state itself"]
    if other.same_as is not None:
        return [f"same_as names {other.name}, which also has same_as; name {other.same_as} instead"]
    common = settings.prompting.env
    if merged(common, other.env) == merged(common, state.env):
        return [f"has the same environment as {other.name}, so a run would be compared with itself"]
    return []


# Observing


def run(settings: CompletionSettings, runner: Observer) -> Judgement:
    """Run every state, and judge the transcripts."""
    if settings.parallel:
        states = [(state.name, state.env) for state in settings.states]
        return judgement_of_parallel(
            [(name, observe_parallel(settings.prompting, settings.parallel, env, name, runner)) for name, env in states]
        )
    seen = [StateRuns(state=state, runs=_observed(settings, state, runner)) for state in settings.states]
    judgement = judgement_of_states(seen, pinned=settings.prompting.completion().pinned)
    if settings.measure is None:
        return judgement
    return with_evidence(judgement, gathered(settings.measure, _changed(settings, seen), runner))


def _changed(settings: CompletionSettings, seen: Sequence[StateRuns]) -> list[Changed]:
    """Return the states whose transcript differs from the expected transcript."""
    by_name = {state.name: state for state in settings.states}
    own = settings.prompting.env
    found = []
    for one in seen:
        state, whole = one.state, as_environment(own, one.state.env)
        match parted(one, seen):
            case Parted.FROM_REFERENCE:
                found.append(Changed(state=state.name, env=whole, gives=partial(gives, settings, state)))
            case Parted.FROM_STATE:
                other = by_name[state.same_as or ""]
                theirs = as_environment(own, other.env)
                found.append(Changed(state=state.name, env=whole, other=other.name, other_env=theirs))
            case None:
                pass
    return found


def gives(settings: CompletionSettings, state: TranscriptState, runner: Observer) -> str | None:
    """Return why a build does not produce the transcript of a state's reference.

    Return None if the build produces this transcript, or if the state has no reference.
    """
    if state.expect is None:
        return None
    tried = runner.observe(
        invocation(settings, state), complete=complete(settings.prompting), tries=settings.prompting.tries
    )
    if tried.observation is None:
        return complaint_of(tried)
    if (fault := fault_of(tried.observation, pinned=settings.prompting.completion().pinned)) is not None:
        return fault.reason
    actual = digest_like(tried.observation.stdout, state.expect)
    return None if actual == state.expect else f"it does not give the reference's transcript either, but {actual}"


def invocation(settings: CompletionSettings, state: TranscriptState) -> Invocation:
    """Return the invocation of `llama-completion` for a state."""
    return settings.prompting.completion().invocation(f"completion {state.name}".strip(), state.env)


def complete(prompting: Prompting) -> Complete:
    """Return a function that checks whether a run can be judged.

    The run must be complete, and its transcript must not be empty. A failure that the build caused can be judged too.
    """
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


def _observed(settings: CompletionSettings, state: TranscriptState, runner: Observer) -> tuple[Observed, ...]:
    found: list[Observed] = []
    for number in range(1, settings.runs + 1):
        salt = f"run {number}" if number > 1 else ""
        seen = runner.observe(
            invocation(settings, state),
            complete=complete(settings.prompting),
            tries=settings.prompting.tries,
            salt=salt,
        )
        found.append(seen)
        if seen.observation is None:
            break  # further runs would probably fail too, and each may run until its time limit
    return tuple(found)


def _decoded(seen: Observation) -> int | None:
    """Return the number of tokens that were decoded after the first token.

    The number comes from the tool's own counters. Return None if they are missing.
    """
    counts = [int(found.group(1)) for line in lines_of(seen.stderr) if (found := _DECODED.search(line))]
    return counts[-1] if counts else None


NO_REFERENCE = "no reference yet: gate record"


# Verdicts


def judgement_of_states(seen: Sequence[StateRuns], *, pinned: bool) -> Judgement:
    """Return the verdict of all states.

    In the details, `states` contains the digests and the size of each state's transcript, and the transcript itself if
    it is text. `changed` lists the states whose transcript changed. These states need KL evidence. `tries_lost` is the
    number of tries that could not be judged. `pinned` is true if the digests of the models were checked.
    """
    targets = {one.state.same_as for one in seen if one.state.same_as is not None}
    by_name = {one.state.name: one for one in seen}
    verdicts = [
        verdict_of_state(
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


def verdict_of_state(seen: StateRuns, *, pinned: bool, other: StateRuns | None, compared: bool) -> StateVerdict:
    """Return the verdict of one state.

    `other` is the state that this state must equal. `compared` is true if another state must equal this state. A
    compared state needs no reference.
    """
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
        reason = f"the transcript differs: {actual}, not {state.expect}" + (f"; {parts}" if parts else "")
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
    """Return whether a state's transcript differs from its reference, or from that of the state named in `same_as`.

    The reference is compared first. Return None if there is no difference, or no transcript to compare.
    """
    transcript, state = _sole(seen), seen.state
    if transcript is None:
        return None
    if state.expect is not None and digest_like(transcript, state.expect) != state.expect:
        return Parted.FROM_REFERENCE
    other = next((one for one in all_seen if state.same_as is not None and one.state.name == state.same_as), None)
    theirs = _sole(other) if other is not None else None
    return Parted.FROM_STATE if theirs is not None and theirs != transcript else None


def _sole(seen: StateRuns) -> bytes | None:
    """Return the transcript of a state. Return None if the state has no transcript, or several different ones."""
    found = {one.stdout for one in seen.observations if one.code == 0}
    return next(iter(found)) if len(found) == 1 else None


def _held(state: TranscriptState, runs: int) -> str:
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


def _expectation(state: TranscriptState) -> str:
    return state.expect or (f"as {state.same_as}" if state.same_as is not None else "")


def _table(pairs: Sequence[tuple[str, str]]) -> str:
    """Return the values of all states for a table column.

    If there are several states, each value follows the name of its state.
    """
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


KIND = Kind(
    name="completion",
    version=1,
    about="Compare a greedy transcript of llama-completion with the digest of a reference.",
    settings=(
        *(MODEL, PROMPT, TOKENS, ENV),
        *(EXPECT, TRANSCRIPT, SAME_AS, STATES, SWITCH),
        *(PARALLEL, RUNS),
        *(*LOADING, SENTINEL, SECONDS, TRIES, MEASURED),
    ),
    make=settings_of,
    run=run,
    programs=lambda settings: (SERVER if settings.parallel else COMPLETION,),
)
