"""A server's command line as llama.cpp reads it."""

from __future__ import annotations

import pytest

from patchstack.cost.server_options import read_options
from patchstack.errors import UsageError


def test_without_slots_there_are_four_in_one_cache() -> None:
    for command in ([], ["llama-server"], ["-np", "-1"], ["llama-server", "-m", "x.gguf"]):
        assert (read_options(command).slots, read_options(command).unified) == (4, True)


def test_with_slots_each_has_a_stream_unless_told_otherwise() -> None:
    assert not read_options(["-np", "3"]).unified
    assert read_options(["-np", "3", "-kvu"]).unified
    assert not read_options(["-np", "1"]).unified


def test_options_are_read_in_all_their_forms() -> None:
    words = "server -c 4096 --batch-size=1024 -ub 256 -ctk q8_0 --cache-type-v f16 -fa off --swa-full -ctxcp 8 -cms 0"
    found = read_options([*words.split(), "-cram", "-1", "-sps", "0.5", "--no-cache-idle-slots"])
    assert (found.context, found.batch, found.ubatch, found.key_type.name) == (4096, 1024, 256, "q8_0")
    assert (found.flash_attention, found.swa_full, found.checkpoints, found.spacing) == (False, True, 8, 0)
    assert (found.cache_ram, found.similarity, found.save_idle) == (-1, 0.5, False)


def test_drafting_has_its_own_length() -> None:
    assert read_options(["--spec-draft-n-max", "5"]).draft_tokens == 0
    assert read_options(["--spec-type", "draft-mtp"]).draft_tokens == 3
    found = read_options(["--spec-type", "draft-mtp", "--spec-draft-n-max", "5"])
    assert (found.draft_tokens, found.self_drafting) == (5, True)
    assert not read_options(["-md", "draft.gguf"]).self_drafting


def test_options_that_are_not_understood_are_named_with_their_value() -> None:
    found = read_options(["--port", "80", "--frobnicate", "7", "--jinja", "--loudly", "-c", "512"])
    assert found.unknown == ("--frobnicate 7", "--loudly")
    assert found.ignored == ("--port", "--jinja")
    assert found.context == 512


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("-c x", "-c x: not a whole number"),
        ("-c", "-c has no value"),
        ("-c -5", "-c -5: must be 0 (the model's training context) or more tokens"),
        ("-np 0", "-np 0: must be 1 to 256 slots, or -1 for the default of 4"),
        ("-np 300", "-np 300: must be 1 to 256 slots, or -1 for the default of 4"),
        ("-ctk q4_K", "-ctk q4_K: not a cache type; use one of f32, f16"),
        ("-fa maybe", "-fa maybe: use on, off or auto"),
        ("-cms -1", "-cms -1: must be 0 tokens or more"),
        ("--spec-type magic", "--spec-type magic: use one of draft-eagle3"),
    ],
)
def test_values_that_cannot_be_are_refused(command: str, says: str) -> None:
    with pytest.raises(UsageError) as told:
        read_options(["llama-server", *command.split()])
    assert any(problem.startswith(says) for problem in told.value.problems), told.value.problems
