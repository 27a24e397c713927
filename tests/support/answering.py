"""Made-up answers of servers, and observers with prepared results."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

from patchstack.engine.protocol import Ending
from patchstack.errors import MissingError
from patchstack.observe.layout import Programs
from patchstack.observe.observer import OtherBuild, RunContext
from patchstack.observe.protocol import Attempt, Complete, Invocation, Json, Model, Observation, Observed, Reply

IDS = (5, 6, 7, 8)


def an_answer(ids: Sequence[int] = IDS, **more: Json) -> Reply:
    """Return a server's answer, with the two likeliest candidates of every token: 0.6 and 0.4."""
    steps = [
        {
            "id": one,
            "top_logprobs": [
                {"id": one, "token": chr(60 + one), "logprob": -0.5108},
                {"id": one + 1, "token": chr(61 + one), "logprob": -0.9163},
            ],
        }
        for one in ids
    ]
    body: dict[str, Any] = {
        "tokens": list(ids),
        "tokens_predicted": len(ids),
        "stop_type": "limit",
        "truncated": False,
        "content": "",
        "timings": {"cache_n": 0, "prompt_n": 3, "predicted_n": len(ids)},
        "completion_probabilities": steps,
    }
    return Reply(status=200, body=json.dumps({**body, **more}).encode())


def seen(*replies: Reply, code: int = 0, stderr: bytes = b"") -> Observation:
    return Observation(
        key="k", ending=Ending.EXITED, code=code, stdout=b"", stderr=stderr, seconds=1.0, replies=replies
    )


class FakeObserver:
    """The base of made-up observers: one model, no kept files, no other build. Subclasses implement `observe`."""

    def __init__(self, context: RunContext | None = None) -> None:
        self.context = context or RunContext(kind="test/1")

    def within(self, context: RunContext) -> Self:
        view = copy.copy(self)
        view.context = context
        return view

    def judged_with(self, program: str, judge: Programs) -> OtherBuild:
        raise NotImplementedError

    def beside(self, build: str | Programs) -> OtherBuild:
        raise MissingError("there is no other build here")

    def build_digest(self) -> str:
        return "0" * 64

    def observe(self, invocation: Invocation, *, complete: Complete, tries: int = 3, salt: str = "") -> Observed:
        raise NotImplementedError

    def has(self, kept: str) -> bool:
        return False

    def size_of(self, kept: str) -> int | None:
        return None

    def digest_of(self, model: Model) -> str:
        return "0" * 64

    def programs(self) -> frozenset[str]:
        return frozenset()


class Scripted(FakeObserver):
    """An observer with prepared results: a list for each environment, one for each salt in order, the last for all
    later ones. A server with `--spec-type` has its own list: `speculating`."""

    def __init__(self, given: Mapping[str, Sequence[Observation]] | Sequence[Observation]) -> None:
        super().__init__()
        self.given = given if isinstance(given, Mapping) else {"": given}
        self.asked: list[tuple[Invocation, str]] = []

    def observe(self, invocation: Invocation, *, complete: Complete, tries: int = 3, salt: str = "") -> Observed:
        self.asked.append((invocation, salt))
        state = ",".join(f"{name}={value}" for name, value in sorted(invocation.env.items()))
        given = self.given["speculating" if "--spec-type" in invocation.args else state]
        found = given[min(int(salt.removeprefix("run ") or 1) - 1, len(given) - 1)]
        complaint = complete(found)
        attempt = Attempt(what=invocation.what, key="k", code=found.code, seconds=1.0, complaint=complaint)
        if complaint is not None:
            return Observed(observation=None, attempts=(attempt,) * tries)
        return Observed(observation=found, attempts=(attempt,))

    def programs(self) -> frozenset[str]:
        return frozenset({"llama-server"})
