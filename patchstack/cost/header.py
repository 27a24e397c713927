"""Read the headers of GGUF files, and the values of small tensors."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from patchstack.causes import InputUnreadable, ModelFileMissing, ModelFileUnreadable
from patchstack.errors import UsageError


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor type of ggml.

    A block contains `block` weights and takes `size` bytes.
    """

    name: str
    block: int
    size: int

    def row_bytes(self, length: int) -> int:
        """Return the size of a row of `length` weights in bytes.

        `length` must be a multiple of `block`.
        """
        return length // self.block * self.size

    @property
    def is_quantized(self) -> bool:
        """Whether a block contains more than one weight."""
        return self.block > 1


TENSOR_TYPES = {
    0: TensorType("f32", 1, 4),
    1: TensorType("f16", 1, 2),
    2: TensorType("q4_0", 32, 18),
    3: TensorType("q4_1", 32, 20),
    6: TensorType("q5_0", 32, 22),
    7: TensorType("q5_1", 32, 24),
    8: TensorType("q8_0", 32, 34),
    9: TensorType("q8_1", 32, 36),
    10: TensorType("q2_K", 256, 84),
    11: TensorType("q3_K", 256, 110),
    12: TensorType("q4_K", 256, 144),
    13: TensorType("q5_K", 256, 176),
    14: TensorType("q6_K", 256, 210),
    15: TensorType("q8_K", 256, 292),
    16: TensorType("iq2_xxs", 256, 66),
    17: TensorType("iq2_xs", 256, 74),
    18: TensorType("iq3_xxs", 256, 98),
    19: TensorType("iq1_s", 256, 50),
    20: TensorType("iq4_nl", 32, 18),
    21: TensorType("iq3_s", 256, 110),
    22: TensorType("iq2_s", 256, 82),
    23: TensorType("iq4_xs", 256, 136),
    24: TensorType("i8", 1, 1),
    25: TensorType("i16", 1, 2),
    26: TensorType("i32", 1, 4),
    27: TensorType("i64", 1, 8),
    28: TensorType("f64", 1, 8),
    29: TensorType("iq1_m", 256, 56),
    30: TensorType("bf16", 1, 2),
    34: TensorType("tq1_0", 256, 54),
    35: TensorType("tq2_0", 256, 66),
    39: TensorType("mxfp4", 32, 17),
    40: TensorType("nvfp4", 64, 36),
    41: TensorType("q1_0", 128, 18),
}
"""The tensor types, by their numbers in GGUF files and in llama.cpp's logs."""

CACHE_TYPES = {
    one.name: one
    for one in TENSOR_TYPES.values()
    if one.name in ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
}
"""The types that `-ctk` and `-ctv` accept (`kv_cache_types` in `common/arg.cpp`)."""


_SCALARS = {
    0: ("B", 1),
    1: ("b", 1),
    2: ("H", 2),
    3: ("h", 2),
    4: ("I", 4),
    5: ("i", 4),
    6: ("f", 4),
    7: ("?", 1),
    10: ("Q", 8),
    11: ("q", 8),
    12: ("d", 8),
}
_TEXT, _ARRAY = 8, 9
_CHUNK = 1 << 20  # bytes per read
_ENTRIES = 100_000  # maximum number of keys, and also of tensors; real files have hundreds
_STRINGS = 1 << 24  # maximum length of an array of strings; the largest vocabularies have 2^18
_KEPT = 1 << 16  # a longer array of numbers is skipped
_NAME = 1 << 16  # maximum length of a key or name, in bytes
_TEXT_KEPT = 1 << 20  # a string with more bytes is skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A value that was skipped: an array of strings, a long array of numbers, or a long string.

    `length` is the number of elements of an array, or the number of bytes of a string.
    """

    length: int


Value = int | float | bool | str | tuple[int | float | bool, ...] | Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor of the file `path`.

    `shape` is in ggml's order: the row length comes first. `offset` is in bytes from the start of the file.
    """

    name: str
    shape: tuple[int, ...]
    type: TensorType
    path: Path
    offset: int

    @property
    def elements(self) -> int:
        count = 1
        for one in self.shape:
            count *= one
        return count

    @property
    def bytes(self) -> int:
        return self.elements // self.type.block * self.type.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of one file.

    The data of the tensors begins at byte `data_offset`. `file_bytes` is the size of the file.
    """

    path: Path
    keys: Mapping[str, Value]
    tensors: tuple[Tensor, ...]
    data_offset: int
    file_bytes: int


def read_header(path: Path) -> Header:
    """Read the header of one GGUF file.

    Raises `MissingError` if the file does not exist. Raises `UsageError` if it cannot be read, or if it is not a
    complete GGUF file of version 2 or 3. The error for a damaged header includes the byte position.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            return _Reader(path, file, size).header()
    except FileNotFoundError as error:
        raise ModelFileMissing(f"{path} does not exist", hint="name a GGUF file") from error
    except OSError as error:
        raise InputUnreadable(f"{path} cannot be read: {error.strerror}", hint="name a GGUF file") from error


