"""Compute how many distinct experts a step reads.

All experts are equally likely, or their probabilities come from the counts in an imatrix.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchstack.causes import ModelFileUnreadable
from patchstack.cost.header import read_header, read_values
from patchstack.cost.model import Model

_COUNTS = re.compile(r"blk\.([0-9]{1,9})\.ffn_(?:gate|gate_up|up|down)_exps\.weight\.counts\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """The probabilities with which tokens choose experts.

    A block has `experts` experts, and each token chooses `used` of them. `shares` maps a block to one share for each
    expert: the share of tokens (0 to 1) that choose this expert. In a block without shares, all experts are equally
    likely. `source` describes the origin of the probabilities.
    """

    experts: int = 0
    used: int = 0
    shares: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    source: str = "uniform routing"

    def distinct(self, tokens: float, block: int = -1) -> float:
        """Return the expected number of distinct experts in `block` that a step of `tokens` tokens reads."""
        if block in self.shares:
            return distinct_of_shares(self.shares[block], tokens)
        return distinct_uniform(self.experts, self.used, tokens)

    def share_read(self, tokens: float, block: int) -> float:
        """Return the expected share of a block's experts that a step reads.

        The share is 1 for a model without experts.
        """
        return self.distinct(tokens, block) / self.experts if self.experts else 1.0


def distinct_uniform(experts: int, used: int, tokens: float) -> float:
    """Return the expected number of distinct experts if all experts are equally likely.

    The number is `E·(1−(1−k/E)^n)`: each of n tokens chooses k of E experts, independently of other tokens.
    """
    if experts <= 0 or tokens <= 0:
        return 0.0
    if used >= experts:
        return float(experts)
    return experts * -math.expm1(tokens * math.log1p(-used / experts))


def distinct_of_shares(shares: Sequence[float], tokens: float) -> float:
    """Return the expected number of distinct experts if each expert has its own probability.

    The number is `Σ(1−(1−p_e)^n)`: each of n tokens chooses expert e with probability p_e, independently of other
    tokens.
    """
    if tokens <= 0:
        return 0.0
    return math.fsum(1.0 if p >= 1.0 else -math.expm1(tokens * math.log1p(-p)) for p in shares)


def read_routing(model: Model) -> Routing:
    """Return uniform routing over the experts of a model.

    A dense model has 0 experts. Raises `UsageError` if `expert_count` and `expert_used_count` contradict each other.
    """
    experts = model.number("expert_count", 0)
    used = model.number("expert_used_count", 0)
    if used > experts or (experts and not used):
        raise ModelFileUnreadable(f"{model.path}: expert_used_count is {used}, but expert_count is {experts}")
    return Routing(experts=experts, used=used)


def read_imatrix(path: Path, model: Model) -> Routing:
    """Compute the routing of a model from the expert counts that `llama-imatrix` wrote.

    Raises `MissingError` if the file does not exist. Raises `UsageError` if the model has no experts, if the file is
    not an imatrix in GGUF format, if the counts are missing or invalid, or if it was made for a different model.
    """
    uniform = read_routing(model)
    header = read_header(path)
    if header.keys.get("general.type") != "imatrix":
        raise ModelFileUnreadable(f"{path} is not an imatrix", hint="create one with llama-imatrix -o FILE.gguf")
    if not uniform.experts:
        raise ModelFileUnreadable(
            f"{path.name} cannot be used: {model.path} has no experts", hint="omit --imatrix for a dense model"
        )
    names = {one.name for one in model.tensors}
    shares: dict[int, tuple[float, ...]] = {}
    for one in header.tensors:
        match = _COUNTS.match(one.name)
        if match is None:
            continue
        counts = read_values(one)
        if len(counts) != uniform.experts or one.name.removesuffix(".counts") not in names:
            raise ModelFileUnreadable(
                f"{path}: {one.name} has {len(counts)} experts, but {model.path.name} has {uniform.experts}"
                if len(counts) != uniform.experts
                else f"{path}: {one.name} is for a tensor that {model.path.name} does not have",
                hint="the imatrix was made for a different model",
            )
        total = math.fsum(counts)
        if not all(math.isfinite(count) and count >= 0 for count in counts) or total <= 0:
            raise ModelFileUnreadable(f"{path}: {one.name} has invalid counts")
        shares[int(match[1])] = tuple(min(1.0, count * uniform.used / total) for count in counts)
    if not shares:
        raise ModelFileUnreadable(
            f"{path} has no expert counts", hint="it was made for a dense model, or by an old version of llama-imatrix"
        )
    return Routing(
        experts=uniform.experts, used=uniform.used, shares=shares, source=f"counts of {path.name}, {len(shares)} layers"
    )
