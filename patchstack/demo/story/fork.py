"""Define the commits of the fork.

The commits add a paged KV cache, a trace and a faster mixture of experts. One commit makes minillm-bench print how much
of the paged pool is used.
"""

from __future__ import annotations

from .edits import Commit, Create, Replace
from .paged import FIX, MOVED_ON, PAGED, TEST

__all__ = ["FORK", "MOVED_ON"]

_TRACE = Commit(
    subject="feat(trace): log prefill and decode shapes with MINILLM_TRACE",
    body="""\
One line on stderr a step, with the tokens, the position and the passes over
the layers. A slow run tells more when its shapes are known.

Switch: MINILLM_TRACE
Default: off""",
    edits=(
        Create(path="src/trace.h", source="src/trace.h"),
        Create(path="src/trace.cpp", source="src/trace.cpp"),
        Replace(
            path="src/CMakeLists.txt",
            old="""\
    tokenizer.cpp
""",
            new="""\
    tokenizer.cpp
    trace.cpp
""",
        ),
        Replace(
            path="src/context.cpp",
            old="""\
#include "moe.h"
""",
            new="""\
#include "moe.h"
#include "trace.h"
""",
        ),
        Replace(
            path="src/context.cpp",
            old="""\
    logits_.clear();
""",
            new="""\
    logits_.clear();
    trace_step(n_tokens, n_past_, (n_tokens + params.n_batch - 1) / params.n_batch, all_logits);
""",
        ),
    ),
)

# the edits to the CUDA kernel in the commit that adds MINILLM_MMV_SHARE_X
_SHARE_X = (
    Replace(
        path="ggml/src/ggml-cuda/mmv-id.cu",
        old="""\
#define CUDA_CHECK(call)""",
        new="""\
// 1: the rows of a block load each input once for all of them, by way of shared memory
#ifndef MINILLM_MMV_SHARE_X
#define MINILLM_MMV_SHARE_X 0
#endif

static_assert(MINILLM_MMV_SHARE_X == 0 || MINILLM_MMV_SHARE_X == 1, "MINILLM_MMV_SHARE_X has to be 0 or 1");

#define CUDA_CHECK(call)""",
    ),
    Replace(
        path="ggml/src/ggml-cuda/mmv-id.cu",
        old="""\
    // the whole warp leaves: all lanes have the same row
    if (row >= n_rows) {
        return;
    }

""",
        new="""\
    // the same for all lanes of a warp; a warp without a row still loads inputs for the others
    const bool has_row = row < n_rows;

""",
    ),
    Replace(
        path="ggml/src/ggml-cuda/mmv-id.cu",
        old="""\
    for (int32_t c = lane; c < n_cols; c += MMV_LANES) {
        sum += w_row[c] * x_id[c];
    }
""",
        new="""\
#if MINILLM_MMV_SHARE_X
    constexpr int32_t n_tile = MMV_LANES * MINILLM_MMV_ROWS;
    __shared__ float tile[n_tile];

    for (int32_t first = 0; first < n_cols; first += n_tile) {
        const int32_t mine = int32_t(threadIdx.y) * MMV_LANES + lane;

        __syncthreads();
        tile[mine] = first + mine < n_cols ? x_id[first + mine] : 0.0f;
        __syncthreads();

        for (int32_t c = lane; has_row && c < n_tile && first + c < n_cols; c += MMV_LANES) {
            sum += w_row[first + c] * tile[c];
        }
    }
#else
    for (int32_t c = lane; has_row && c < n_cols; c += MMV_LANES) {
        sum += w_row[c] * x_id[c];
    }
#endif
""",
    ),
    Replace(
        path="ggml/src/ggml-cuda/mmv-id.cu",
        old="    if (lane == 0) {\n",
        new="    if (has_row && lane == 0) {\n",
    ),
)

