"""The cost of a decode step with drafted tokens: by a draft model, by the model's own block, by n-grams."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from patchstack.cost.floors import DRAFT_MODEL, KV_READ, decode_floor, draft_bytes
from tests.support.cost_models import head_alone, recurrent_alone, window_alone, workload
from tests.support.gguf_header import hybrid_35b, qwen3_32b, write_shape


def test_a_draft_model_runs_a_step_for_each_drafted_token_and_one_for_the_whole_batch(tmp_path: Path) -> None:
    draft = write_shape(tmp_path / "draft.gguf", *head_alone(1024, 64))
    options = ("-md", str(draft), "--spec-draft-n-max", "5", "-np", "4")
    plain = decode_floor(workload(tmp_path / "model.gguf", qwen3_32b(), "-np", "4"), 4, 512, 273e9)
    work = workload(tmp_path / "model.gguf", qwen3_32b(), *options)
    floor = decode_floor(work, 4, 512, 273e9)
    assert floor.tokens == 4 * 6
    assert work.draft is not None
    alone = decode_floor(work.draft, 4, 512, 1.0)
    head = 1024 * 64 * 2
    # Keys and values of its one layer: 8 heads of 8 elements each, in f16. Later steps read one more token.
    token = 2 * 8 * 8 * 2
    drafted = 5 * alone.bytes + 4 * token * (0 + 1 + 2 + 3 + 4)
    batch = alone.bytes - head + 4 * 5 * token
    assert floor.parts[DRAFT_MODEL] == pytest.approx(drafted + batch)
    assert floor.parts["head"] == plain.parts["head"]
    assert floor.seconds > plain.seconds


def test_the_draft_models_own_cache_types_are_read(tmp_path: Path) -> None:
    draft = write_shape(tmp_path / "draft.gguf", *window_alone())
    parts = []
    for kind in ("f16", "f32"):
        work = workload(tmp_path / "model.gguf", qwen3_32b(), "-md", str(draft), "-ctkd", kind, "-ctvd", kind)
        parts.append(decode_floor(work, 1, 4096, 1.0).parts)
    assert parts[1][DRAFT_MODEL] == pytest.approx(2 * parts[0][DRAFT_MODEL], rel=0.01)
    assert parts[1][KV_READ] == parts[0][KV_READ]


def test_without_a_drafted_token_a_draft_model_reads_nothing(tmp_path: Path) -> None:
    draft = write_shape(tmp_path / "draft.gguf", *recurrent_alone(2, 2, 16))
    work = workload(tmp_path / "model.gguf", qwen3_32b(), "-md", str(draft), "--spec-draft-n-max", "0")
    assert DRAFT_MODEL not in decode_floor(work, 1, 0, 1.0).parts


def test_the_state_of_a_recurrent_draft_model_is_read_and_written_in_every_step(tmp_path: Path) -> None:
    draft = write_shape(tmp_path / "draft.gguf", *recurrent_alone(2, 2, 16))
    work = workload(tmp_path / "model.gguf", qwen3_32b(), "-md", str(draft), "--spec-draft-n-max", "3").draft
    assert work is not None
    fewer, more = (draft_bytes(work, count, 2, 0) for count in (3, 4))
    assert more - fewer == pytest.approx(
        decode_floor(work, 2, 3, 1.0).bytes + 2 * 32 * 2 * 2
    )  # one more token in the batch
    assert more > 2 * 2 * 5 * work.layout.state_bytes


def test_the_models_own_block_runs_with_the_head_for_each_drafted_token(tmp_path: Path) -> None:
    plain = decode_floor(workload(tmp_path / "a.gguf", hybrid_35b(vocab=1024), "-np", "1"), 1, 0, 1.0)
    assert plain.parts["draft"] == 0
    work = workload(tmp_path / "a.gguf", hybrid_35b(vocab=1024), "-np", "1", "--spec-type", "draft-mtp")
    one, three = (
        decode_floor(replace(work, options=replace(work.options, draft_tokens=count)), 1, 0, 1.0) for count in (1, 3)
    )
    head = plain.parts["head"]
    assert three.parts["head"] == head
    assert one.parts["draft"] > head
    # Two more drafted tokens: twice the block and the head, and more experts of the block for the larger batch.
    assert three.parts["draft"] - one.parts["draft"] > 2 * head
    assert three.parts["draft"] < 4 * one.parts["draft"]


def test_n_grams_cost_no_steps_but_a_larger_batch(tmp_path: Path) -> None:
    plain = decode_floor(workload(tmp_path / "a.gguf", hybrid_35b(vocab=1024), "-np", "1"), 1, 0, 1.0)
    work = workload(tmp_path / "a.gguf", hybrid_35b(vocab=1024), "-np", "1", "--spec-type", "ngram-simple")
    floor = decode_floor(work, 1, 0, 1.0)
    assert floor.tokens == 1 + work.options.draft_tokens
    assert floor.parts["draft"] == 0
    assert floor.parts["experts"] > plain.parts["experts"]
    assert floor.parts["attention"] == plain.parts["attention"]
