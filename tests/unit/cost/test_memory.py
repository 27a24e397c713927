"""Allocations for each kind of memory. The figures are those that llama.cpp at the pin printed for such models."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.cost.architecture import Kind
from patchstack.cost.memory import MIB, Loaded, allocate, largest_context, most_slots
from patchstack.cost.server_options import read_options
from patchstack.errors import UsageError
from tests.support.cost_models import workload
from tests.support.gguf_header import Value, hybrid_35b

OPTIONS = ("-c", "4096", "-np", "2")


def described(architecture: str, **more: Value) -> dict[str, Value]:
    """Return the keys of a model of 8 layers."""
    found: dict[str, Value] = {
        "block_count": 8,
        "context_length": 32768,
        "embedding_length": 1024,
        "vocab_size": 1000,
        "attention.head_count": 8,
        "attention.head_count_kv": 2,
        "attention.key_length": 128,
        "attention.value_length": 128,
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    return {"general.architecture": architecture, **{f"{architecture}.{key}": value for key, value in found.items()}}


@pytest.mark.parametrize(
    ("options", "context", "stream", "streams"),
    [
        ("-c 5000 -np 3", 5376, 1792, 3),
        ("-c 5000 -np 3 -kvu", 5120, 5120, 1),
        ("-c 300 -np 1", 512, 512, 1),
        ("-c 0 -np 1", 32768, 32768, 1),
        ("", 32768, 32768, 1),
    ],
)
def test_contexts_are_padded_and_divided(tmp_path: Path, options: str, context: int, stream: int, streams: int) -> None:
    work = workload(tmp_path / "model.gguf", (described("llama"), []), *options.split())
    memory = allocate(work.layout, work.options, 0)
    assert (memory.cells.context, memory.cells.stream, memory.cells.streams) == (context, stream, streams)
    assert memory.context == context * 8 * 2 * 2 * 128 * 2


def test_a_window_has_a_cache_of_its_own(tmp_path: Path) -> None:
    work = workload(
        tmp_path / "model.gguf", (described("gemma3", attention__sliding_window=1024), []), *["-c", "32768", "-np", "2"]
    )
    base, window = allocate(work.layout, work.options, 0).caches
    assert work.layout.kind is Kind.WINDOW
    assert (base.name, base.cells, base.layers) == ("base", 16384, 1)  # layer 6 of 8: every sixth has no window
    assert (window.name, window.cells, window.layers) == ("window", 1536, 7)
    full = allocate(work.layout, read_options(["-c", "32768", "-np", "2", "--swa-full"]), 0)
    assert full.caches[1].cells == 16384
    assert full.checkpoint_bytes == 0
    unified = allocate(work.layout, read_options(["-c", "32768", "-np", "2", "-kvu"]), 0)
    assert unified.caches[1].cells == 2 * 1024 + 512


def test_mla_keeps_keys_alone_and_an_indexer_its_own(tmp_path: Path) -> None:
    keys = described("deepseek2", attention__key_length_mla=192, attention__value_length_mla=128)
    keys |= {"deepseek2.attention.key_length": 576, "deepseek2.attention.head_count_kv": 1}
    work = workload(tmp_path / "mla.gguf", (keys, []), "-c", "4096", "-np", "1")
    (cache,) = allocate(work.layout, work.options, 0).caches
    assert (cache.key_bytes, cache.value_bytes) == (4096 * 8 * 576 * 2, 0)
    keys = {key.replace("deepseek2", "deepseek32"): value for key, value in keys.items()}
    keys |= {"general.architecture": "deepseek32", "deepseek32.attention.indexer.key_length": 128}
    work = workload(tmp_path / "dsa.gguf", (keys, []), "-c", "4096", "-np", "1")
    _, indexer = allocate(work.layout, work.options, 0).caches
    assert (indexer.name, indexer.key_bytes, indexer.value_bytes) == ("indexer", 4096 * 8 * 128 * 2, 0)


def test_drafting_adds_rows_to_the_state_and_a_cache_for_its_block(tmp_path: Path) -> None:
    work = workload(tmp_path / "model.gguf", hybrid_35b(vocab=1000), *OPTIONS, "--spec-type", "draft-mtp")
    memory = allocate(work.layout, work.options, 0)
    assert memory.states is not None
    assert (memory.states.rows, memory.states.layers) == (2 * (1 + 3), 30)
    assert [(one.name, one.layers) for one in memory.caches] == [("base", 10), ("draft", 1)]
    plain = allocate(work.layout, read_options(["-c", "4096", "-np", "2"]), 0)
    assert [one.name for one in plain.caches] == ["base"]


def test_rows_must_be_whole_blocks(tmp_path: Path) -> None:
    keys = described("llama", attention__head_count_kv=1) | {"llama.attention.key_length": 40}
    work = workload(tmp_path / "model.gguf", (keys, []), "-ctk", "q8_0")
    with pytest.raises(UsageError, match=r"-ctk q8_0: a row of 40 elements is not a multiple of the block size 32"):
        allocate(work.layout, work.options, 0)


def test_a_quantized_value_cache_needs_flash_attention(tmp_path: Path) -> None:
    work = workload(tmp_path / "model.gguf", (described("llama"), []), "-ctv", "q8_0", "-fa", "off")
    with pytest.raises(UsageError, match=r"llama\.cpp refuses -ctv q8_0 with -fa off"):
        allocate(work.layout, work.options, 0)


def test_what_fits_is_the_largest_that_fits(tmp_path: Path) -> None:
    work = workload(tmp_path / "model.gguf", hybrid_35b(vocab=1000), *["-c", "8192", "-np", "2"])
    room = 1 << 30
    loaded = [Loaded(layout=work.layout, options=work.options, weights=100 * MIB)]
    context = largest_context(loaded, room)
    for value, fits in ((context, True), (context + 512, False)):
        options = read_options(["-c", str(value), "-np", "2"])
        assert (allocate(work.layout, options, 100 * MIB).device <= room) is fits
    slots = most_slots(loaded, room)
    for many, fits in ((slots, True), (slots + 1, False)):
        options = read_options(["-c", str(4096 * many), "-np", str(many)])
        assert (allocate(work.layout, options, 100 * MIB).device <= room) is fits
    assert largest_context([Loaded(layout=work.layout, options=work.options, weights=2 << 30)], room) == 0


def test_recurrent_models_have_a_state_and_no_cache(tmp_path: Path) -> None:
    keys = described("mamba", ssm__conv_kernel=4, ssm__inner_size=2048, ssm__state_size=16)
    keys["mamba.attention.head_count"] = 0
    work = workload(tmp_path / "model.gguf", (keys, []), "-np", "3")
    memory = allocate(work.layout, work.options, 0)
    assert memory.caches == ()
    assert memory.states is not None
    assert (memory.states.r_bytes, memory.states.s_bytes) == (3 * 8 * 3 * 2048 * 4, 3 * 8 * 16 * 2048 * 4)
    keys = described("rwkv6", wkv__head_size=64)
    keys["rwkv6.attention.head_count"] = 0
    work = workload(tmp_path / "rwkv.gguf", (keys, []), "-np", "1")
    states = allocate(work.layout, work.options, 0).states
    assert states is not None
    assert (states.r_bytes, states.s_bytes) == (8 * 2 * 1024 * 4, 8 * 1024 * 64 * 4)
