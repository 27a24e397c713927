"""Group the calls of a trace into rows, and compute the minimum bytes and operations of each call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from patchstack.llama.traces.formats import (
    CUBLAS_ROUTE,
    LAYOUT,
    MMID_ROUTE,
    MMQ_SHAPE,
    MUL_MAT_ROUTE,
    ROUTE_KEYS,
    TENSOR_KEYS,
    TYPE_KEYS,
    tokens_key,
)
from patchstack.llama.traces.reading import Cell, Trace
from patchstack.llama.traces.records import Value, row_bytes

_F32 = 4


@dataclass(frozen=True, slots=True)
class Work:
    """The operations and bytes of one or more calls. A value is None if it cannot be computed from the shapes."""

    operations: int | None
    bytes: int | None

    def times(self, calls: int) -> Work:
        """Return the work of `calls` such calls."""
        return Work(
            None if self.operations is None else self.operations * calls,
            None if self.bytes is None else self.bytes * calls,
        )


NONE = Work(None, None)


def work_of(trace: str, values: Mapping[str, Value]) -> Work:
    """Return the work of a call. `trace` is the name of its trace, and `values` is its record."""
    make = _MAKERS.get(trace)
    if make is None:
        return NONE
    numbers = {key: value for key, value in values.items() if isinstance(value, int)}
    types = {key: str(values[key]) for key in ("type", "type1") if key in values}
    try:
        return make(numbers, types)
    except KeyError:
        return NONE  # a record that exceeds the table of shapes has no shape


def _bytes(*parts: int | None) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _matrix(kind: str, columns: int, rows: int) -> int | None:
    row = row_bytes(kind, columns)
    return None if row is None else row * rows


def _mul_mat(n: Mapping[str, int], types: Mapping[str, str]) -> Work:
    batch = n["ne12"] * n["ne13"]
    return Work(
        2 * n["ne00"] * n["ne0"] * n["ne1"] * batch,
        _bytes(
            _matrix(types["type"], n["ne00"], n["ne0"]),
            _matrix(types["type1"], n["ne00"], n["ne11"] * batch),
            n["ne0"] * n["ne1"] * batch * _F32,
        ),
    )


def _mmid(n: Mapping[str, int], types: Mapping[str, str]) -> Work:
    pairs = n["ne1"] * n["ne2"]
    return Work(
        2 * n["ne00"] * n["ne0"] * pairs,
        _bytes(
            _matrix(types["type"], n["ne00"], n["ne0"] * min(n["n_expert"], pairs)),
            n["ne00"] * n["ne2"] * _F32,
            n["ne0"] * pairs * _F32,
        ),
    )


def _cublas(n: Mapping[str, int], types: Mapping[str, str]) -> Work:
    return Work(
        2 * n["row_diff"] * n["src1_ncols"] * n["ne00"] * n["batch"],
        _bytes(
            _matrix(types["type"], n["ne00"], n["row_diff"] * n["batch"]),
            _matrix(types["type1"], n["ne10"], n["src1_ncols"] * n["batch"]),
            n["row_diff"] * n["src1_ncols"] * n["batch"] * _F32,
        ),
    )


def _mmq(n: Mapping[str, int], types: Mapping[str, str]) -> Work:
    return Work(
        2 * n["nrows_x"] * n["ncols_x"] * n["ncols_dst"],
        _bytes(
            _matrix(types["type"], n["ncols_x"], n["nrows_x"] * n["n_active_est"]),
            n["nrows_x"] * n["ncols_dst"] * _F32,
        ),
    )


def _layout(n: Mapping[str, int], types: Mapping[str, str]) -> Work:
    return Work(0, n["bytes"])


_MAKERS: Mapping[str, Callable[[Mapping[str, int], Mapping[str, str]], Work]] = {
    MUL_MAT_ROUTE.name: _mul_mat,
    MMID_ROUTE.name: _mmid,
    CUBLAS_ROUTE.name: _cublas,
    MMQ_SHAPE.name: _mmq,
    LAYOUT.name: _layout,
}


_About = Callable[[Cell], str]
DECODE_TOKENS = 128
"""A call with at most this many tokens counts as decode. One fork's notebook uses the same limit, for 128 streams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The calls with the same `route` and the same `about`.

    `route` includes the types. `about` is a shape or the tensors; it is empty in a row for a whole route. `share` is
    the row's share of all calls of the trace, from 0 to 1. `decode` and `prefill` are the numbers of decode and prefill
    calls (see `DECODE_TOKENS`). Both are None if the trace does not record the number of tokens.
    """

    trace: str
    route: str
    about: str
    calls: int
    share: float
    decode: int | None
    prefill: int | None
    work: Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The distribution of calls over values.

    `distinct` is the number of distinct values. `entropy` is the entropy of their shares, in bits; it is 0 if there is
    only one value. `top` is the most frequent value, and `top_share` is its share.
    """

    distinct: int
    entropy: float
    top: str
    top_share: float


