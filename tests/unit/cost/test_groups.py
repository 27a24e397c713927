"""Every tensor is in one group, and a step reads what it must."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.cost.experts import Routing
from patchstack.cost.model import read_model
from patchstack.cost.weights import Group, StepSize, place, weigh
from tests.support import tiny_gguf
from tests.support.gguf_header import Shape, Value, hybrid_35b, qwen3_32b, write_shape

NAMES = {
    "token_embd.weight": Group.EMBEDDINGS,
    "per_layer_token_embd.weight": Group.EMBEDDINGS,
    "output.weight": Group.HEAD,
    "output_norm.weight": Group.NORMS,
    "rope_freqs.weight": Group.OTHER,
    "blk.0.attn_norm.weight": Group.NORMS,
    "blk.0.attn_q.weight": Group.ATTENTION,
    "blk.0.attn_q.scale": Group.ATTENTION,
    "blk.0.attn_q_norm.weight": Group.ATTENTION,
    "blk.0.attn_qkv.weight": Group.ATTENTION,
    "blk.0.attn_output.weight": Group.ATTENTION,
    "blk.0.attn_kv_a_mqa.weight": Group.ATTENTION,
    "blk.0.ffn_norm.weight": Group.NORMS,
    "blk.0.ffn_gate.weight": Group.DENSE,
    "blk.0.ffn_gate_inp.weight": Group.ROUTER,
    "blk.0.exp_probs_b.bias": Group.ROUTER,
    "blk.0.ffn_gate_inp_shexp.weight": Group.ROUTER,
    "blk.0.ffn_gate_up_exps.weight": Group.EXPERTS,
    "blk.0.ffn_down_exps.input_scale": Group.EXPERTS,
    "blk.0.ffn_down_shexp.weight": Group.SHARED,
    "blk.1.attn_qkv.weight": Group.RECURRENT,
    "blk.1.attn_gate.weight": Group.RECURRENT,
    "blk.1.ssm_dt.bias": Group.RECURRENT,
    "blk.1.ssm_a": Group.RECURRENT,
    "blk.2.time_mix_key.weight": Group.RECURRENT,
    "blk.2.channel_mix_key.weight": Group.DENSE,
    "blk.3.attn_q.weight": Group.DRAFT,
    "blk.3.nextn.eh_proj.weight": Group.DRAFT,
    "blk.3.ffn_gate_exps.weight": Group.DRAFT,
}


def test_names_decide(tmp_path: Path) -> None:
    keys: dict[str, Value] = {"general.architecture": "x", "x.block_count": 4, "x.nextn_predict_layers": 1}
    path = write_shape(tmp_path / "model.gguf", keys, [Shape(name, (32,)) for name in NAMES])
    assert {one.tensor.name: one.group for one in place(read_model(path))} == NAMES


@pytest.mark.parametrize("architecture", tiny_gguf.ARCHITECTURES)
def test_the_groups_of_a_real_file_sum_to_it(tmp_path: Path, architecture: tiny_gguf.Architecture) -> None:
    tiny_gguf.need_gguf()
    model = read_model(tiny_gguf.write_model(tmp_path / "model.gguf", architecture))
    placed = place(model)
    assert all(one.group is not Group.OTHER for one in placed)
    rows = weigh(placed, StepSize(tokens=1, routing=Routing(experts=8, used=2)))
    assert sum(one.file_bytes for one in rows) == model.tensor_bytes
    assert sum(one.tensors for one in rows) == len(model.tensors)


def test_a_tied_head_is_read_whole_and_its_table_in_rows(tmp_path: Path) -> None:
    keys, shapes = qwen3_32b()
    untied = read_model(write_shape(tmp_path / "untied.gguf", keys, shapes))
    tied = read_model(write_shape(tmp_path / "tied.gguf", keys, [one for one in shapes if one.name != "output.weight"]))
    step = StepSize(tokens=3, routing=Routing())
    head = {one.group: one for one in weigh(place(tied), step)}[Group.HEAD]
    assert (head.file_bytes, head.type, head.step_bytes) == (0, "q4_K", 151936 * 5120 // 256 * 144)
    table = {one.group: one for one in weigh(place(untied), step)}[Group.EMBEDDINGS]
    assert table.step_bytes == 3 * 5120 // 256 * 144


def test_the_draft_block_is_read_only_when_it_drafts(tmp_path: Path) -> None:
    placed = place(read_model(write_shape(tmp_path / "model.gguf", *hybrid_35b(vocab=600))))
    routing = Routing(experts=256, used=8)
    for drafting in (False, True):
        rows = weigh(placed, StepSize(tokens=1, routing=routing, drafting=drafting))
        assert bool(sum(one.step_bytes for one in rows if one.group is Group.DRAFT)) is drafting


def test_no_outputs_no_head(tmp_path: Path) -> None:
    placed = place(read_model(write_shape(tmp_path / "model.gguf", *hybrid_35b(vocab=600))))
    rows = weigh(placed, StepSize(tokens=9, routing=Routing(experts=256, used=8), outputs=0))
    assert sum(one.step_bytes for one in rows if one.group is Group.HEAD) == 0
