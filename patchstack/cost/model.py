"""Read the headers of model files, and write copies without weights.

A model is one file or several shards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from patchstack.causes import ModelFileMissing, ModelFileUnreadable, OutputUnwritable
from patchstack.cost.header import Header, Skipped, Tensor, Value, read_header
from patchstack.errors import UsageError
from patchstack.files.atomic import put_in_place
from patchstack.files.processes import tag

_SHARD = re.compile(r"(.*)-([0-9]{5})-of-([0-9]{5})\.gguf\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The headers of a model's files.

    `keys` are from the first file, and `tensors` are from all files.
    """

    path: Path
    headers: tuple[Header, ...]
    keys: Mapping[str, Value]
    tensors: tuple[Tensor, ...]

    @property
    def architecture(self) -> str:
        """The value of `general.architecture`.

        Raises `UsageError` if the key is missing.
        """
        found = self.keys.get("general.architecture")
        if not isinstance(found, str):
            raise ModelFileUnreadable(
                f"{self.path} does not name an architecture", hint="general.architecture is missing"
            )
        return found

    @property
    def name(self) -> str:
        """The value of `general.name`, or the file name without its extension if the key is missing."""
        found = self.keys.get("general.name")
        return found if isinstance(found, str) and found else self.path.stem

    @property
    def tensor_bytes(self) -> int:
        """The number of bytes of all tensors, without padding. llama.cpp prints this number as `file size`."""
        return sum(one.bytes for one in self.tensors)

    def value(self, key: str) -> Value | None:
        """Return the value at `ARCHITECTURE.key`, or None if the key is missing.

        ARCHITECTURE is the model's architecture.
        """
        return self.keys.get(f"{self.architecture}.{key}")

    def number(self, key: str, default: int | None = None) -> int:
        """Return the whole number at `ARCHITECTURE.key`, or `default` if the key is missing.

        Raises `UsageError` if the value is negative or not a whole number, or if the key is missing and has no default.
        """
        found = self.value(key)
        if found is None:
            if default is not None:
                return default
            raise ModelFileUnreadable(f"{self.path}: the key {self.architecture}.{key} is missing")
        if isinstance(found, bool) or not isinstance(found, int) or found < 0:
            raise self.wrong(key, "a whole number ≥ 0")
        return found

    def per_layer(self, key: str, layers: int, default: int | None = None) -> tuple[int, ...]:
        """Return one number for each of the `layers` layers.

        The value of the key is an array, or one number for all layers. Raises `UsageError` if the array has a different
        length, and in the same cases as `number`.
        """
        found = self.value(key)
        if isinstance(found, tuple):
            whole = [one for one in found if isinstance(one, int) and one >= 0]
            if len(whole) != len(found) or len(found) != layers:
                raise self.wrong(key, f"{layers} whole numbers ≥ 0, one for each layer")
            return tuple(int(one) for one in whole)
        return (self.number(key, default),) * layers

    def wrong(self, key: str, wanted: str) -> UsageError:
        """Return the error for a key with a wrong value. `wanted` describes a valid value."""
        found = self.value(key)
        told = f"{found.length:,} elements" if isinstance(found, Skipped) else repr(found)[:60]
        return ModelFileUnreadable(f"{self.path}: the key {self.architecture}.{key} is {told}, not {wanted}")

    @property
    def vocabulary(self) -> int:
        """The size of the vocabulary.

        It is the first of these values that exists: the tokenizer's number of tokens, `vocab_size`, and the number of
        rows of `token_embd`. Raises `UsageError` if all three are missing.
        """
        found = self.keys.get("tokenizer.ggml.tokens")
        if isinstance(found, Skipped):
            return found.length
        if self.value("vocab_size") is not None:
            return self.number("vocab_size")
        for one in self.tensors:
            if one.name == "token_embd.weight":
                return one.shape[-1]
        raise ModelFileUnreadable(
            f"{self.path} has no vocabulary", hint="tokens, vocab_size and token_embd are all missing"
        )

    @property
    def blocks(self) -> int:
        """The number of layers, including draft blocks.

        Raises `UsageError` if the number is not between 1 and 512.
        """
        found = self.number("block_count")
        if not 1 <= found <= 512:  # LLAMA_MAX_LAYERS
            raise ModelFileUnreadable(f"{self.path} has {found} layers, but llama.cpp allows 1 to 512")
        return found


