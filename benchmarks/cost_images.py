"""Compare the predicted reuse of prompts with images with a real multimodal llama-server.

A tiny vision encoder is used with tiny models: with attention alone, with a window, and hybrid. An agent shows one
image in each step. It keeps all images in place, replaces older ones by text, or puts the last K at the end of each
prompt. Every `cache_n` must be predicted exactly. `cost prefix` predicts the last way from the log of the first. The
server's counts for an agent that works in that way must be equal.

    python -m benchmarks.cost_images --bin DIR [--steps 8] [--images 3] [--kind KIND]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from patchstack.cost.prefix.records import read_log
from patchstack.workflow.agent_steps import AgentRun, ServerTokens, follow
from patchstack.workflow.cost import open_subject
from tests.support import tiny_gguf
from tests.support.llama_server import llama_server
from tests.support.tiny_vision import IMAGE_TOKENS, image_address, write_vision_model
from tests.support.tiny_window import write_window_model

OPTIONS = (("-c", "4096", "-np", "1", "-ub", "64", "-b", "256"), ("-c", "4096", "-np", "1", "-ub", "64", "-cms", "0"))
KINDS = ("attention", "hybrid", "window")
WAYS = ("in place", "evicted", "at the end")


def image(number: int) -> dict[str, Any]:
    """Return the image of a step."""
    return {"type": "image_url", "image_url": {"url": image_address(number)}}


def text(words: str) -> dict[str, Any]:
    """Return a part of a message that is text."""
    return {"type": "text", "text": words}


def prompts(way: str, steps: int, kept: int, answers: list[str]) -> Iterator[list[dict[str, Any]]]:
    """Yield the messages of every step. `answers` grows while the agent goes on, or has all of them."""
    said = [f"step {step}: " + "look at this and go on " * 2 for step in range(steps)]
    for step in range(steps):
        messages: list[dict[str, Any]] = [{"role": "system", "content": "You are an agent. " * 6}]
        for at in range(step + 1):
            content = [text(said[at])]
            if way == "in place" or (way == "evicted" and at > step - kept):
                content.append(image(at))
            elif way == "evicted":
                content.append(text("[evicted]"))
            messages.append({"role": "user", "content": content})
            if at < step:
                messages.append({"role": "assistant", "content": answers[at]})
        if way == "at the end":
            shown = range(max(0, step + 1 - kept), step + 1)
            messages.append({"role": "user", "content": [image(one) for one in shown]})
        yield messages


def run_agent(
    binaries: Path, files: dict[str, Path], options: tuple[str, ...], way: str, told: list[str], how: argparse.Namespace
) -> tuple[AgentRun, list[str]]:
    """Run an agent against a fresh server, and follow its log. `told` are the answers that it uses; without them, those
    of the server."""
    log = files["work"] / "log.jsonl"
    more = (*options, "--mmproj", str(files["vision"]))
    lines, answers = [], list(told)
    with llama_server(binaries, files["model"], files["work"] / "server.log", *more) as server:
        for messages in prompts(way, how.steps, how.images, answers):
            body = {"messages": messages, "max_tokens": 8, "temperature": 0, "return_tokens": True, "verbose": True}
            answer = server.post("/v1/chat/completions", body)
            lines.append(json.dumps({"request": body, "response": answer}))
            if not told:
                answers.append(answer["choices"][0]["message"]["content"] or "")
        log.write_text("\n".join(lines))
        subject = open_subject(files["model"], options)
        tokens = ServerTokens(server.url)
        run = follow(
            read_log(log), subject.workload().layout, subject.options, tokens, last_images=how.images, image_tokens=0
        )
    return run, answers


def main() -> int:
    """Exit status: 0 if everything was predicted, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--images", type=int, default=3)
    parser.add_argument("--kind", action="append", choices=KINDS, help="models of this kind alone (repeat)")
    how = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        models = {
            "attention": tiny_gguf.write_model(work / "attention.gguf", "llama", chat=True),
            "hybrid": tiny_gguf.write_model(work / "hybrid.gguf", "qwen35", chat=True),
            "window": write_window_model(work / "window.gguf"),
        }
        vision = write_vision_model(work / "vision.gguf")
        print(f"an image is {IMAGE_TOKENS} tokens; {how.steps} steps, the last {how.images} images", flush=True)
        for kind in how.kind or KINDS:
            files = {"work": work, "model": models[kind], "vision": vision}
            for options in OPTIONS:
                wrong += _compare(how, kind, files, options)
    print(json.dumps({"wrong": wrong}))
    return int(bool(wrong))


def _compare(how: argparse.Namespace, kind: str, files: dict[str, Path], options: tuple[str, ...]) -> int:
    """Run the three ways, and return the number of wrong predictions."""
    wrong, foretold = 0, 0
    answers: list[str] = []
    for way in WAYS:
        run, given = run_agent(how.bin, files, options, way, answers, how)
        answers = answers or given
        missed = [(at, one.cached, one.predicted) for at, one in enumerate(run.steps) if one.predicted != one.cached]
        processed = sum(one.processed for one in run.steps)
        told = f"{kind:9} {' '.join(options)}, {way}: {processed} processed, {len(missed)} of {len(run.steps)} wrong"
        if way == WAYS[0]:
            foretold = next(one.processed for one in run.ways if one.name == f"last {how.images} images at the end")
        if way == WAYS[-1]:
            told += f", foretold {foretold}"
            wrong += foretold != processed
        print(told, *missed[:3], flush=True)
        wrong += len(missed)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
