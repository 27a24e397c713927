"""Compare the predicted reuse of prompts with a real llama-server, over scripted conversations.

Tiny models with attention alone, with a window, and hybrid; chat and plain completions; one slot, two, and the server's
own choice. A conversation appends, or has a message changed, cut or rendered otherwise at a step. Every `cache_n` must
be predicted exactly, and every changed message must be named.

    python -m benchmarks.cost_prefix --bin DIR [--conversations 200] [--steps 5] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchstack.cost.prefix.records import read_log
from patchstack.workflow.agent_steps import AgentStep, ServerTokens, follow
from patchstack.workflow.cost import open_subject
from tests.support import tiny_gguf
from tests.support.llama_server import Server, llama_server
from tests.support.tiny_window import write_window_model

KINDS = ("attention", "window", "hybrid")
OPTIONS = (
    ("-c", "4096", "-np", "1", "-ub", "64", "-b", "256"),
    ("-c", "4096", "-np", "1", "-ub", "64", "-cms", "0"),
    ("-c", "8192", "-np", "2", "-ub", "64", "-cms", "0", "-ctxcp", "4"),
    ("-c", "8192", "-ub", "64"),
)
EDITS = ("append", "append", "edit", "cut", "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a server's conversations: steps, wrong predictions, planted changes, and changes that were not
    named."""

    steps: int
    wrong: tuple[str, ...]
    planted: int
    unnamed: tuple[str, ...]


def words(draw: random.Random, count: int) -> str:
    """Return text with about `count` tokens in a vocabulary of bytes."""
    return "".join(draw.choice("abcdefgh ") for _ in range(count))


def plant(draw: random.Random, messages: list[dict[str, str]], kind: str) -> int | None:
    """Change a conversation before its next step. Return the index of the message that changed."""
    if kind == "edit":
        at = draw.randrange(1, len(messages))
        messages[at] = {**messages[at], "content": "x" + words(draw, draw.randrange(10, 80))}
        return at
    if kind == "cut":
        del messages[1:3]
        return 1
    if kind == "other" and messages[-1]["role"] == "assistant":
        messages[-1] = {**messages[-1], "content": messages[-1]["content"].strip() + " !"}
        return len(messages) - 1
    return None


def converse(server: Server, draw: random.Random, *, count: int, steps: int, chat: bool) -> tuple[list[Any], list[Any]]:
    """Run conversations one after the other, every third with the next mixed in. Return log lines and planted
    indexes."""
    lines: list[Any] = []
    planted: list[Any] = []
    talks = [[{"role": "system", "content": words(draw, draw.randrange(60, 200))}] for _ in range(count)]
    turns = [number for number in range(count) for _ in range(steps)]
    for at in range(0, len(turns) - steps, 3 * steps):  # interleave two conversations
        both = turns[at : at + 2 * steps]
        turns[at : at + 2 * steps] = [one for pair in zip(both[:steps], both[steps:], strict=False) for one in pair]
    for number in turns:
        messages = talks[number]
        kind = draw.choice(EDITS) if len(messages) > 3 else "append"
        planted.append(plant(draw, messages, kind))
        messages.append({"role": "user", "content": f"{number} " + words(draw, draw.randrange(20, 220))})
        body: dict[str, Any] = {"temperature": 0, "return_tokens": True}
        if chat:
            body |= {"messages": messages, "max_tokens": 12, "verbose": True}
            answer = server.post("/v1/chat/completions", body)
            text = answer["choices"][0]["message"]["content"] or ""
        else:
            body |= {"prompt": "".join(one["content"] + "\n" for one in messages), "n_predict": 12}
            answer = server.post("/completion", body)
            text = answer["content"]
        lines.append(json.loads(json.dumps({"request": body, "response": answer})))
        messages.append({"role": "assistant", "content": text})
    return lines, planted


def check(
    binaries: Path, model: Path, options: tuple[str, ...], work: Path, draw: random.Random, **script: Any
) -> Outcome:
    """Run a server, log its conversations, follow the log, and compare."""
    log = work / "log.jsonl"
    with llama_server(binaries, model, work / "server.log", *options) as server:
        lines, planted = converse(server, draw, **script)
        log.write_text("\n".join(json.dumps(one) for one in lines))
        subject = open_subject(model, options)
        run = follow(read_log(log), subject.workload().layout, subject.options, ServerTokens(server.url))
    wrong = [
        f"step {at}: {one.cached} of {one.total}, predicted {one.predicted}"
        for at, one in enumerate(run.steps)
        if one.predicted != one.cached
    ]
    named = list(zip(run.steps, planted, strict=True)) if script["chat"] else []
    unnamed = [
        f"step {at}: planted {index}, told {one.blame}"
        for at, (one, index) in enumerate(named)
        if not _names(one, index)
    ]
    return Outcome(
        steps=len(run.steps),
        wrong=tuple(wrong),
        planted=sum(index is not None for _, index in named),
        unnamed=tuple(unnamed),
    )


def _names(step: AgentStep, planted: int | None) -> bool:
    return (step.blame.message if step.blame else None) == planted


def main() -> int:
    """Exit status: 0 if everything was predicted and named, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    cases = [(kind, chosen, chat) for kind in KINDS for chosen in OPTIONS for chat in (True, False)]
    each = -(-options.conversations // len(cases))
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        models = {
            "attention": tiny_gguf.write_model(work / "attention.gguf", "llama", chat=True),
            "window": write_window_model(work / "window.gguf"),
            "hybrid": tiny_gguf.write_model(work / "hybrid.gguf", "qwen35", chat=True),
        }
        for number, (kind, chosen, chat) in enumerate(cases):
            draw = random.Random(options.seed * 1000 + number)
            found = check(options.bin, models[kind], chosen, work, draw, count=each, steps=options.steps, chat=chat)
            total.update(
                conversations=each,
                steps=found.steps,
                wrong=len(found.wrong),
                planted=found.planted,
                unnamed=len(found.unnamed),
            )
            told = f"{found.steps} steps, {len(found.wrong)} wrong"
            told += f", {found.planted} planted, {len(found.unnamed)} not named"
            print(f"{kind:9} {'chat' if chat else 'plain':5} {' '.join(chosen)}: {told}", flush=True)
            for line in (*found.wrong[:3], *found.unnamed[:3]):
                print(f"  {line}", flush=True)
    print(json.dumps(total))
    return int(bool(total["wrong"] or total["unnamed"]))


if __name__ == "__main__":
    sys.exit(main())
