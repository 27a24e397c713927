"""Logs of both forms, with their errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchstack.cost.prefix.records import Message, read_log
from patchstack.errors import MissingError

SERVER = """\
0.00.500.000 I srv    load_model: initializing slots, n_slots = 2
0.01.000.000 I slot launch_slot_: id  1 | task 0 | processing task
0.01.000.100 I slot update_slots: id  1 | task 0 | new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = 391
0.01.000.200 I slot update_slots: id  1 | task 0 | cached n_tokens = 0, memory_seq_rm [0, end)
0.01.000.300 I slot update_slots: id  0 | task 5 | new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = 100
0.01.500.000 I slot print_timing: id  1 | task 0 | prompt eval time =     250.00 ms /   391 tokens
0.01.500.000 I slot print_timing: id  1 | task 0 |        eval time =      80.00 ms /    16 tokens
0.01.600.000 I slot      release: id  1 | task 0 | stop processing: n_tokens = 406, truncated = 0
0.03.000.100 I slot update_slots: id  1 | task 9 | new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = 610
0.03.000.200 I slot update_slots: id  1 | task 9 | cached n_tokens = 391, memory_seq_rm [391, end)
0.03.500.000 I slot print_timing: id  1 | task 9 | prompt eval time =     150.00 ms /   219 tokens
0.03.600.000 I slot      release: id  1 | task 9 | stop processing: n_tokens = 625, truncated = 0
0.00.500.000 I srv    load_model: initializing slots, n_slots = 2
"""


def test_a_servers_log_gives_steps_with_times_and_says_what_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(SERVER)
    log = read_log(path)
    assert [(one.total, one.cached, one.prefill, one.decode) for one in log.records] == [
        (391, 0, 0.25, 0.08),
        (610, 391, 0.15, None),
    ]
    first, second = log.records
    assert first.ended is not None
    assert second.started is not None
    assert second.started - first.ended == pytest.approx(1.4001)
    assert log.gaps == ("server restarts: 1", "requests without an end: 1")


def test_a_log_without_prompts_gives_them_from_what_the_slot_holds_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("".join(line + "\n" for line in SERVER.splitlines() if "update_slots" not in line))
    log = read_log(path)
    assert [(one.total, one.cached) for one in log.records] == [(391, 0)]
    assert "requests without the number of reused tokens: 1 (start the server with -lv 4)" in log.gaps


def test_json_lines_give_requests_answers_and_both(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    image = {"type": "image_url", "image_url": {"url": "data:"}}
    lines = [
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "look"}, image]}]},
        {"timings": {"cache_n": 3, "prompt_n": 7, "prompt_ms": 1500.0, "predicted_n": 4}},
        {
            "request": {"prompt": "hello", "id_slot": 1},
            "response": {"content": " world", "tokens": [5, 6], "timings": {"cache_n": 0, "prompt_n": 5}},
            "started": 1.5,
            "ended": 2.0,
        },
    ]
    path.write_text("\n".join(json.dumps(one) for one in lines))
    first, second, third = read_log(path).records
    assert first.messages == (Message(role="user", text="look", images=("e922ab810433d5b2",)),)
    assert (second.total, second.cached, second.prefill, second.generated) == (10, 3, 1.5, 4)
    assert (third.prompt, third.slot, third.answer, third.answer_tokens) == ("hello", 1, " world", (5, 6))


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "{}",
        '{"messages": 3}',
        '{"messages": [{}]}',
        '{"prompt": [1]}',
        '{"timings": {"cache_n": "x", "prompt_n": 1}}',
        '{"timings": {"cache_n": 1e400, "prompt_n": 1}}',
        '{"request": 5}',
        "[" * 100_000,
    ],
)
def test_lines_that_cannot_be_read_are_gaps(tmp_path: Path, line: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"timings": {"cache_n": 3, "prompt_n": 7}}\n' + line + "\n")
    log = read_log(path)
    assert len(log.records) == 1
    assert log.gaps[0].startswith("unreadable lines: 1, the first is log.jsonl:2: ")


@pytest.mark.parametrize("text", ["", "hello\n", "{}\n"])
def test_a_log_without_steps_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(MissingError, match="has no steps"):
        read_log(path)
    with pytest.raises(MissingError, match="does not exist"):
        read_log(tmp_path / "nowhere")
