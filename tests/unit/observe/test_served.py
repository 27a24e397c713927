"""The result of a server and its client: from the ends of both to replies, exit code and message."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchstack.engine.protocol import Ending, Outcome
from patchstack.observe.beside import ClientResult
from patchstack.observe.protocol import Invocation, Observation, Request
from patchstack.observe.served import ANSWERS, Answers, ServerRun, Service, answered, file_limit, read_answers

TWO = Invocation(what="ask", program="llama-server", requests=(Request(path="/a"), Request(path="/b")), output=1 << 20)
TERM, KILL = 128 + 15, 128 + 9


def left(state: str, *bodies: bytes, overflowed: bool = False) -> bytes:
    """Return the file that the client leaves."""
    answers = [[200, base64.b64encode(body).decode()] for body in bodies]
    return json.dumps({"state": state, "overflowed": overflowed, "answers": answers}).encode()


def came(
    content: bytes | None, *, alive: bool = True, code: int = TERM, ending: Ending = Ending.EXITED, **more: Any
) -> Observation:
    """Return the observation of a run. `content` None: no client was started; empty: it left nothing."""
    files = {ANSWERS: content} if content else {}
    client = ClientResult(
        outcome=Outcome(ending=ending if alive else Ending.EXITED, code=0, seconds=1.0),
        said="asking 1\nfailed no room",
        files=files,
        server_ended=not alive,
    )
    run = ServerRun(
        client=None if content is None else client,
        alive=alive,
        outcome=Outcome(ending=Ending.EXITED if alive else ending, code=code, seconds=1.0),
        seconds=2.0,
        **{"stdout": b"out", "stderr": b"err", **more},
    )
    return answered(run, TWO, "k")


@pytest.mark.parametrize(
    ("seen", "service", "code", "statuses"),
    [
        (came(left("answered", b"1", b"2")), Service.ANSWERED, 0, [200, 200]),
        (came(left("answered", b"1", b"2"), code=KILL), Service.ANSWERED, 0, [200, 200]),
        (came(left("answered", b"1", b"2"), code=7), Service.ANSWERED, 7, [200, 200]),
        (came(left("answered", b"1", b"2"), alive=False, code=134), Service.ENDED, 134, [200, 200]),
        (came(left("answered", b"1"), code=0), Service.BROKE, 0, [200, 0]),
        (came(left("broke", b"1")), Service.BROKE, 0, [200, 0]),
        (came(left("broke", b"1"), alive=False, code=139), Service.ENDED, 139, [200, 0]),
        (came(left("not-ready")), Service.NEVER_READY, 0, [0, 0]),
        (came(left("not-ready"), alive=False, code=1), Service.ENDED_EARLY, 1, [0, 0]),
        (came(None), Service.NEVER_READY, 0, [0, 0]),
        (came(None, alive=False, code=1), Service.ENDED_EARLY, 1, [0, 0]),
        (came(b"", alive=False, code=1), Service.ENDED_EARLY, 1, [0, 0]),
    ],
)
def test_how_serving_went(seen: Observation, service: Service, code: int, statuses: list[int]) -> None:
    assert (seen.files["service"].decode(), seen.code) == (service, code)
    assert [reply.status for reply in seen.replies] == statuses
    assert (seen.ending, seen.overflowed, seen.stdout, seen.stderr) == (Ending.EXITED, False, b"out", b"err")


def test_a_client_that_leaves_nothing_says_why() -> None:
    seen = came(b"")
    assert seen.files["service"].decode() == "the client left no responses: asking 1\nfailed no room"
    assert [reply.status for reply in seen.replies] == [0, 0]


def test_a_client_or_a_server_that_was_ended_is_told() -> None:
    assert came(left("broke"), ending=Ending.TIMED_OUT).ending is Ending.TIMED_OUT
    assert came(left("broke"), alive=False, ending=Ending.OUT_OF_MEMORY).ending is Ending.OUT_OF_MEMORY


def test_output_or_an_answer_beyond_the_limit_is_told() -> None:
    whole = left("answered", b"1", b"2")
    assert came(whole, stderr=b"x" * file_limit(TWO.output)).overflowed
    assert came(whole, alive=False, code=128 + 25).overflowed
    assert came(left("broke", b"1", overflowed=True)).overflowed
    assert not came(whole, stdout=b"x" * (file_limit(TWO.output) - 1)).overflowed


@given(st.one_of(st.binary(max_size=60), st.text(alphabet='{}[]":,0aeswrnto', max_size=60).map(str.encode)))
def test_a_damaged_file_has_no_answers(content: bytes) -> None:
    found = read_answers(content)
    assert not found.replies


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"state": "answered", "overflowed": False, "answers": [[200]]},
        {"state": "answered", "overflowed": False, "answers": [[200, "not base64!"]]},
        {"state": "answered", "overflowed": False, "answers": [["x", ""]]},
        {"state": "answered", "answers": [[200, ""]]},
    ],
)
def test_a_file_of_another_form_has_none_either(document: Any) -> None:
    assert read_answers(json.dumps(document).encode()) == Answers()