def read_model(path: Path) -> Model:
    """Read the headers of a model.

    If `path` is the first of several shards, the headers of all shards are read. Raises `MissingError` if a file does
    not exist. Raises `UsageError` if a file is damaged, or if a shard is not the expected shard of this model.
    """
    first = read_header(path)
    count = _whole(first, "split.count")
    if not count or count == 1:
        return Model(path=path, headers=(first,), keys=first.keys, tensors=first.tensors)
    number = _whole(first, "split.no")
    match = _SHARD.match(path.name)
    if match is None or int(match[3]) != count:
        raise ModelFileUnreadable(
            f"{path.name} has split.count {count}, but its name does not match",
            hint=f"shards are named NAME-00001-of-{count:05d}.gguf",
        )
    if number != 0 or int(match[2]) != 1:
        raise ModelFileUnreadable(
            f"cannot read the model from {path.name}: it is shard {(number or 0) + 1} of {count}",
            hint=f"give the first shard: {match[1]}-00001-of-{count:05d}.gguf",
        )
    if count > 10_000:
        raise ModelFileUnreadable(f"{path.name} claims {count:,} shards, the limit is 10,000")
    others = [path.with_name(f"{match[1]}-{one:05d}-of-{count:05d}.gguf") for one in range(2, count + 1)]
    if missing := [one.name for one in others if not one.is_file()]:
        raise ModelFileMissing(
            f"missing shards ({len(missing)} of {count}): {', '.join(missing[:5])}",
            hint=f"put them next to {path}",
        )
    return _joined(path, first, [read_header(one) for one in others])


def _joined(path: Path, first: Header, others: list[Header]) -> Model:
    headers = (first, *others)
    names: set[str] = set()
    for place, one in enumerate(headers):
        if _whole(one, "split.no") != place or _whole(one, "split.count") != len(headers):
            raise ModelFileUnreadable(
                f"{one.path.name} is not shard {place + 1} of {len(headers)}", hint="use only shards of one model"
            )
        if twice := names & {tensor.name for tensor in one.tensors}:
            raise ModelFileUnreadable(
                f"{one.path.name} and an earlier shard both have the tensor {min(twice)!r}",
                hint="use only shards of one model",
            )
        names |= {tensor.name for tensor in one.tensors}
    wanted = _whole(first, "split.tensors.count")
    if wanted is not None and wanted != len(names):
        raise ModelFileUnreadable(
            f"the shards of {path.name} have {len(names)} tensors, not {wanted}", hint="use only shards of one model"
        )
    return Model(
        path=path,
        headers=headers,
        keys=first.keys,
        tensors=tuple(tensor for one in headers for tensor in one.tensors),
    )


def _whole(header: Header, key: str) -> int | None:
    found = header.keys.get(key)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise ModelFileUnreadable(f"{header.path}: the key {key} is {found!r}, not a whole number ≥ 0")
    return found


COPIED = 1 << 16
"""The maximum size in bytes of a tensor that `write_shape` copies.

Norms, biases and decays are usually smaller. Weights are larger.
"""


def write_shape(model: Model, target: Path) -> tuple[Path, ...]:
    """Write copies of a model's files with holes in place of the weights, and return the new files.

    `target` is the new file. If the model has shards, `target` is the first new shard, and the other shards are written
    into the same directory. Holes take no disk space if the file system supports sparse files.

    Raises `UsageError` if a file cannot be written, or if a new file would replace a file of the model. Also raises it
    if the model has shards and `target` does not have the name of the first shard.
    """
    targets = _targets(model, target)
    for header, path in zip(model.headers, targets, strict=True):
        if path.resolve() == header.path.resolve():
            raise ModelFileUnreadable(f"the output {path} is the model itself", hint="give a different file with -o")
        draft = path.with_name(f".{path.name}.patchstack-{tag()}")
        try:
            _write(header, draft)
            put_in_place(draft, path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise OutputUnwritable(f"{path} cannot be written: {error.strerror}") from error
    return targets


def _targets(model: Model, target: Path) -> tuple[Path, ...]:
    count = len(model.headers)
    if count == 1:
        return (target,)
    first = f"-00001-of-{count:05d}.gguf"
    if not target.name.endswith(first):
        raise ModelFileUnreadable(
            f"the model has {count} shards: {target.name} is not the name of a shard", hint=f"use -o NAME{first}"
        )
    stem = target.name.removesuffix(first)
    return tuple(target.with_name(f"{stem}-{one:05d}-of-{count:05d}.gguf") for one in range(1, count + 1))


def _write(header: Header, draft: Path) -> None:
    with header.path.open("rb") as source, draft.open("xb") as file:
        left = header.data_offset
        while left and (chunk := source.read(min(left, 1 << 20))):
            file.write(chunk)
            left -= len(chunk)
        for tensor in header.tensors:
            if tensor.bytes <= COPIED:
                source.seek(tensor.offset)
                file.seek(tensor.offset)
                file.write(source.read(tensor.bytes))
        end = max((one.offset + one.bytes for one in header.tensors), default=header.data_offset)
        file.truncate(max(end, header.data_offset))
