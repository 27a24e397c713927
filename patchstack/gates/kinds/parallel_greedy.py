"""Compare concurrent greedy requests with a single request, token by token.

Concurrent requests share batches. This changes the order of sums, which can flip a near tie. So a difference alone
proves nothing. Such differences also occur on CPUs. Equal tokens are PASS.

If tokens differ, the first difference is compared with a control: the same concurrent requests to a new server. The
change of the margins in the control is the noise of this machine under this load. A difference within this noise is
PASS. A larger difference is INVALID, because this gate cannot tell whether the build or the batch caused it.

A margin is the difference between the log probabilities of the two best tokens, in nats. The probabilities are over the
whole vocabulary and before sampling. `llama-server` returns them in answers of `/completion` if the request contains
`n_probs`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from patchstack.gates.judgement import Judgement, verdict_of, worst
from patchstack.llama.asking import with_requests
from patchstack.llama.prompt import Prompting
from patchstack.observe.exit_status import complaint_of, fault_of
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Attempt, Complete, Json, Observation, Observed, Request
from patchstack.observe.settings import Environment
from patchstack.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenStep:
    """One token: its id, the id of the second-best token, and the margin between the two in nats.

    `second` and `margin` are None if they are not known.
    """

    token: int
    second: int | None = None
    margin: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotAnswer:
    """The answer to a request. `slot` is the slot of the server that processed the request."""

    steps: tuple[TokenStep, ...]
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelRuns:
    """The runs of one state, each with a new server.

    `alone` is a single request, `together` are several concurrent requests, and `control` are the same concurrent
    requests again. `pinned` is true if the digests of the models were checked.
    """

    alone: Observed
    together: Observed
    control: Observed
    pinned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """The first difference between two answers.

    `position` is counted from 0. `expected` and `actual` are the token ids there, or None after the end of an answer.
    `margin` is the margin in the expected answer, and `shift` is its change in the actual answer, both in nats. The
    shift is infinite if the two best tokens are not the same in both answers, if a margin is not known, or if one
    answer has ended.
    """

    position: int
    expected: int | None
    actual: int | None
    margin: float | None
    shift: float


def observe_parallel(prompting: Prompting, count: int, env: Environment, name: str, runner: Observer) -> ParallelRuns:
    """Send the requests to three new servers.

    The first server receives a single request. The second and the third server receive the same concurrent requests.
    """
    server = prompting.server(count)
    what = f"parallel {name}".strip()

    def observed(prompts: str | list[str], salt: str) -> Observed:
        ask = server.invocation(f"{what}: {salt}", env)
        body: dict[str, Json] = {"prompt": list(prompts) if isinstance(prompts, list) else prompts}
        body |= {"n_predict": prompting.tokens, "temperature": 0, "seed": prompting.seed, "n_probs": 2}
        body |= {"cache_prompt": False, "return_tokens": True}
        request = Request(path="/completion", body=body)
        number = len(prompts) if isinstance(prompts, list) else 1
        return runner.observe(
            with_requests(ask, (request,)),
            complete=answered(number, pinned=server.pinned),
            tries=prompting.tries,
            salt=salt,
        )

    many = [prompting.prompt] * count
    return ParallelRuns(
        alone=observed(prompting.prompt, "alone"),
        together=observed(many, "at once"),
        control=observed(many, "control"),
        pinned=server.pinned,
    )


def answered(count: int, *, pinned: bool) -> Complete:
    """Return a function that checks whether a run can be judged.

    The server must have answered `count` prompts, each in a different slot, or the build must have caused a failure.
    """

    def complaint(seen: Observation) -> str | None:
        if fault := fault_of(seen, pinned=pinned):
            return None if fault.by_build else fault.reason
        reply = seen.replies[0] if seen.replies else None
        if reply is None or reply.status == 0:
            return "the server did not answer"
        if reply.status != 200:
            return f"the server answered {reply.status}: {reply.body[:200].decode('utf-8', 'replace')}"
        answers = read_answers(reply.body)
        if answers is None or len(answers) != count:
            return "the server's answer cannot be read"
        if not all(answer.steps for answer in answers):
            return "the server gave no tokens"
        if len({answer.slot for answer in answers}) < count:
            return "the server did not serve the requests at once: it has too few slots"
        return None

    return complaint


def read_answers(body: bytes) -> tuple[SlotAnswer, ...] | None:
    """Parse the answers of `/completion`.

    The document is an object for a single prompt, or a list of objects for several prompts. Return None for any other
    document.
    """
    try:
        document = json.loads(body)
        answers = document if isinstance(document, list) else [document]
        ordered = sorted(answers, key=lambda one: int(one.get("index", 0)))
        return tuple(_answer(one) for one in ordered)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def judgement_of_parallel(states: Sequence[tuple[str, ParallelRuns]]) -> Judgement:
    """Return the verdict of all states."""
    found = [(name, seen, *verdict_of_parallel(seen)) for name, seen in states]
    verdicts = [verdict for _, _, verdict, _, _ in found]
    overall = worst(verdicts)
    told = [f"{name}: {reason}" if name else reason for name, _, verdict, reason, _ in found if verdict is overall]
    return Judgement(
        verdict=overall,
        reason="; ".join(told) or "nothing was run",
        actual=" ".join(str(details.get("equal", "")) for *_, details in found),
        expected=" ".join(str(details.get("requests", "")) for *_, details in found),
        details={"states": [{"state": name, **details} for name, *_, details in found]},
        attempts=tuple(attempt for _, seen, *_ in found for attempt in _attempts(seen)),
    )


def verdict_of_parallel(seen: ParallelRuns) -> tuple[Verdict, str, dict[str, Json]]:
    """Return the verdict, reason and details of one state."""
    runs = (seen.alone, seen.together, seen.control)
    for run in runs:
        if run.observation is not None and (fault := fault_of(run.observation, pinned=seen.pinned)):
            return verdict_of(fault), fault.reason, {}
    lost = next((run for run in runs[:2] if run.observation is None), None)
    if lost is not None:
        return Verdict.INVALID, complaint_of(lost), {}
    alone, together, control = (_answers_of(run) for run in runs)
    partings = [parting for one in together if (parting := part(alone[0], one)) is not None]
    details: dict[str, Json] = {"requests": len(together), "equal": len(together) - len(partings)}
    details["tokens"] = len(alone[0].steps)
    if not partings:
        return Verdict.PASS, f"{len(together)} concurrent requests gave the tokens of a single one", details
    first = min(partings, key=lambda one: (one.position, -one.shift))
    noise = max((noise_between(one, other) for one, other in zip(together, control, strict=False)), default=0.0)
    details |= {"noise": _finite(noise), "shift": _finite(first.shift), "position": first.position}
    details |= {"expected_token": first.expected, "actual_token": first.actual, "margin": first.margin}
    where = f"{len(partings)} of {len(together)} requests differ from the single one, first at token {first.position}"
    if not control:
        return Verdict.INVALID, f"{where}; the control could not be judged: {complaint_of(seen.control)}", details
    moved = f"the margin moved by {first.shift:.3g}, and between two new servers by up to {noise:.3g}"
    if first.shift <= noise < math.inf:
        return Verdict.PASS, f"{where}, within the noise of new servers: {moved}", details
    return Verdict.INVALID, f"{where}; it is not known whether the build or the batch caused it: {moved}", details


def part(expected: SlotAnswer, actual: SlotAnswer) -> Parting | None:
    """Return the first difference between two answers. Return None if they have the same tokens."""
    for position, (one, other) in enumerate(zip_longest(expected.steps, actual.steps)):
        if one is None or other is None:
            return Parting(
                position=position,
                expected=one.token if one else None,
                actual=other.token if other else None,
                margin=one.margin if one else None,
                shift=math.inf,
            )
        if one.token != other.token:
            return Parting(
                position=position,
                expected=one.token,
                actual=other.token,
                margin=one.margin,
                shift=_shift(one, other),
            )
    return None


def noise_between(one: SlotAnswer, other: SlotAnswer) -> float:
    """Return the largest difference between the margins of two answers, in nats.

    Only positions at which both answers have the same two best tokens count. Positions after the first different token
    do not count.
    """
    found = 0.0
    for mine, theirs in zip(one.steps, other.steps, strict=False):
        shift = _shift(mine, theirs)
        if math.isfinite(shift):
            found = max(found, shift)
        if mine.token != theirs.token:
            break
    return found


def _shift(one: TokenStep, other: TokenStep) -> float:
    """Return how much the margin between the two best tokens changed.

    If the two best tokens changed places, the second margin counts as negative. Return infinity if a margin is not
    known, or if the two best tokens are not the same in both answers.
    """
    if one.margin is None or other.margin is None:
        return math.inf
    if (one.token, one.second) == (other.token, other.second):
        return abs(one.margin - other.margin)
    if (one.token, one.second) == (other.second, other.token):
        return one.margin + other.margin
    return math.inf


def _answer(one: Mapping[str, Any]) -> SlotAnswer:
    """Return an answer's tokens, each with its second-best token and margin if they are known.

    Raises `KeyError`, `TypeError`, `ValueError` or `AttributeError` if the document has a different structure.
    """
    told = one.get("completion_probabilities") or []
    steps = []
    for token, best in zip_longest([int(token) for token in one["tokens"]], told):
        if token is None:
            break
        steps.append(_step(token, best))
    return SlotAnswer(steps=tuple(steps), slot=int(one["id_slot"]))


def _step(token: int, best: Mapping[str, Any] | None) -> TokenStep:
    top = (best or {}).get("top_logprobs") or []
    if best is None or int(best["id"]) != token or len(top) < 2:
        return TokenStep(token=token)
    first, second = top[0], top[1]
    margin = float(first["logprob"]) - float(second["logprob"])
    if int(first["id"]) != token or not math.isfinite(margin):
        return TokenStep(token=token)
    return TokenStep(token=token, second=int(second["id"]), margin=margin)


def _answers_of(run: Observed) -> tuple[SlotAnswer, ...]:
    seen = run.observation
    return (read_answers(seen.replies[0].body) or ()) if seen is not None and seen.replies else ()


def _attempts(seen: ParallelRuns) -> tuple[Attempt, ...]:
    return (*seen.alone.attempts, *seen.together.attempts, *seen.control.attempts)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
