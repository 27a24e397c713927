"""Names of tensors with the layer folded: `blk.7.attn_q.weight` and `blk.8.attn_q.weight` are `blk.N.attn_q.weight`."""

from __future__ import annotations

import re

# `blk.7.`, `cache_k_l7`, `node_123` and `leaf_12`, `Qcur-7` and `Qcur-7_(view)`; a number after `#` counts copies.
_NUMBERED = re.compile(
    r"(?<=blk\.)\d+(?=\.)|(?<=_l)\d+(?=$|[_ (#])|(?<=node_)\d+|(?<=leaf_)\d+|(?<=[A-Za-z_])-\d+(?=$|[_ )#])|#\d+"
)
_LAYER = re.compile(r"blk\.(\d+)\.|_l(\d+)(?:$|[_ (#])|[A-Za-z_]-(\d+)(?:$|[_ )#])")


def folded(name: str) -> str:
    """Return the name with `N` for the number of a layer or node."""
    return _NUMBERED.sub(_fold, name)


def _fold(found: re.Match[str]) -> str:
    text = found[0]
    return text[0] + "N" if text[0] in "-#" else "N"


def layer_of(*names: str) -> int | None:
    """Return the layer that the first of the names with a layer says; None if none says any."""
    for name in names:
        if found := _LAYER.search(name):
            return int(next(number for number in found.groups() if number is not None))
    return None