_MOE = Commit(
    subject="perf(moe): reuse each input of an expert for four rows",
    body="""\
A dot product with one accumulator waits for the last addition. Four rows at a
time keep the adder busy and load each input once. Every row still adds in its
own order, so the logits are the same bit for bit. On the GPU the rows of a block
share their input, where MINILLM_MMV_SHARE_X is defined as 1.

Switch: MINILLM_MOE_REUSE
Default: off""",
    edits=(
        Replace(
            path="src/moe.h",
            old="""\
void moe_forward(const model & mdl, int32_t il, backend where, const float * x, float * out);
""",
            new="""\
// With reuse each input serves four rows of an expert at a time: the same bits, sooner.
void moe_forward(const model & mdl, int32_t il, backend where, const float * x, float * out, bool reuse);
""",
        ),
        Replace(
            path="src/moe.cpp",
            old="""\
void moe_forward(const model & mdl, int32_t il, backend where, const float * x, float * out) {
""",
            new="""\
// ggml_mul_mat with four rows at a time: each has an accumulator and an order of its own
static void mul_mat_x4(int32_t n_cols, int32_t n_rows, const float * w, const float * x, float * dst) {
    int32_t r = 0;
    for (; r + 4 <= n_rows; r += 4) {
        const float * w0 = w + int64_t(r) * n_cols;
        const float * w1 = w0 + n_cols;
        const float * w2 = w1 + n_cols;
        const float * w3 = w2 + n_cols;

        float sum0 = 0.0f;
        float sum1 = 0.0f;
        float sum2 = 0.0f;
        float sum3 = 0.0f;
        for (int32_t c = 0; c < n_cols; c++) {
            const float xc = x[c];
            sum0 += w0[c] * xc;
            sum1 += w1[c] * xc;
            sum2 += w2[c] * xc;
            sum3 += w3[c] * xc;
        }
        dst[r + 0] = sum0;
        dst[r + 1] = sum1;
        dst[r + 2] = sum2;
        dst[r + 3] = sum3;
    }
    ggml_mul_mat(n_cols, n_rows - r, w + int64_t(r) * n_cols, x, dst + r);
}

// swiglu_forward by way of mul_mat_x4
static void swiglu_x4(int32_t n_embd, int32_t n_ff, const float * w_gate, const float * w_up,
                      const float * w_down, const float * x, float * out) {
    std::vector<float> gate(static_cast<size_t>(n_ff));
    std::vector<float> up(static_cast<size_t>(n_ff));

    mul_mat_x4(n_embd, n_ff, w_gate, x, gate.data());
    mul_mat_x4(n_embd, n_ff, w_up,   x, up.data());

    ggml_silu(n_ff, gate.data(), gate.data());
    ggml_mul(n_ff, gate.data(), up.data(), gate.data());

    mul_mat_x4(n_ff, n_embd, w_down, gate.data(), out);
}

void moe_forward(const model & mdl, int32_t il, backend where, const float * x, float * out, bool reuse) {
    const auto expert_forward = reuse ? swiglu_x4 : swiglu_forward;

""",
        ),
        Replace(
            path="src/moe.cpp",
            old="""\
        swiglu_forward(hp.n_embd, hp.n_ff_exp, l.ffn_gate.row(first_ff), l.ffn_up.row(first_ff),
""",
            new="""\
        expert_forward(hp.n_embd, hp.n_ff_exp, l.ffn_gate.row(first_ff), l.ffn_up.row(first_ff),
""",
        ),
        Replace(
            path="src/context.h",
            old="""\
    int32_t n_batch = 64;
""",
            new="""\
    int32_t n_batch = 64;

    // four rows of an expert at a time, MINILLM_MOE_REUSE
    bool moe_reuse = false;
""",
        ),
        Replace(
            path="src/context.cpp",
            old="""\
        throw std::invalid_argument("MINILLM_N_BATCH is out of range");
    }
""",
            new="""\
        throw std::invalid_argument("MINILLM_N_BATCH is out of range");
    }

    params.moe_reuse = env_flag("MINILLM_MOE_REUSE");
""",
        ),
        Replace(
            path="src/context.cpp",
            old="moe_forward(mdl, il, params.moe_backend, cur.data(), out.data());",
            new="moe_forward(mdl, il, params.moe_backend, cur.data(), out.data(), params.moe_reuse);",
        ),
        *_SHARE_X,
        Replace(
            path="tests/test-model.cpp",
            old="""\
    check(all_logits(cut, tokens) == want, "batches of 7 equal one batch");
""",
            new="""\
    check(all_logits(cut, tokens) == want, "batches of 7 equal one batch");

    params.moe_reuse = !params.moe_reuse;
    context other(mdl, params);
    check(all_logits(other, tokens) == want, "moe_reuse changes no bit");
""",
        ),
    ),
)

_BENCH = Commit(
    subject="feat(bench): print paged pool use in minillm-bench",
    body="""\
Tokens per second say what the paged cache costs, the blocks say what it saves.
The fields are there with the paged cache alone: other lines stay as they are.

Switch: MINILLM_KV_PAGED
Default: off""",
    edits=(
        Replace(
            path="tools/bench/bench.cpp",
            old="""\
// One JSON object a line, so that a reader can take the results as they come.
static void print_result(const char * test,""",
            new="""\
// the blocks that the last run left in use, and all that the pool has
static void print_pool(const kv_paged & pool) {
    std::printf(", \\"kv_block\\": %d", int(pool.block_size()));
    std::printf(", \\"kv_blocks_used\\": %d", int(pool.n_blocks_used()));
    std::printf(", \\"kv_blocks_pool\\": %d", int(pool.n_blocks_pool()));
}

// One JSON object a line, so that a reader can take the results as they come.
static void print_result(const context & ctx, const char * test,""",
        ),
        Replace(
            path="tools/bench/bench.cpp",
            old="""\
    std::printf("}\\n");
""",
            new="""\
    if (ctx.cache().paged_pool() != nullptr) {
        print_pool(*ctx.cache().paged_pool());
    }
    std::printf("}\\n");
""",
        ),
        Replace(
            path="tools/bench/bench.cpp",
            old="    print_result(test,",
            new="    print_result(ctx, test,",
        ),
    ),
)

# The commits are in branch order. MOVED_ON is not included, because it is committed after the series is exported.
FORK: tuple[Commit, ...] = (PAGED, _TRACE, TEST, _MOE, FIX, _BENCH)
