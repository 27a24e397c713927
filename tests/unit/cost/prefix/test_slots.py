"""The reuse of a server's slots. The rows are from llama-server at the pin for tiny models with `-ub 64`."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.cost.architecture import Layout
from patchstack.cost.prefix.slots import Request, Slots
from patchstack.cost.server_options import read_options
from tests.support import tiny_gguf
from tests.support.cost_models import workload
from tests.support.gguf_header import Value

USER = 211  # tokens of a user message, with the start of the answer
TURN = 219  # what a turn adds: an answer of 8 tokens and a user message
ANSWER = (-1, -2, -3)  # generated text returns as different tokens


@pytest.fixture
def layouts(tmp_path: Path) -> dict[str, Layout]:
    """Return the memory layouts of tiny models: attention alone, and hybrid."""
    found = {}
    for architecture in ("llama", "qwen35"):
        keys: dict[str, Value] = {
            "general.architecture": architecture,
            f"{architecture}.block_count": 4,
            f"{architecture}.context_length": tiny_gguf.CONTEXT,
            f"{architecture}.embedding_length": 128,
            f"{architecture}.attention.head_count": 4,
            f"{architecture}.attention.head_count_kv": 2,
            f"{architecture}.vocab_size": 288,
            f"{architecture}.ssm.conv_kernel": 4,
            f"{architecture}.ssm.state_size": 64,
            f"{architecture}.ssm.group_count": 2,
            f"{architecture}.ssm.inner_size": 256,
        }
        found[architecture] = workload(tmp_path / f"{architecture}.gguf", (keys, [])).layout
    return found


def chat(turns: int, edited: int) -> list[Request]:
    """Return a chat whose first user message becomes 183 tokens shorter, 6 tokens after its start, at one turn."""
    tokens = list(range(180 + USER))
    starts, found = [180], []
    for turn in range(turns):
        if turn == edited:
            tokens = [*tokens[:186], -7, *tokens[186 + 184 :]]
            starts = [starts[0], *(one - 183 for one in starts[1:])]
        answer = [10_000 * (turn + 1) + at for at in range(8)]
        found.append(Request(prompt=tuple(tokens), generated=ANSWER, user_starts=tuple(starts)))
        tokens += answer
        starts.append(len(tokens))
        tokens += [10_000 * (turn + 1) + 100 + at for at in range(USER)]
    return found


def processed(layout: Layout, requests: list[Request], *options: str) -> list[int]:
    server = Slots(layout, read_options(["-ub", "64", "-np", "1", "-c", "4096", *options]))
    return [server.serve(one).processed for one in requests]


def test_attention_processes_what_is_new_and_all_after_an_edit(layouts: dict[str, Layout]) -> None:
    assert processed(layouts["llama"], chat(6, 4)) == [391, 219, 219, 219, 898, 219]


def test_a_hybrid_model_without_spacing_goes_back_four_tokens(layouts: dict[str, Layout]) -> None:
    assert processed(layouts["qwen35"], chat(6, 4), "-cms", "0") == [391, 223, 223, 223, 904, 223]


def test_a_hybrid_model_at_the_defaults_processes_each_last_user_message_twice(layouts: dict[str, Layout]) -> None:
    assert processed(layouts["qwen35"], chat(6, 4)) == [391, 430, 430, 430, 904, 430]


def test_plain_completions_of_a_hybrid_model_stay_quadratic_at_the_defaults(layouts: dict[str, Layout]) -> None:
    tokens = list(range(363))
    found = []
    for turn in range(6):
        if turn == 4:
            tokens = [-1, *tokens[184:]]
        answer = [10_000 * (turn + 1) + at for at in range(8)]
        found.append(Request(prompt=tuple(tokens), generated=ANSWER))
        tokens = tokens + answer + [10_000 * (turn + 1) + 100 + at for at in range(192)]
    assert processed(layouts["qwen35"], found) == [363, 268, 468, 668, 980, 268]


def test_with_more_than_32_checkpoints_the_oldest_goes_and_an_early_edit_costs_all(layouts: dict[str, Layout]) -> None:
    requests = chat(15, 14)
    server = Slots(layouts["qwen35"], read_options(["-ub", "64", "-np", "1", "-c", "8192", "-cms", "0"]), context=8192)
    reuses = [server.serve(one) for one in requests]
    assert max(len(one.checkpoints) for one in reuses) == 32
    assert sum(one.lost_checkpoints for one in reuses) > 0
    assert (reuses[-1].cached, reuses[-1].total) == (0, 391 + 14 * TURN - 183)


def test_the_whole_prompt_again_processes_one_token_or_goes_back_to_a_checkpoint(layouts: dict[str, Layout]) -> None:
    one = Request(prompt=tuple(range(300)), generated=(1, 2, 3))
    assert processed(layouts["llama"], [one, one]) == [300, 1]
    assert processed(layouts["qwen35"], [one, one], "-cms", "0") == [300, 4]


def test_a_prompt_beyond_the_context_is_refused(layouts: dict[str, Layout]) -> None:
    server = Slots(layouts["llama"], read_options(["-np", "1", "-c", "512"]))
    assert server.serve(Request(prompt=tuple(range(512)))).refused
    assert not server.serve(Request(prompt=tuple(range(511)))).refused


def test_two_conversations_keep_their_slots_and_one_cleared_comes_back_from_host_memory(
    layouts: dict[str, Layout],
) -> None:
    first, second = tuple(range(400)), tuple(range(1000, 1400))
    for options in ((), ("-np", "2"), ("-np", "2", "-cram", "0")):
        server = Slots(layouts["llama"], read_options(["-c", "4096", *options]))
        assert [server.serve(Request(prompt=one, generated=(1, 2))).cached for one in (first, second)] == [0, 0]
        assert server.serve(Request(prompt=(*first, 1, 2, 3), generated=(1,))).cached == 401
        assert server.serve(Request(prompt=(*second, 1, 2, 3), generated=(1,))).cached == 401


def test_a_request_without_cache_processes_all(layouts: dict[str, Layout]) -> None:
    one = Request(prompt=tuple(range(300)), generated=(1,), cache=False)
    assert processed(layouts["llama"], [one, one]) == [300, 300]
