"""Parse llama-server's responses to `/completion`, and find the first difference between two answers."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from patchstack.observe.exit_status import Fault, fault_of
from patchstack.observe.protocol import Complete, Json, Observation, Reply, Request

_TROUBLE = re.compile(r"error|fail|abort|assert|terminate|cannot|couldn't", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A candidate for a token.

    `logprob` is the natural logarithm of its probability before sampling. It is None if the server reports no finite
    number.
    """

    id: int
    text: str
    logprob: float | None

    @property
    def probability(self) -> float | None:
        return None if self.logprob is None else math.exp(min(self.logprob, 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A complete answer.

    `ids` are all generated tokens, including the end-of-text token. `ended` is true if the answer ends with that token.
    `steps` contains the most probable candidates for each token, best first. A step is empty if the server reports no
    candidates. `cached` is the number of prompt tokens from the server's cache, and `prompt` is the number of computed
    prompt tokens. `drafted` and `accepted` are counts of speculative tokens.
    """

    ids: tuple[int, ...]
    ended: bool
    content: str
    steps: tuple[tuple[Candidate, ...], ...]
    cached: int = 0
    prompt: int = 0
    drafted: int = 0
    accepted: int = 0

    @property
    def digest(self) -> str:
        return digest_of_ids(self.ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first difference between two token sequences.

    `position` is the index of the generated token, starting at 0. `got` and `wanted` are the two tokens at this
    position. A token is None if its sequence has already ended. `margin` is the difference in probability between the
    two most probable tokens, and `log_margin` is the difference of their logarithms. `gap` is the difference in
    probability between `got` and `wanted`. It is a lower bound if one of these tokens is not among the candidates.
    Unknown figures are None.
    """

    position: int
    got: int | None
    wanted: int | None
    got_text: str | None = None
    wanted_text: str | None = None
    margin: float | None = None
    log_margin: float | None = None
    gap: float | None = None

    def within(self, margin: float) -> bool:
        """Return whether the probabilities of the two tokens differ by at most `margin`. Return False if unknown."""
        return self.gap is not None and margin > 0 and self.gap <= margin

    @property
    def words(self) -> str:
        """The difference as text: `position 5: 53 "5", not 48 "0"; top-two margin 0.215 (logprob 0.47)`."""
        place = f"position {self.position}: {_named(self.got, self.got_text)}, not "
        place += _named(self.wanted, self.wanted_text)
        if self.margin is None:
            return f"{place}; top-two margin unknown"
        logarithm = f" (logprob {self.log_margin:.3g})" if self.log_margin is not None else ""
        return f"{place}; top-two margin {self.margin:.3g}{logarithm}"

    def document(self) -> dict[str, Json]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request for up to `tokens` tokens, with greedy sampling.

    `probabilities` is the number of candidates for each token. With `cache`, the server may use its prompt cache.
    `more` are additional fields of the request.
    """

    prompt: str
    tokens: int
    seed: int = 1
    probabilities: int = 8
    cache: bool = False
    more: tuple[tuple[str, Json], ...] = field(default=())

    def request(self) -> Request:
        body: dict[str, Json] = {
            "prompt": self.prompt,
            "n_predict": self.tokens,
            "temperature": 0,
            "seed": self.seed,
            "n_probs": self.probabilities,
            "return_tokens": True,
            "cache_prompt": self.cache,
            "stream": False,
        }
        return Request(path="/completion", body={**body, **dict(self.more)})


def digest_of_ids(ids: Sequence[int]) -> str:
    """Return the SHA-256, in hex, of the ids as compact JSON, such as `[1,2,3]`."""
    return hashlib.sha256(json.dumps(list(ids), separators=(",", ":")).encode()).hexdigest()


def server_fault(seen: Observation, *, pinned: bool) -> Fault | None:
    """Return the failure of a server. Return None if it did not fail.

    A server fails if its run fails, or if a response has a status of 500 or above, except 503. Status 503 means that
    the server is busy. `pinned` is true if the models are known to match their digests.
    """
    if fault := fault_of(seen, pinned=pinned):
        return fault
    for reply in seen.replies:
        if reply.status >= 500 and reply.status != 503:
            return Fault(by_build=True, reason=f"the server answered {reply.status}: {_error(reply)}")
    return None


def incomplete(questions: Sequence[Question], *, pinned: bool) -> Complete:
    """Return a check of a server's run. The check returns None if the run can be judged, and otherwise the reason.

    A run can also be judged if the server failed because of the build.
    """

    def complaint(seen: Observation) -> str | None:
        if fault := server_fault(seen, pinned=pinned):
            return None if fault.by_build else fault.reason
        answers = read_answers(seen, questions)
        return answers if isinstance(answers, str) else None

    return complaint


def read_answers(seen: Observation, questions: Sequence[Question]) -> tuple[Generated, ...] | str:
    """Return the answers, or the reason why they cannot be judged."""
    if len(seen.replies) != len(questions):
        return f"{len(seen.replies)} answers to {len(questions)} requests"
    found = []
    for number, (reply, question) in enumerate(zip(seen.replies, questions, strict=True), 1):
        if reply.status == 0:
            how = seen.files.get("service", b"").decode("utf-8", "replace")
            return f"no complete answer to request {number}: {how or 'the connection broke'}{_last_words(seen.stderr)}"
        answer = read_generated(reply, question)
        if isinstance(answer, str):
            return f"request {number}: {answer}"
        found.append(answer)
    return tuple(found)


def read_generated(reply: Reply, question: Question) -> Generated | str:
    """Parse an answer to `/completion` with `return_tokens` and `n_probs`.

    Return the answer, or the reason why it cannot be used. An answer cannot be used if it has too few tokens without an
    end of text, or if it was truncated because the context was too short. It also cannot be used if its counts
    contradict each other, or if the server used its cache without permission.

    Source: `tools/server/server-task.cpp` of llama.cpp.
    """
    if reply.status != 200:
        return f"the server answered {reply.status}: {_error(reply)}"
    try:
        body = json.loads(reply.body)
    except (ValueError, RecursionError):
        return "the answer is not JSON"
    if not isinstance(body, dict):
        return "the answer is not a JSON object"
    ids = body.get("tokens")
    if not isinstance(ids, list) or not all(type(one) is int for one in ids):
        return "the answer has no list of token ids"
    timings = body.get("timings")
    timings = timings if isinstance(timings, dict) else {}
    stop = body.get("stop_type")
    for name, count in (
        ("tokens_predicted", body.get("tokens_predicted")),
        ("predicted_n", timings.get("predicted_n")),
    ):
        if count is not None and count != len(ids):
            return f"the answer has {len(ids)} token ids, but {name} is {count}"
    if body.get("truncated"):
        return f"the context was too short: {len(ids)} of {question.tokens} tokens"
    if stop not in ("eos", "limit"):
        return f"the answer stopped by {stop!r}, not at the end of text or after {question.tokens} tokens"
    if len(ids) > question.tokens or not ids or (len(ids) < question.tokens and stop != "eos"):
        return f"{len(ids)} tokens, not {question.tokens}, and no end of text"
    cached = _count(timings, "cache_n")
    if cached and not question.cache:
        return f"{cached} tokens of the prompt came from the cache, although cache_prompt is false"
    return Generated(
        ids=tuple(ids),
        ended=stop == "eos",
        content=str(body.get("content", "")),
        steps=_steps(ids, body.get("completion_probabilities")),
        cached=cached,
        prompt=_count(timings, "prompt_n"),
        drafted=_count(timings, "draft_n"),
        accepted=_count(timings, "draft_n_accepted"),
    )


def first_difference(got: Generated, wanted: Sequence[int], other: Generated | None = None) -> Divergence | None:
    """Return the first difference between an answer and the wanted ids. Return None if they are equal.

    `other` is the answer with the ids `wanted`. Its probabilities are used if `got` has none at this position.
    """
    if got.ids == tuple(wanted):
        return None
    pairs = zip(got.ids, wanted, strict=False)
    position = next((at for at, (one, two) in enumerate(pairs) if one != two), min(len(got.ids), len(wanted)))
    mine = got.ids[position] if position < len(got.ids) else None
    theirs = wanted[position] if position < len(wanted) else None
    sources = [source.steps[position] for source in (got, other) if source is not None and position < len(source.ids)]
    step = next((one for one in sources if len(one) > 1), ())
    texts = {candidate.id: candidate.text for one in reversed(sources) for candidate in one}
    return Divergence(
        position=position,
        got=mine,
        wanted=theirs,
        got_text=texts.get(mine) if mine is not None else None,
        wanted_text=texts.get(theirs) if theirs is not None else None,
        margin=_gap(step, 0, 1),
        log_margin=_log_gap(step),
        gap=_distance(step, mine, theirs),
    )


def _distance(step: Sequence[Candidate], one: int | None, two: int | None) -> float | None:
    """Return the difference in probability between two tokens. Return None if it is unknown.

    It is a lower bound if one of the tokens is not among the candidates.
    """
    if not step or one is None or two is None:
        return None
    places = [next((at for at, each in enumerate(step) if each.id == token), len(step) - 1) for token in (one, two)]
    gap = _gap(step, *places)
    return None if gap is None else abs(gap)


def _gap(step: Sequence[Candidate], one: int, two: int) -> float | None:
    if len(step) <= max(one, two):
        return None
    first, second = step[one].probability, step[two].probability
    return None if first is None or second is None else first - second


def _log_gap(step: Sequence[Candidate]) -> float | None:
    if len(step) < 2:
        return None
    first, second = step[0].logprob, step[1].logprob
    return None if first is None or second is None else first - second


def _steps(ids: Sequence[int], said: Any) -> tuple[tuple[Candidate, ...], ...]:
    """Return the candidates for each token.

    `said` contains the server's entries. The server sends no entry for a token that ends inside a character. Therefore
    an entry is used only if it can belong to exactly one token.
    """
    entries = [one for one in said if isinstance(one, dict)] if isinstance(said, list) else []
    names = [one.get("id") for one in entries]
    early, late = _matched(ids, names), [len(ids) - 1 - at for at in _matched(ids[::-1], names[::-1])][::-1]
    found: list[tuple[Candidate, ...]] = [()] * len(ids)
    if len(early) == len(late) == len(entries):
        for entry, one, two in zip(entries, early, late, strict=True):
            if one == two:
                found[one] = _candidates(entry)
    return tuple(found)


def _matched(ids: Sequence[int], names: Sequence[Any]) -> list[int]:
    """Return the position of each name in `ids`: its first occurrence after the previous name.

    The list ends before the first name that does not occur there.
    """
    places: list[int] = []
    start = 0
    for name in names:
        try:
            start = ids.index(name, start) + 1
        except ValueError:
            break
        places.append(start - 1)
    return places


def _candidates(entry: dict[str, Any]) -> tuple[Candidate, ...]:
    said = entry.get("top_logprobs")
    return tuple(
        Candidate(id=one["id"], text=_text(one), logprob=_number(one.get("logprob")))
        for one in (said if isinstance(said, list) else ())
        if isinstance(one, dict) and type(one.get("id")) is int
    )


def _text(entry: dict[str, Any]) -> str:
    """Return the text of a token. Bytes that are only part of a character are escaped."""
    try:
        return bytes(entry["bytes"]).decode("utf-8", "backslashreplace")
    except (KeyError, TypeError, ValueError):
        return str(entry.get("token", ""))


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _count(mapping: dict[str, Any], name: str) -> int:
    value = mapping.get(name)
    return value if type(value) is int else 0


def _named(token: int | None, text: str | None) -> str:
    if token is None:
        return "nothing more"
    return f"{token} {json.dumps(text, ensure_ascii=False)}" if text is not None else str(token)


def _error(reply: Reply) -> str:
    try:
        return str(json.loads(reply.body)["error"]["message"])[:200]
    except (ValueError, KeyError, TypeError, RecursionError):
        return repr(reply.body[:80].decode("utf-8", "replace"))


def _last_words(stderr: bytes) -> str:
    """Return the last line of the output that reports an error, in a form to append to a message.

    If no line reports an error, return the last line.
    """
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    telling = [line for line in lines if _TROUBLE.search(line)] or lines
    return f": {telling[-1][:200]}" if telling else ""
