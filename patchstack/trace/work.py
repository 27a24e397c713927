"""What a call reads, writes and computes at least, from its shapes.

Operations are 2 for each weight and column. Bytes are each operand once: weights in the blocks of their type,
activations in theirs, results in f32. A matrix that is used for several batches counts once; of the experts of a
`MUL_MAT_ID`, as many as there are pairs of token and expert, and at most all. Caches and tiles make the true traffic
larger or smaller: these are figures to weigh calls with, not to measure a kernel by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from patchstack.llama.traces.formats import CUBLAS_ROUTE, LAYOUT, MMID_ROUTE, MMQ_SHAPE, MUL_MAT_ROUTE
from patchstack.llama.traces.ggml_types import row_bytes
from patchstack.llama.traces.records import Value

_F32 = 4


@dataclass(frozen=True, slots=True)
class Work:
    """Operations and bytes of one call. None if its shapes do not say."""

    operations: int | None
    bytes: int | None

    def times(self, calls: int) -> Work:
        """The work of so many calls."""
        return Work(
            None if self.operations is None else self.operations * calls,
            None if self.bytes is None else self.bytes * calls,
        )


NONE = Work(None, None)


def work_of(trace: str, values: Mapping[str, Value]) -> Work:
    """Return the work of one call of that trace."""
    make = _MAKERS.get(trace)
    if make is None:
        return NONE
    numbers = {key: value for key, value in values.items() if isinstance(value, int)}
    types = {key: str(values[key]) for key in ("type", "type1") if key in values}
    try:
        return make(numbers, types)
    except KeyError:
        return NONE  # the table was full, and the shape is not known


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
