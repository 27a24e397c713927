"""Define the formats of the trace records that patchstack can read.

The records of this series are described in docs/reference/traces.md and docs/reference/kv-paged.md. All other records
are described in the notebook of the fork that the series follows. Records of this fork with a bracketed name are read
even if they are not listed here. Their keys are those of the first such record.
"""

from __future__ import annotations

from dataclasses import dataclass

ROUTE_KEYS = frozenset(("route", "op", "kind", "event"))
TYPE_KEYS = frozenset(("type", "type1", "src0_type", "src1_type", "dst_type"))
TENSOR_KEYS = frozenset(("src0", "src1", "dst"))
TEXT_KEYS = ROUTE_KEYS | TYPE_KEYS | TENSOR_KEYS | {"backend", "reason"}
"""The keys whose values are text. The values of all other keys are integers."""

SIGNED_KEYS = frozenset(("spec_i_first", "spec_i_last", "seq"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A kind of record.

    - `name`: the name of the record in patchstack.
    - `text`: the beginning of a record's line.
    - `summary`: the beginning of the summary's line.
    - `keys`: the keys of every record.
    - `by`: the keys by which records are counted. They do not include sequence numbers and positions.
    - `numbers`: the additional keys of records whose event is not `stock`.
    - `tokens`: the key for the number of tokens of a call.
    - `routes`: the counters in the summary whose sum is the number of calls.
    - `counted`: whether the summary has the counters `lines` and `dropped`. Together, they count all calls.
    """

    name: str
    text: str
    keys: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    summary: str | None = None
    tokens: str | None = None
    counted: bool = False
    numbers: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """Whether only the name is known. The keys are then the keys of the first record."""
        return not self.keys and self.summary is None


def _series(
    name: str, keys: str = "", *, routes: str = "", without: tuple[str, ...] = (), tokens: str | None = None
) -> Format:
    whole = tuple(keys.split())
    return Format(
        name=name,
        text=f"trace_{name} ",
        keys=whole,
        by=tuple(key for key in whole if key not in without),
        summary=f"trace_{name}_summary ",
        tokens=tokens,
        counted=True,
        routes=tuple(routes.split()),
    )


SERVING = _series(
    "serving",
    "step decode_tokens prompt_tokens decode_slots started continued waiting unfinished deferred n_batch n_ubatch",
    routes="decode_only_steps prompt_only_steps mixed_steps empty_steps",
    without=("step",),
)
SPEC_SHAPE = _series(
    "spec_shape",
    "kind slot batch_before rows outputs draft spec_i_first spec_i_last pos0 slot_tokens",
    routes="decode verify",
    without=("slot", "spec_i_first", "spec_i_last", "pos0", "slot_tokens"),
)
LAYOUT = _series(
    "layout",
    "backend op src0 src0_type src0_contiguous src1 src1_type dst dst_type ne0 ne1 ne2 ne3 bytes",
    routes="get_rows set_rows cpy cont dup concat",
)
MMID_ROUTE = _series(
    "moe_mmid_route",
    "route type ne2 ne1 ne0 ne00 n_expert src0 src1 dst",
    routes="mmvq mmvf mmq mmf host_sync mmvq_fused mmvf_fused",
    tokens="ne2",
)
MUL_MAT_ROUTE = _series(
    "mul_mat_route",
    "route type type1 ne0 ne1 ne00 ne11 ne12 ne13 src0 src1 dst",
    routes="vec_f mat_f vec_q mmq batched_cublas op_vec_f op_vec_q op_mmq op_cublas fwht vec_f_fused vec_q_fused",
    tokens="ne1",
)
CUBLAS_ROUTE = _series(
    "cublas_route",
    "route type type1 row_diff src1_ncols batch ne00 ne10 src0 src1 dst",
    routes="bf16_tc f16_tc_32f f16_tc_16f sgemm strided_batched batched",
    tokens="src1_ncols",
)
MMQ_SHAPE = _series(
    "moe_mmq_shape",
    "type ncols_dst nchannels_x ncols_max nrows_x ncols_x n_active_est density mmq_x_max mmq_x_best mmq_y stream_k"
    " ntiles efficiency blocks fixup src0 dst",
    tokens="ncols_max",
)
CUDA_GRAPH = _series("cuda_graph", routes="replayed captured warmup reset incompatible disabled")
FORCE_GRAPHS = _series("moe_force_graphs")
KV_PAGED = Format(
    name="kv_paged",
    text="kv_paged event=",
    keys=("event",),
    by=("event", "cache", "stream"),
    numbers=("cache", "stream", "seq", "n", "num_free", "num_blocks", "used_cells", "fallback"),
    summary="kv_paged event=summary ",
)

ADMISSION = Format(
    name="serving admission trace", text="serving admission trace: ", summary="serving admission trace: "
)
GTRACE = Format(name="GTRACE", text="[GTRACE-SUMMARY] ", summary="[GTRACE-SUMMARY] ")
NOTEBOOK_SPEC_SHAPE = Format(
    name="spec shape",
    text="spec shape: ",
    keys=("kind", "rows", "outputs", "draft"),
    by=("kind", "batch_before", "batch_after", "rows", "outputs", "draft"),
)
NOTEBOOK_MMQ_SHAPE = Format(
    name="LLAMA_MOE_MMQ_SHAPE",
    text="[LLAMA_MOE_MMQ_SHAPE] ",
    keys=("type", "ncols_dst", "nchannels_x", "ncols_max"),
    by=(
        *("type", "moe", "ncols_dst", "nchannels_x", "ncols_max", "n_active_est", "density"),
        *("mmq_x_max", "mmq_x_lim", "mmq_x_best", "mmq_y", "stream_k"),
    ),
    tokens="ncols_max",
)

FORMATS = (
    SERVING,
    SPEC_SHAPE,
    LAYOUT,
    MMID_ROUTE,
    MUL_MAT_ROUTE,
    CUBLAS_ROUTE,
    MMQ_SHAPE,
    CUDA_GRAPH,
    FORCE_GRAPHS,
    KV_PAGED,
    ADMISSION,
    GTRACE,
    NOTEBOOK_SPEC_SHAPE,
    NOTEBOOK_MMQ_SHAPE,
)


def bracketed(name: str) -> Format:
    """Return the format for a bracketed name that is not listed: `[LLAMA_…] key=value …`."""
    return Format(name=name, text=f"[{name}] ")


_TOKENS = ("ncols_max", "src1_ncols", "ne11", "ne1", "ne2")


def tokens_key(kind: Format, keys: tuple[str, ...]) -> str | None:
    """Return the key for the number of tokens of a call. Return None if no such key exists.

    For an open format, choose one of `keys`, which are the keys of its records.
    """
    if kind.tokens is not None or not kind.open:
        return kind.tokens
    if "route" not in keys and "ncols_max" not in keys:
        return None
    return next((key for key in _TOKENS if key in keys), None)
