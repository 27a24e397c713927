"""Headers: read as `gguf` reads them, and refused with a message if they are damaged."""

from __future__ import annotations

import importlib
import random
import resource
import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from patchstack.cost.architecture import read_layout
from patchstack.cost.header import TENSOR_TYPES, Skipped, read_header
from patchstack.cost.memory import allocate
from patchstack.cost.model import read_model
from patchstack.cost.server_options import read_options
from patchstack.cost.weights import place
from patchstack.errors import MissingError, PatchstackError, UsageError
from tests.support import tiny_gguf
from tests.support.gguf_header import Shape, Value, header_bytes, hybrid_35b, vocabulary, write_shape

SMALL: tuple[dict[str, Value], list[Shape]] = (
    {"general.architecture": "llama", "llama.block_count": 1, "llama.context_length": 8},
    [Shape("a.weight", (32, 2), "q8_0")],
)


@pytest.mark.parametrize("architecture", tiny_gguf.ARCHITECTURES)
def test_a_real_file_is_read_as_gguf_reads_it(tmp_path: Path, architecture: tiny_gguf.Architecture) -> None:
    tiny_gguf.need_gguf()
    gguf: Any = importlib.import_module("gguf")
    path = tiny_gguf.write_model(tmp_path / "model.gguf", architecture, chat=True)
    header, oracle = read_header(path), gguf.GGUFReader(str(path))
    ours = [(one.name, one.shape, one.type.name.lower(), one.bytes, one.offset) for one in header.tensors]
    theirs = [
        (
            one.name,
            tuple(int(size) for size in one.shape),
            one.tensor_type.name.lower(),
            int(one.n_bytes),
            int(one.data_offset),
        )
        for one in oracle.tensors
    ]
    assert ours == theirs
    for name, field in oracle.fields.items():
        if name.startswith("GGUF."):
            continue
        value = header.keys[name]
        if isinstance(value, Skipped):
            assert value.length == len(field.data)
        elif isinstance(value, tuple):
            assert list(value) == [field.parts[at][0] for at in field.data]
        else:
            assert value == field.contents()


def test_types_have_the_sizes_that_gguf_says() -> None:
    tiny_gguf.need_gguf()
    sizes: Any = importlib.import_module("gguf.constants").GGML_QUANT_SIZES
    theirs = {int(kind): (kind.name.lower(), *pair) for kind, pair in sizes.items()}
    # gguf has 40 bytes for q8_1; ggml's block has 36 since its scale and sum are halves. No file has the type.
    theirs[9] = ("q8_1", 32, 36)
    ours = {number: (kind.name.lower(), kind.block, kind.size) for number, kind in TENSOR_TYPES.items()}
    assert {number: theirs[number] for number in ours if number in theirs} == {
        number: one for number, one in ours.items() if number in theirs
    }
    assert set(theirs) <= set(ours)


def test_a_header_with_248320_tokens_takes_a_fifth_of_a_second_and_60_mb(tmp_path: Path) -> None:
    path = write_shape(tmp_path / "model.gguf", *hybrid_35b())
    model = read_model(path)
    times = []
    for _ in range(5):
        start = time.process_time()
        model = read_model(path)
        times.append(time.process_time() - start)
    assert model.vocabulary == 248_320
    assert len(model.tensors) == 753
    assert min(times) <= 0.2  # of CPU time, because other programs use this machine too
    tracemalloc.start()
    read_model(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 60e6


def test_every_prefix_of_a_file_is_refused_in_words(tmp_path: Path) -> None:
    whole = header_bytes(*SMALL) + bytes(96)
    path = tmp_path / "model.gguf"
    path.write_bytes(whole)
    read_header(path)
    shortest = len(header_bytes(*SMALL)) + SMALL[1][0].bytes
    for size in range(shortest):
        path.write_bytes(whole[:size])
        with pytest.raises(UsageError) as told:
            read_header(path)
        assert told.value.hint, size
    path.write_bytes(whole[:shortest])
    assert read_header(path).tensors[0].bytes == 68


def damaged(seed: int, whole: bytes) -> bytes:
    """Draw a file with a few changed bytes, a huge count, or a removed or duplicated piece."""
    draw = random.Random(seed)
    data = bytearray(whole)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(data))
        match draw.randrange(5):
            case 0:
                data[at] = draw.randrange(256)
            case 1:
                data[at : at + 8] = struct.pack("<Q", draw.choice((1 << 63, (1 << 64) - 1, 1 << 40, 1 << 20, 0)))
            case 2:
                del data[at : at + draw.randint(1, 40)]
            case 3:
                data[at:at] = data[at : at + draw.randint(1, 40)]
            case _:
                data[at] ^= 1 << draw.randrange(8)
    return bytes(data)


