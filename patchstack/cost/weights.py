"""Bytes of the weights: in the file, and those that a step reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patchstack.cost.experts import Routing
from patchstack.cost.groups import Group, Placed, is_tied


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBytes:
    """Tensors of one group and type: how many, their bytes in the file, and those that a step reads."""

    group: Group
    type: str
    tensors: int
    file_bytes: int
    step_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a step processes: `tokens` in all. `outputs`: of how many the head gives logits. `drafting`: the draft block
    runs too."""

    tokens: float
    routing: Routing
    outputs: float = 1.0
    drafting: bool = False


def weigh(placed: Sequence[Placed], step: Step) -> tuple[GroupBytes, ...]:
    """Return the bytes by group and type, in the order of `Group`. A tied head is a row of its own, with no bytes in
    the file."""
    found: dict[tuple[Group, str], list[float]] = {}
    for one in placed:
        entry = found.setdefault((one.group, one.tensor.type.name), [0, 0, 0.0])
        entry[0] += 1
        entry[1] += one.tensor.bytes
        entry[2] += read_bytes(one, step)
    if is_tied(placed) and step.outputs:
        table = next(one.tensor for one in placed if one.tensor.name == "token_embd.weight")
        entry = found.setdefault((Group.HEAD, table.type.name), [0, 0, 0.0])
        entry[2] += table.bytes
    order = list(Group)
    return tuple(
        GroupBytes(group=group, type=kind, tensors=int(count), file_bytes=int(size), step_bytes=read)
        for (group, kind), (count, size, read) in sorted(
            found.items(), key=lambda one: (order.index(one[0][0]), one[0][1])
        )
    )


def read_bytes(one: Placed, step: Step) -> float:
    """Return the bytes of a tensor that a step reads.

    Experts: the expected distinct ones. Tables of embeddings: a row a token. The head: once, if there are outputs. The
    draft block: nothing without speculation.
    """
    if one.group is Group.DRAFT and not step.drafting:
        return 0.0
    if one.rows:
        return min(step.tokens, one.tensor.shape[-1]) * one.tensor.type.row_bytes(one.tensor.shape[0])
    if one.group is Group.HEAD and not step.outputs:
        return 0.0
    if one.routed:
        return one.tensor.bytes * step.routing.share_read(step.tokens, one.block)
    return float(one.tensor.bytes)
