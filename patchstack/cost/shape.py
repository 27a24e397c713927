"""A model's shape: its header with a hole for the weights. Tools that only need sizes load it in seconds."""

from __future__ import annotations

from pathlib import Path

from patchstack.cost.header import Header
from patchstack.cost.model import Model
from patchstack.errors import UsageError
from patchstack.files.atomic import put_in_place
from patchstack.files.processes import tag

COPIED = 1 << 16
"""Bytes up to which a tensor is copied: norms, biases and decays are; weights are not."""


def write_shape(model: Model, target: Path) -> tuple[Path, ...]:
    """Write the shape of a model to a file, or of each of its shards beside it. Return the files.

    A hole takes no room on disk where the file system has holes. Raises `UsageError` if a file cannot be written.
    """
    targets = _targets(model, target)
    for header, path in zip(model.headers, targets, strict=True):
        if path.resolve() == header.path.resolve():
            raise UsageError(f"{path} is the model itself", hint="-o names another file")
        draft = path.with_name(f".{path.name}.patchstack-{tag()}")
        try:
            _write(header, draft)
            put_in_place(draft, path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    return targets


def _targets(model: Model, target: Path) -> tuple[Path, ...]:
    count = len(model.headers)
    if count == 1:
        return (target,)
    first = f"-00001-of-{count:05d}.gguf"
    if not target.name.endswith(first):
        raise UsageError(f"the model has {count} shards: {target.name} is no name of one", hint=f"-o NAME{first}")
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
