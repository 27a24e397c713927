"""Run a client that sends requests to a server, one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from patchstack.llama.client.asking import Questions
from patchstack.llama.client.zipapp import client_file
from patchstack.observe.protocol import Beside, Invocation, Request
from patchstack.observe.served import ANSWERS

_CLIENT, _QUESTIONS = "client.pyz", "questions.json"
_GRACE = 1.0


def with_requests(invocation: Invocation, requests: Sequence[Request]) -> Invocation:
    """Return a server's invocation with a client that sends these requests.

    Without requests, return the invocation unchanged. The server must be ready within half of the invocation's time
    limit. The same limit applies to each answer.
    """
    if not requests:
        return invocation
    questions = Questions(
        url="http://{address}",
        ready=invocation.seconds / 2,
        each=invocation.seconds / 2,
        most=invocation.output,
        requests=tuple((one.path, dict(one.body) if one.body is not None else None) for one in requests),
    )
    # A later step replaces every `{address}` in the file. Escape all but the first, which is the server's.
    before, mark, after = questions.text().partition("{address}")
    text = before + mark + after.replace("{address}", r"\u007baddress}")
    beside = Beside(
        what="ask",
        args=("-I", "-S", f"{{here}}/{_CLIENT}", "ask", f"{{here}}/{_QUESTIONS}", f"{{here}}/{ANSWERS}"),
        files={_CLIENT: client_file(), _QUESTIONS: text.encode()},
        brings=(ANSWERS,),
        grace=_GRACE,
    )
    return replace(invocation, requests=tuple(requests), beside=beside)
