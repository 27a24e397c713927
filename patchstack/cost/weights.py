"""Assign every tensor to exactly one group, and count the bytes of each group.

The bytes in the file and the bytes that a step reads are counted separately.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from patchstack.cost.experts import Routing
from patchstack.cost.header import Tensor
from patchstack.cost.model import Model

_BLOCK = re.compile(r"(?:enc\.|dec\.)?blk\.([0-9]+)\.(.+)\Z")
_BESIDE = re.compile(r"\.(weight|bias|scale|input_scale)\Z")
_STATE = ("ssm_", "time_mix_", "shortconv")
_ROWS = ("token_embd", "per_layer_token_embd", "position_embd", "token_types")


class Group(StrEnum):
    """The purpose of a tensor."""

    ATTENTION = "attention"
    RECURRENT = "recurrent"
    DENSE = "dense FFN"
    EXPERTS = "experts"
    SHARED = "shared experts"
    ROUTER = "router"
    HEAD = "head"
    EMBEDDINGS = "embeddings"
    NORMS = "norms"
    DRAFT = "draft"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A tensor and its group.

    `block` is the layer of the tensor, or -1 for a tensor outside of all layers. `routed` is true if a step reads only
    the chosen experts. `rows` is true if a step reads only one row for each token.
    """

    tensor: Tensor
    group: Group
    block: int
    routed: bool
    rows: bool


def place(model: Model) -> tuple[Placed, ...]:
    """Return every tensor of a model with its group, in the order of the file."""
    blocks = model.value("block_count")
    draft = model.value("nextn_predict_layers")
    first_draft = 1 << 30
    if isinstance(blocks, int) and isinstance(draft, int) and 0 < draft < blocks:
        first_draft = blocks - draft
    recurrent = _recurrent_blocks(model.tensors)
    return tuple(_placed(one, first_draft, recurrent) for one in model.tensors)


def is_tied(placed: Iterable[Placed]) -> bool:
    """Return whether the head uses the embedding table.

    This is the case if the model has `token_embd.weight`, but no `output.weight`.
    """
    names = {one.tensor.name for one in placed}
    return "output.weight" not in names and "token_embd.weight" in names


def _recurrent_blocks(tensors: Iterable[Tensor]) -> frozenset[int]:
    """Return the blocks with a state and without an attention output.

    The tensors `attn_qkv` and `attn_gate` of these blocks belong to the recurrent layer.
    """
    state: set[int] = set()
    attention: set[int] = set()
    for one in tensors:
        if match := _BLOCK.match(one.name):
            if match[2].startswith(_STATE):
                state.add(int(match[1]))
            elif match[2].startswith("attn_output"):
                attention.add(int(match[1]))
    return frozenset(state - attention)


def _placed(tensor: Tensor, first_draft: int, recurrent: frozenset[int]) -> Placed:
    match = _BLOCK.match(tensor.name)
    block = int(match[1]) if match and len(match[1]) < 10 else -1
    stem = _BESIDE.sub("", match[2] if match else tensor.name)
    group = _in_block(stem, block in recurrent) if match else _outside(stem)
    routed = group is Group.EXPERTS
    if block >= first_draft:
        group = Group.DRAFT
    return Placed(tensor=tensor, group=group, block=block, routed=routed, rows=not match and stem in _ROWS)


def _in_block(stem: str, recurrent: bool) -> Group:
    if stem.startswith(_STATE) or (recurrent and stem in ("attn_qkv", "attn_gate")):
        return Group.RECURRENT
    if stem.startswith(("ffn_gate_inp", "exp_probs_b")):
        return Group.ROUTER
    if stem.endswith("_shexp"):
        return Group.SHARED
    if stem.endswith("exps"):
        return Group.EXPERTS
    if stem.startswith(("attn_", "indexer")) and stem not in ("attn_norm", "attn_norm_2", "attn_post_norm"):
        return Group.ATTENTION
    if "norm" in stem:
        return Group.NORMS
    if stem.startswith(("ffn_", "channel_mix_")):
        return Group.DENSE
    return Group.OTHER


def _outside(stem: str) -> Group:
    if stem == "output":
        return Group.HEAD
    if stem in _ROWS:
        return Group.EMBEDDINGS
    return Group.NORMS if "norm" in stem else Group.OTHER


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBytes:
    """The totals for all tensors of one group and type.

    `tensors` is the number of tensors, `file_bytes` is their size in the file, and `step_bytes` is the number of bytes
    that a step reads.
    """

    group: Group
    type: str
    tensors: int
    file_bytes: int
    step_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSize:
    """The size of a step.

    `tokens` is the total number of tokens. `outputs` is the number of tokens for which the head computes logits.
    `drafting` is true if the draft block also runs.
    """

    tokens: float
    routing: Routing
    outputs: float = 1.0
    drafting: bool = False


def weigh(placed: Sequence[Placed], step: StepSize) -> tuple[GroupBytes, ...]:
    """Return the number of bytes by group and type, in the order of `Group`.

    A tied head has a separate row with 0 bytes in the file.
    """
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


def read_bytes(one: Placed, step: StepSize) -> float:
    """Return the number of bytes of a tensor that a step reads.

    A step reads one row of an embedding table for each token. It reads the expected share of the experts. The head is
    read once if the step has outputs. The draft block is read only if `drafting` is true.
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
