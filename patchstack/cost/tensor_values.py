"""The values of small tensors: those of an imatrix, and the decay of recurrent layers."""

from __future__ import annotations

import struct

from patchstack.cost.header import Tensor
from patchstack.errors import UsageError

_LIMIT = 1 << 20  # elements


def read_values(tensor: Tensor) -> tuple[float, ...]:
    """Return the elements of an f32, f16 or bf16 tensor, the length of a row first.

    Raises `UsageError` for other types and for tensors above a million elements.
    """
    if tensor.elements > _LIMIT or tensor.type.name not in ("f32", "f16", "bf16"):
        raise UsageError(f"{tensor.path}: {tensor.name} is {tensor.elements:,} × {tensor.type.name}: not read")
    with tensor.path.open("rb") as file:
        file.seek(tensor.offset)
        data = file.read(tensor.bytes)
    if len(data) != tensor.bytes:
        raise UsageError(f"{tensor.path} became shorter while it was read")
    if tensor.type.name == "bf16":
        data = b"".join(b"\0\0" + data[at : at + 2] for at in range(0, len(data), 2))
    return struct.unpack(f"<{tensor.elements}{'e' if tensor.type.name == 'f16' else 'f'}", data)
