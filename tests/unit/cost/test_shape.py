"""Shapes: headers with a hole for the weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.cost.model import COPIED, read_model, write_shape
from patchstack.errors import UsageError
from tests.support import tiny_gguf
from tests.unit.cost.test_header import shards


def test_a_shape_has_the_header_the_small_tensors_and_holes(tmp_path: Path) -> None:
    tiny_gguf.need_gguf()
    path = tiny_gguf.write_model(tmp_path / "model.gguf", "qwen35")
    (shape,) = write_shape(read_model(path), tmp_path / "shape.gguf")
    whole, hollow = path.read_bytes(), shape.read_bytes()
    model = read_model(path)
    assert hollow[: model.headers[0].data_offset] == whole[: model.headers[0].data_offset]
    for one in model.tensors:
        part = hollow[one.offset : one.offset + one.bytes]
        assert part == (whole[one.offset : one.offset + one.bytes] if one.bytes <= COPIED else bytes(one.bytes)), (
            one.name
        )
    assert [one.name for one in read_model(shape).tensors] == [one.name for one in model.tensors]


def test_every_shard_gets_a_shape(tmp_path: Path) -> None:
    model = read_model(shards(tmp_path)[0])
    found = write_shape(model, tmp_path / "shape-00001-of-00003.gguf")
    assert [one.name for one in found] == [f"shape-{number:05d}-of-00003.gguf" for number in (1, 2, 3)]
    assert len(read_model(found[0]).tensors) == 3
    with pytest.raises(UsageError, match=r"the model has 3 shards: shape\.gguf is not the name of a shard") as told:
        write_shape(model, tmp_path / "shape.gguf")
    assert told.value.hint == "use -o NAME-00001-of-00003.gguf"


def test_a_model_is_not_overwritten_by_its_shape(tmp_path: Path) -> None:
    files = shards(tmp_path)
    before = files[0].read_bytes()
    with pytest.raises(UsageError, match="is the model itself"):
        write_shape(read_model(files[0]), files[0])
    assert files[0].read_bytes() == before