class _Reader:
    """A reader that moves forward through a file, with a buffer of at most 1 MiB.

    Long values are skipped, so they do not have to fit into the buffer.
    """

    def __init__(self, path: Path, file: BinaryIO, size: int) -> None:
        self.path, self.file, self.size = path, file, size
        self.window = b""
        self.start = 0  # the start of the window in the file
        self.at = 0  # the current position in the window

    @property
    def position(self) -> int:
        return self.start + self.at

    def broken(self, what: str) -> UsageError:
        return ModelFileUnreadable(
            f"{self.path}: byte {self.position:,}: {what}",
            hint="the file is damaged or truncated; download or convert it again",
        )

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes. Raises `UsageError` if fewer bytes are left."""
        if self.position + count > self.size:
            raise self.broken(f"the header needs {count:,} more bytes, but the file ends at byte {self.size:,}")
        if self.at + count > len(self.window):
            self._refill(count)
        found = self.window[self.at : self.at + count]
        if len(found) != count:
            raise self.broken("the file became shorter while it was read")
        self.at += count
        return found

    def _refill(self, count: int) -> None:
        self.start, self.at = self.position, 0
        self.file.seek(self.start)
        self.window = self.file.read(max(count, _CHUNK))

    def skip(self, count: int) -> None:
        """Move forward by `count` bytes without reading them. Raises `UsageError` if fewer bytes are left."""
        if self.position + count > self.size:
            raise self.broken(f"a value needs {count:,} more bytes, but the file ends at byte {self.size:,}")
        if self.at + count <= len(self.window):
            self.at += count
        else:
            self.start, self.at, self.window = self.position + count, 0, b""

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def name(self) -> str:
        length = self.u64()
        if length > _NAME:
            raise self.broken(f"a name has {length:,} bytes, the limit is {_NAME:,}")
        return self.take(length).decode("utf-8", "replace")

    def header(self) -> Header:
        if self.size < 24 or self.take(4) != b"GGUF":
            raise ModelFileUnreadable(
                f"{self.path} is not a GGUF file", hint="name a GGUF file, which begins with the bytes 'GGUF'"
            )
        version = self.u32()
        if version & 0xFFFF == 0 and version:
            raise ModelFileUnreadable(
                f"{self.path} cannot be read: it is big-endian",
                hint="convert it on this machine, or with gguf_convert_endian",
            )
        if version not in (2, 3):
            raise ModelFileUnreadable(
                f"{self.path} cannot be read: it has GGUF version {version}", hint="patchstack reads versions 2 and 3"
            )
        tensors, keys = self.u64(), self.u64()
        for what, count in (("tensors", tensors), ("keys", keys)):
            if count > _ENTRIES:
                raise self.broken(f"the header claims {count:,} {what}, the limit is {_ENTRIES:,}")
        found = self._keys(keys)
        return self._tensors(tensors, found)

    def _keys(self, count: int) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for _ in range(count):
            key = self.name()
            if key in found:
                raise self.broken(f"the key {key!r} occurs twice")
            found[key] = self._value(key, self.u32())
        return found

    def _value(self, key: str, kind: int) -> Value:
        if kind in _SCALARS:
            code, size = _SCALARS[kind]
            value: int | float | bool = struct.unpack("<" + code, self.take(size))[0]
            return value
        if kind == _TEXT:
            length = self.u64()
            if length > _TEXT_KEPT:
                self.skip(length)
                return Skipped(length=length)
            return self.take(length).decode("utf-8", "replace")
        if kind == _ARRAY:
            return self._array(key)
        raise self.broken(f"the key {key!r} has a value of type {kind}, which GGUF does not define")

    def _array(self, key: str) -> Value:
        kind, count = self.u32(), self.u64()
        if kind == _TEXT:
            if count > _STRINGS:
                raise self.broken(f"the key {key!r} has {count:,} strings, the limit is {_STRINGS:,}")
            self._skip_texts(count)
            return Skipped(length=count)
        if kind not in _SCALARS:
            raise self.broken(f"the key {key!r} is an array of type {kind}, which patchstack does not read")
        code, size = _SCALARS[kind]
        if count > _KEPT:
            self.skip(count * size)
            return Skipped(length=count)
        return struct.unpack(f"<{count}{code}", self.take(count * size))

    def _skip_texts(self, count: int) -> None:
        """Skip `count` strings.

        For a header with a vocabulary, most of the reading time is spent in this loop. To be fast, the loop creates no
        objects except lengths, and detects the end of the window by a failed read.
        """
        read = struct.Struct("<Q").unpack_from
        left = count
        while left:
            window, at, done = self.window, self.at, 0
            try:
                for done in range(left):  # noqa: B007  (used after the loop)
                    at += 8 + read(window, at)[0]
                left = 0
            except (struct.error, OverflowError):  # the window ends here, or a length is impossibly large
                left -= done
            self.skip(at - self.at)
            if left:
                self.take(8)
                self.at -= 8

    def _tensors(self, count: int, keys: Mapping[str, Value]) -> Header:
        alignment = keys.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
            raise self.broken(f"the alignment {alignment!r} is not a power of two")
        described: list[tuple[str, tuple[int, ...], TensorType, int]] = []
        names: set[str] = set()
        expected = 0
        for _ in range(count):
            name, shape, kind, offset = self._tensor(names)
            if offset != expected:
                raise self.broken(f"the tensor {name!r} has the data offset {offset:,} instead of {expected:,}")
            described.append((name, shape, kind, offset))
            elements = 1
            for one in shape:
                elements *= one
            expected += -(-(elements // kind.block * kind.size) // alignment) * alignment
        data = -(-self.position // alignment) * alignment
        tensors = tuple(
            Tensor(name=name, shape=shape, type=kind, path=self.path, offset=data + offset)
            for name, shape, kind, offset in described
        )
        if tensors and (end := tensors[-1].offset + tensors[-1].bytes) > self.size:
            raise ModelFileUnreadable(
                f"{self.path} is truncated: its tensors end at byte {end:,}, but the file ends at byte {self.size:,}",
                hint="download or convert it again",
            )
        return Header(path=self.path, keys=keys, tensors=tensors, data_offset=data, file_bytes=self.size)

    def _tensor(self, names: set[str]) -> tuple[str, tuple[int, ...], TensorType, int]:
        name = self.name()
        if name in names:
            raise self.broken(f"the tensor {name!r} occurs twice")
        names.add(name)
        dimensions = self.u32()
        if not 1 <= dimensions <= 4:
            raise self.broken(f"the tensor {name!r} has {dimensions} dimensions, not 1 to 4")
        shape = tuple(self.u64() for _ in range(dimensions))
        elements = 1
        for one in shape:
            elements *= one
            if one >= 1 << 63 or elements >= 1 << 63:
                raise self.broken(f"the tensor {name!r} has 2^63 or more elements")
        number = self.u32()
        kind = TENSOR_TYPES.get(number)
        if kind is None:
            raise ModelFileUnreadable(
                f"{self.path}: the tensor {name!r} has type {number}, which llama.cpp at the pin does not define",
                hint="the file is damaged, or too new for this patchstack",
            )
        if shape[0] % kind.block:
            raise self.broken(f"the tensor {name!r} has rows of {shape[0]:,} weights, not whole blocks of {kind.name}")
        return name, shape, kind, self.u64()


_LIMIT = 1 << 20  # maximum number of elements of a tensor whose values are read


def read_values(tensor: Tensor) -> tuple[float, ...]:
    """Return the elements of an f32, f16 or bf16 tensor, row by row.

    Raises `UsageError` for other types, and for tensors with more than 1,048,576 elements.
    """
    if tensor.elements > _LIMIT or tensor.type.name not in ("f32", "f16", "bf16"):
        raise ModelFileUnreadable(
            f"{tensor.path}: cannot read {tensor.name}: {tensor.elements:,} elements of type {tensor.type.name}",
            hint=f"only f32, f16 and bf16 tensors with up to {_LIMIT:,} elements can be read",
        )
    with tensor.path.open("rb") as file:
        file.seek(tensor.offset)
        data = file.read(tensor.bytes)
    if len(data) != tensor.bytes:
        raise ModelFileUnreadable(f"{tensor.path} became shorter while it was read")
    if tensor.type.name == "bf16":
        data = b"".join(b"\0\0" + data[at : at + 2] for at in range(0, len(data), 2))
    return struct.unpack(f"<{tensor.elements}{'e' if tensor.type.name == 'f16' else 'f'}", data)
