"""What transcripts come to: the verdict of each state of the gate `completion`, and of all of them."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from patchstack.gates.judgement import Judgement, worst
from patchstack.llama.transcript import as_text, difference, digest_like, md5_of, sha256_of
from patchstack.observe.exit_status import complaint_of, fault_of
from patchstack.observe.protocol import Attempt, Json, Observation, Observed
from patchstack.observe.sentinel import lines_of
from patchstack.observe.settings import Environment
from patchstack.verdict import Verdict

NO_REFERENCE = "no reference yet: gate record"


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
class Seen:
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


def judge(seen: Sequence[Seen], *, pinned: bool) -> Judgement:
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


def judge_state(seen: Seen, *, pinned: bool, other: Seen | None, compared: bool) -> StateVerdict:
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


def parted(seen: Seen, all_seen: Sequence[Seen]) -> Parted | None:
    """From what a state's one transcript differs, its reference first; None where it differs from nothing."""
    transcript, state = _sole(seen), seen.state
    if transcript is None:
        return None
    if state.expect is not None and digest_like(transcript, state.expect) != state.expect:
        return Parted.FROM_REFERENCE
    other = next((one for one in all_seen if state.same_as is not None and one.state.name == state.same_as), None)
    theirs = _sole(other) if other is not None else None
    return Parted.FROM_STATE if theirs is not None and theirs != transcript else None


def _sole(seen: Seen) -> bytes | None:
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


def _state_details(seen: Seen, verdict: StateVerdict) -> dict[str, Json]:
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