def spread(counts: Mapping[str, int]) -> Spread | None:
    """Return the distribution of calls, from the number of calls for each value. Return None if there are no calls."""
    total = sum(counts.values())
    if not total:
        return None
    shares = [count / total for count in counts.values() if count]
    top = max(counts, key=lambda value: (counts[value], value))
    return Spread(
        distinct=len(shares),
        entropy=max(0.0, -sum(share * math.log2(share) for share in shares)),
        top=top,
        top_share=counts[top] / total,
    )


def route_text(trace: Trace, cell: Cell) -> str:
    """Return the route and the types of a call, for example `mmq nvfp4`."""
    return " ".join(str(value) for key, value in _pairs(trace, cell) if key in ROUTE_KEYS | TYPE_KEYS and value != "-")


def shape_text(trace: Trace, cell: Cell) -> str:
    """Return the shape of a call, for example `ne0=4096 ne1=16`."""
    return " ".join(f"{key}={value}" for key, value in _pairs(trace, cell) if _is_shape(key))


def tensor_text(trace: Trace, cell: Cell) -> str:
    """Return the names of the tensors of a call, for example `blk.N.attn_q.weight -> Qcur-N`."""
    names = {key: str(value) for key, value in _pairs(trace, cell) if key in TENSOR_KEYS and value != "-"}
    sources = " + ".join(names[key] for key in ("src0", "src1") if key in names)
    # Show only the weight: it identifies a multiplication, but several multiplications share the same activation.
    if trace.format.tokens is not None and "src0" in names:
        sources = names["src0"]
    return f"{sources} -> {names['dst']}" if sources and "dst" in names else sources or names.get("dst", "")


def _is_shape(key: str) -> bool:
    return key not in ROUTE_KEYS | TYPE_KEYS | TENSOR_KEYS | {"backend", "reason"}


def _pairs(trace: Trace, cell: Cell) -> Iterable[tuple[str, Value]]:
    return zip(trace.keys, cell.values, strict=True)


def has_routes(trace: Trace) -> bool:
    """Return whether the records of a trace are calls that can be counted by route or tile shape."""
    calls = tokens_key(trace.format, trace.keys) is not None or "op" in trace.keys or trace.format.open
    return bool(trace.cells) and calls


def by_route(trace: Trace, *, decode_tokens: int = DECODE_TOKENS) -> list[Row]:
    """Return a row for each combination of route and types. The row with the most calls is first."""
    return _rows(trace, lambda cell: "", decode_tokens)


def by_shape(trace: Trace, *, decode_tokens: int = DECODE_TOKENS) -> list[Row]:
    """Return a row for each combination of route, types and shape. The row with the most calls is first."""
    return _rows(trace, lambda cell: shape_text(trace, cell), decode_tokens)


def by_tensor(trace: Trace, *, decode_tokens: int = DECODE_TOKENS) -> list[Row]:
    """Return a row for each combination of route, types and tensors. Layers are combined.

    Return no rows if the trace does not record tensor names.
    """
    if not TENSOR_KEYS & set(trace.keys):
        return []
    return _rows(trace, lambda cell: tensor_text(trace, cell), decode_tokens)


def spread_of(rows: Sequence[Row]) -> Spread | None:
    """Return the distribution of calls over rows. Return None if there are no calls."""
    return spread({f"{row.route} {row.about}".strip(): row.calls for row in rows})


def cell_work(trace: Trace, cell: Cell) -> Work:
    """Return the work of one call in a cell."""
    return work_of(trace.name, dict(_pairs(trace, cell)))


def _rows(trace: Trace, about: _About, decode_tokens: int) -> list[Row]:
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in trace.cells:
        if cell.calls:
            groups.setdefault((route_text(trace, cell), about(cell)), []).append(cell)
    total = sum(cell.calls for cell in trace.cells)
    rows = [_row(trace, name, cells, total, decode_tokens) for name, cells in groups.items()]
    return sorted(rows, key=lambda row: (-row.calls, row.route, row.about))


def _row(trace: Trace, name: tuple[str, str], cells: Sequence[Cell], total: int, decode_tokens: int) -> Row:
    key = tokens_key(trace.format, trace.keys)
    place = trace.keys.index(key) if key in trace.keys and key is not None else None
    calls = sum(cell.calls for cell in cells)
    widths = [] if place is None else [(cell.values[place], cell.calls) for cell in cells]
    known = bool(widths) and all(isinstance(width, int) for width, _ in widths)
    few = sum(count for width, count in widths if isinstance(width, int) and width <= decode_tokens)
    decode = few if known else None
    works = [cell_work(trace, cell).times(cell.calls) for cell in cells]
    return Row(
        trace=trace.name,
        route=name[0],
        about=name[1],
        calls=calls,
        share=calls / total,
        decode=decode,
        prefill=None if decode is None else calls - decode,
        work=_together(works),
    )


def _together(works: Sequence[Work]) -> Work:
    operations = [one.operations for one in works if one.operations is not None]
    moved = [one.bytes for one in works if one.bytes is not None]
    if not works:
        return NONE
    return Work(
        sum(operations) if len(operations) == len(works) else None, sum(moved) if len(moved) == len(works) else None
    )
