"""Make prompts with an exact number of tokens.

A prompt is a list of token ids, unless the plan is for chat completions or requires text. The server counts the tokens
of a text with `/tokenize`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from patchstack.llama.client.plan import Plan

Ask = Callable[[str, str, object], Awaitable[tuple[int, bytes]]]
"""Sends a request with a method, a path and a JSON body or None, and returns the status and the body.

Status 0 means that no response was received.
"""

BY_CHANCE = 4
"""The length of the prefix, in tokens, that random prompts may share by chance with prompts of an earlier run."""
_TRIES = 80
_WORDS = """
time year people way day man thing woman life child world school state family student group country problem
hand part place case week company system program question work government number night point home water room
mother area money story fact month lot right study book eye job word business issue side kind head house
service friend father power hour game line end member law car city community name president team minute idea
body information back parent face others level office door health person art war history party result change
morning reason research girl guy moment air teacher force education foot boy age policy music market sense
nation plan college interest death course someone experience begin reach local keep six remain effect use
yeah suggest class control raise care perhaps little late hard field else pass former sell major sometimes
require along development themselves report role better economic effort up decide rate strong possible heart
drug show leader light voice wife whole police mind finally pull return free military price less according
decision explain son hope even develop
""".split()  # noqa: SIM905  (a list of 170 lines)
_PLAIN = range(100, 228)
"""Token ids that every vocabulary contains. They are used if the server has no `/tokenize`."""


class NoPrompt(ValueError):
    """Prompts cannot be made. The message is the reason."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts of a run.

    `values` are the prompts. If `form` is `ids`, they are token ids. If it is `text`, they are texts. `shared` is the
    length of the longest prefix that two prompts share, in tokens. It is None if unknown.
    """

    values: list[Any]
    form: str
    shared: int | None


async def make_prompts(plan: Plan, ask: Ask) -> Prompts:
    """Return one prompt for each request of a plan.

    The same plan and tokenizer always give the same prompts. Raises `NoPrompt` if a text with the planned number of
    tokens cannot be made.
    """
    if plan.chat or plan.prompts == "text":
        return await _texts(plan, ask)
    ids = await _tokenized(plan, ask, " ".join(_WORDS), special=False)
    pool = sorted(set(ids)) if ids else list(_PLAIN)
    chance = random.Random(f"pool {plan.seed}")  # noqa: S311  (prompts, to be repeated)
    start = [chance.choice(pool) for _ in range(plan.prefix)]
    firsts = chance.sample(pool, len(pool))
    found = []
    for number in range(plan.requests):
        chance = random.Random(f"prompt {plan.seed} {number}")  # noqa: S311
        own = [firsts[number % len(firsts)], *(chance.choice(pool) for _ in range(plan.prompt_of(number)))]
        found.append([*start, *own][: plan.prompt_of(number)])
    return Prompts(found, "ids", shared_start(found))


async def _texts(plan: Plan, ask: Ask) -> Prompts:
    if await _counted(plan, ask, _WORDS[0]) is None:
        raise NoPrompt("cannot make text prompts with an exact number of tokens: the server does not support /tokenize")
    chance = random.Random(f"pool {plan.seed}")  # noqa: S311
    start = await _start(plan, ask, chance)
    texts, ids = [], []
    for number in range(plan.requests):
        text, counted = await _text_of(plan, ask, start, number)
        texts.append(text)
        ids.append(counted)
    return Prompts(texts, "text", shared_start(ids) if all(ids) else None)


async def _start(plan: Plan, ask: Ask, chance: random.Random) -> str:
    """Return the shared prefix of all texts.

    The prefix has the planned number of tokens. It may have a few more, because it consists of whole words.
    """
    text = ""
    while plan.prefix:
        text += f"{chance.choice(_WORDS)} "
        ids = await _tokenized(plan, ask, text, special=False)
        if ids is None or len(ids) >= plan.prefix:
            break
    return text


async def _text_of(plan: Plan, ask: Ask, start: str, number: int) -> tuple[str, list[int]]:
    """Return a text with exactly the planned number of tokens, and its token ids.

    The number includes the tokens of the chat template.
    """
    wanted = plan.prompt_of(number)
    chance = random.Random(f"prompt {plan.seed} {number}")  # noqa: S311
    text = start + " ".join(chance.choice(_WORDS) for _ in range(max(1, wanted // 2)))
    best = 0
    for _ in range(_TRIES):
        counted = await _counted(plan, ask, text)
        if counted is None:
            raise NoPrompt("cannot make prompts: the server's /tokenize no longer returns tokens")
        count, ids = counted
        if count == wanted:
            return text, ids
        best = count
        if count > wanted:
            own = len(text) - len(start)
            cut = max(1, (count - wanted) * max(1, own // max(1, count)))
            if cut >= own:
                text = start + chance.choice("abcdefghijklmnopqrstuvwxyz")
                if own <= 1:
                    break
            else:
                text = text[:-cut].rstrip()
        elif wanted - count > 8:
            text += "".join(f" {chance.choice(_WORDS)}" for _ in range((wanted - count) // 8))
        else:
            text += chance.choice(("a", "e", "i", " o", " x", " z", ".", " the"))
    raise NoPrompt(f"cannot make a text of exactly {wanted} tokens: the last one had {best}, including the template")


async def _counted(plan: Plan, ask: Ask, text: str) -> tuple[int, list[int]] | None:
    """Return how many tokens a text has when it is sent in a request, and their ids.

    The tokens of the chat template are included. Return None if the server does not report token ids.
    """
    if not plan.chat:
        ids = await _tokenized(plan, ask, text, special=True)
        return (len(ids), ids) if ids is not None else None
    messages = [{"role": "user", "content": text}]
    status, body = await ask("POST", "/apply-template", {"messages": messages})
    if status == 200:
        prompt = _json(body).get("prompt")
        if isinstance(prompt, str):
            ids = await _tokenized(plan, ask, prompt, special=True)
            return (len(ids), ids) if ids is not None else None
    status, body = await ask("POST", "/tokenize", {"model": plan.model, "messages": messages})
    return _ids_of(status, body)


async def _tokenized(plan: Plan, ask: Ask, text: str, *, special: bool) -> list[int] | None:
    """Return the token ids of a text, without the chat template. Return None if the server does not report them.

    llama-server and vLLM both accept this request.
    """
    body = {"model": plan.model, "content": text, "prompt": text, "parse_special": True}
    body |= {"add_special": special, "add_special_tokens": special}
    found = _ids_of(*await ask("POST", "/tokenize", body))
    return found[1] if found is not None else None


def _ids_of(status: int, body: bytes) -> tuple[int, list[int]] | None:
    document = _json(body) if status == 200 else {}
    ids = document.get("tokens")
    if not isinstance(ids, list) or not all(type(one) is int for one in ids):
        return None
    return len(ids), ids


def shared_start(prompts: list[list[int]]) -> int:
    """Return the length of the longest prefix that two prompts share, in tokens."""
    ordered = sorted(prompts)
    most = 0
    for one, other in pairwise(ordered):
        same = 0
        for mine, theirs in zip(one, other, strict=False):
            if mine != theirs:
                break
            same += 1
        most = max(most, same)
    return most


def request_body(plan: Plan, prompt: Any, number: int) -> bytes:
    """Return the JSON body of a completion request. `number` counts requests from 0."""
    body: dict[str, object] = {
        "model": plan.model,
        "max_tokens": plan.most_of(number),
        "temperature": 0,
        "stream": True,
        "ignore_eos": plan.ignore_eos,
    }
    options: dict[str, object] = {"include_usage": True}
    if plan.chunk_counts:
        options["continuous_usage_stats"] = True  # vLLM
        body["timings_per_token"] = True  # llama-server
    body["stream_options"] = options
    if plan.chat:
        body["messages"] = [{"role": "user", "content": prompt}]
    else:
        body["prompt"] = prompt
    return json.dumps(body, separators=(",", ":")).encode()


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
