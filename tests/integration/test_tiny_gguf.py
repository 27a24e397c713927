"""The tiny models: the same bytes for the same arguments, and real llama.cpp runs them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.tiny_gguf import ARCHITECTURES, Architecture, need_gguf, write_model

BIN = os.environ.get("PATCHSTACK_LLAMA_BIN", "")
needs_llama = pytest.mark.skipif(not BIN, reason="PATCHSTACK_LLAMA_BIN names no build of llama.cpp")

PROMPT = "The capital of France is"
OPTIONS = ("-ngl", "99", "-fa", "on", "-fit", "off", "-c", "512", "--temp", "0", "--seed", "1", "-n", "32", "--perf")


@pytest.fixture(autouse=True)
def gguf() -> None:
    need_gguf()


def transcript(model: Path) -> str:
    """Return real llama.cpp's output for the prompt, from the first run that lost nothing."""
    for _ in range(40):
        done = subprocess.run(
            [f"{BIN}/llama-completion", "-m", model, *OPTIONS, "-p", PROMPT],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            check=True,
            text=True,
        )
        if "graphs reused =" in done.stderr:
            return done.stdout
    raise AssertionError("40 runs lost their output")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_model_is_small_and_its_arguments_say_all_of_its_bytes(tmp_path: Path, architecture: Architecture) -> None:
    content = write_model(tmp_path / "one.gguf", architecture).read_bytes()
    assert content[:4] == b"GGUF"
    assert 1 << 20 < len(content) < 4 << 20
    assert write_model(tmp_path / "again.gguf", architecture).read_bytes() == content
    assert write_model(tmp_path / "other.gguf", architecture, seed=2).read_bytes() != content
    assert len(write_model(tmp_path / "exact.gguf", architecture, weights="f32").read_bytes()) > 1.8 * len(content)


@needs_llama
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_real_llama_runs_a_model_and_every_seed_says_something_else(tmp_path: Path, architecture: Architecture) -> None:
    said = [transcript(write_model(tmp_path / f"{seed}.gguf", architecture, seed=seed)) for seed in (1, 1, 2)]
    assert said[0] == said[1] != said[2]
    for text in said:
        assert re.fullmatch(re.escape(PROMPT) + r"[ -~]{32}\n\n", text)
        # a model that repeats one character would not notice a wrong token
        assert len(set(text[len(PROMPT) :].strip())) > 6


@needs_llama
def test_a_chat_template_makes_a_conversation_of_it(tmp_path: Path) -> None:
    plain = transcript(write_model(tmp_path / "plain.gguf", "llama"))
    chat = transcript(write_model(tmp_path / "chat.gguf", "llama", chat=True))
    assert plain != chat
    assert "assistant" in chat