def test_a_thousand_damaged_headers_give_no_traceback_and_take_no_memory(tmp_path: Path) -> None:
    keys, shapes = hybrid_35b(vocab=600)
    whole = header_bytes(keys, shapes[:60])
    path = tmp_path / "model.gguf"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = 0
    for seed in range(1000):
        path.write_bytes(damaged(seed, whole))
        with path.open("ab") as file:
            file.truncate(6 << 30)  # the file may have the tensors that its header names
        try:
            model = read_model(path)
            place(model)
            allocate(read_layout(model), read_options(["-c", "4096"]), model.tensor_bytes)
        except PatchstackError as error:
            refused += 1
            assert "\n" not in error.message
    assert refused > 500
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024  # KiB


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is not a GGUF file"),
        (b"PK\3\4" + bytes(100), "is not a GGUF file"),
        (b"GGUF\0\0\0\3" + bytes(100), "is big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "has GGUF version 1"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 40, 0), "claims 1,099,511,627,776 tensors, the limit is 100,000"),
        (header_bytes({}, [Shape("x", (32,), "f32"), Shape("x", (32,), "f32")]) + bytes(256), "'x' occurs twice"),
        (header_bytes({}, [Shape("x", (33,), "q8_0")]) + bytes(256), "not whole blocks of q8_0"),
        (header_bytes({"general.alignment": 24}, []), "alignment 24 is not a power of two"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    with pytest.raises(UsageError) as told:
        read_header(path)
    assert says in told.value.message
    assert told.value.hint


def test_an_unknown_type_is_named(tmp_path: Path) -> None:
    data = header_bytes({}, [Shape("x.weight", (32,), "f32")])
    path = tmp_path / "model.gguf"
    at = data.index(b"x.weight") + len(b"x.weight") + 4 + 8  # past the number of dimensions and the one there is
    path.write_bytes(data[:at] + struct.pack("<I", 4) + data[at + 4 :] + bytes(128))
    with pytest.raises(UsageError, match=r"'x\.weight' has type 4, which llama\.cpp at the pin does not define"):
        read_header(path)


def test_a_key_of_another_kind_is_named(tmp_path: Path) -> None:
    keys, shapes = hybrid_35b(vocab=600)
    path = write_shape(tmp_path / "model.gguf", keys | {"qwen35moe.block_count": "forty"}, shapes)
    with pytest.raises(UsageError, match=r"qwen35moe\.block_count is 'forty', not a whole number"):
        read_layout(read_model(path))
    path = write_shape(tmp_path / "model.gguf", keys | {"qwen35moe.attention.head_count": [2] * 7}, shapes)
    with pytest.raises(UsageError, match=r"41 whole numbers ≥ 0, one for each layer"):
        read_layout(read_model(path))


def test_zero_heads_are_refused(tmp_path: Path) -> None:
    keys, shapes = hybrid_35b(vocab=600)
    path = write_shape(tmp_path / "model.gguf", keys | {"qwen35moe.attention.head_count": 0}, shapes)
    with pytest.raises(UsageError, match="the attention layers have no heads"):
        read_layout(read_model(path))


def test_an_architecture_that_is_not_known_has_weights_but_no_memory(tmp_path: Path) -> None:
    path = write_shape(tmp_path / "model.gguf", {"general.architecture": "newest"}, SMALL[1])
    model = read_model(path)
    assert model.tensor_bytes == 68
    with pytest.raises(MissingError, match="the memory layout of the architecture 'newest' is unknown"):
        read_layout(model)


def shards(directory: Path, count: int = 3) -> list[Path]:
    """Write a model in several files."""
    found = []
    for number in range(count):
        keys = {"split.no": number, "split.count": count, "split.tensors.count": count}
        if number == 0:
            keys |= {"general.architecture": "llama"}  # type: ignore[dict-item]  # the other keys are numbers
        path = directory / f"model-{number + 1:05d}-of-{count:05d}.gguf"
        found.append(write_shape(path, keys, [Shape(f"blk.{number}.attn_q.weight", (32, 2), "q8_0")]))
    return found


def test_shards_are_read_as_one_model(tmp_path: Path) -> None:
    model = read_model(shards(tmp_path)[0])
    assert [one.name for one in model.tensors] == [f"blk.{number}.attn_q.weight" for number in range(3)]


def test_a_missing_shard_a_later_one_and_mixed_ones_are_named(tmp_path: Path) -> None:
    files = shards(tmp_path)
    with pytest.raises(UsageError, match=r"is shard 2 of 3") as told:
        read_model(files[1])
    assert "model-00001-of-00003.gguf" in str(told.value.hint)
    files[2].write_bytes(files[1].read_bytes())
    with pytest.raises(UsageError, match=r"model-00003-of-00003\.gguf is not shard 3 of 3"):
        read_model(files[0])
    files[2].unlink()
    with pytest.raises(MissingError, match=r"missing shards \(1 of 3\): model-00003-of-00003\.gguf"):
        read_model(files[0])


def test_the_vocabulary_is_stepped_over(tmp_path: Path) -> None:
    path = write_shape(tmp_path / "model.gguf", {"general.architecture": "llama", **vocabulary(700)}, [])
    assert read_header(path).keys["tokenizer.ggml.tokens"] == Skipped(length=700)
