"""Counts in rows, with the bytes and operations of the calls."""

from __future__ import annotations

import pytest

from patchstack.llama.traces.graphs import folded, layer_of
from patchstack.llama.traces.records import TYPES, row_bytes, type_name, type_of
from patchstack.trace.figures import NONE, Work, by_route, by_shape, by_tensor, spread, work_of
from tests.support import tiny_gguf
from tests.support.trace_logs import read

MUL_MAT = (
    "trace_mul_mat_route route={} type=nvfp4 type1=f32 ne0=4096 ne1={} ne00=2048 ne11={} ne12=1 ne13=1"
    " src0=blk.{}.attn_q.weight src1=attn_norm-0 dst=Qcur-{}"
)


def test_types_are_those_of_gguf() -> None:
    tiny_gguf.need_gguf()
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    sizes = {kind.value: size for kind, size in GGML_QUANT_SIZES.items()}
    for one in TYPES:
        if one.number in sizes and one.name != "q8_1":  # gguf counts its two half-precision scales as floats
            assert (one.block, one.size) == sizes[one.number], one
            assert one.name.lower() == GGMLQuantizationType(one.number).name.lower()
    assert {one.number for one in TYPES} >= set(sizes) - {GGMLQuantizationType.Q8_1.value}


def test_a_type_is_one_by_name_and_number() -> None:
    assert type_name("40") == type_name("NVFP4") == type_name("nvfp4") == "nvfp4"
    assert (type_name("12"), type_name("q4_K"), type_name("new"), type_of("999")) == ("q4_K", "q4_K", "new", None)
    assert (row_bytes("nvfp4", 64), row_bytes("nvfp4", 65), row_bytes("new", 64)) == (36, 72, None)


@pytest.mark.parametrize(
    ("name", "fold", "layer"),
    [
        ("blk.17.ffn_gate_exps.weight", "blk.N.ffn_gate_exps.weight", 17),
        ("Qcur-3", "Qcur-N", 3),
        ("ffn_norm-0_(reshaped)", "ffn_norm-N_(reshaped)", 0),
        ("cache_k_l11_(view)", "cache_k_lN_(view)", 11),
        ("conv_state_update-0_(copy_of_conv_state_last-0)", "conv_state_update-N_(copy_of_conv_state_last-N)", 0),
        ("node_201", "node_N", None),
        ("token_embd.weight", "token_embd.weight", None),
        ("output.weight", "output.weight", None),
        ("-", "-", None),
        ("CUDA0#inp_embd#0", "CUDA0#inp_embd#N", None),
    ],
)
def test_layers_are_folded(name: str, fold: str, layer: int | None) -> None:
    assert (folded(name), layer_of(name)) == (fold, layer)


def test_rows_say_how_many_calls_are_for_few_tokens() -> None:
    lines = [
        MUL_MAT.format(route, width, width, layer, layer)
        for layer in range(4)
        for route, width in (("vec_q", 1), ("mmq", 512))
    ]
    (trace,) = read(*lines).traces
    rows = by_route(trace)
    assert [(row.route, row.calls, row.decode, row.prefill) for row in rows] == [
        ("mmq nvfp4 f32", 4, 0, 4),
        ("vec_q nvfp4 f32", 4, 4, 0),
    ]
    assert rows[0].work == Work(
        4 * 2 * 2048 * 4096 * 512, 4 * (4096 * 2048 // 64 * 36 + 512 * 2048 * 4 + 4096 * 512 * 4)
    )
    assert [row.about for row in by_tensor(trace)] == ["blk.N.attn_q.weight -> Qcur-N"] * 2
    assert [row.decode for row in by_route(trace, decode_tokens=512)] == [4, 4]
    assert by_shape(trace)[0].about == "ne0=4096 ne1=512 ne00=2048 ne11=512 ne12=1 ne13=1"


def test_experts_are_read_once_and_at_most_all() -> None:
    values: dict[str, int | str] = {"type": "nvfp4", "ne1": 8, "ne0": 512, "ne00": 2048, "n_expert": 256}
    one = work_of("moe_mmid_route", {**values, "ne2": 1})
    many = work_of("moe_mmid_route", {**values, "ne2": 128})
    expert = 512 * 2048 // 64 * 36
    assert one == Work(2 * 2048 * 512 * 8, 8 * expert + 2048 * 4 + 512 * 8 * 4)
    assert many == Work(2 * 2048 * 512 * 8 * 128, 256 * expert + 2048 * 128 * 4 + 512 * 8 * 128 * 4)


def test_layouts_move_and_do_not_compute() -> None:
    assert work_of("layout", {"op": "cpy", "bytes": 6144}) == Work(0, 6144)


def test_what_shapes_do_not_say_is_not_known() -> None:
    assert work_of("LLAMA_MOE_MMQ_SHAPE", {"type": "nvfp4", "ncols_dst": 8}) == NONE
    assert work_of("mul_mat_route", {"type": "nvfp4", "type1": "f32", "ne0": "(more)"}) == NONE
    unknown = work_of(
        "cublas_route",
        {"type": "new", "type1": "f32", "row_diff": 1, "src1_ncols": 1, "ne00": 1, "ne10": 1, "batch": 1},
    )
    assert unknown == Work(2, None)


def test_spread() -> None:
    even = spread({"a": 5, "b": 5, "c": 5, "d": 5})
    assert even is not None and (even.entropy, even.top_share, even.distinct) == (2.0, 0.25, 4)
    one = spread({"a": 7})
    assert one is not None and (one.entropy, one.top, one.top_share) == (0.0, "a", 1.0)
    assert spread({}) is None
