#pragma once

// Operators on plain float rows. No allocation, no threads, and one fixed order
// of accumulation each, so that a result depends on the input alone.

#include <cstdint>

enum ggml_op {
    GGML_OP_ADD,
    GGML_OP_MUL,
    GGML_OP_SCALE,
    GGML_OP_SILU,
    GGML_OP_SIGMOID,
    GGML_OP_SOFT_MAX,
    GGML_OP_MUL_MAT,
    GGML_OP_MUL_MAT_ID,
    GGML_OP_OUT_PROD,
    GGML_OP_RMS_NORM,
    GGML_OP_L2_NORM,
    GGML_OP_ROPE,
    GGML_OP_ARGMAX,
    GGML_OP_TOP_K,

    GGML_OP_COUNT,
};

// the name that the tests and the logs use, "MUL_MAT" for GGML_OP_MUL_MAT
const char * ggml_op_name(ggml_op op);

// dst may be the same row as an input for all element-wise operators

void ggml_add    (int32_t n, const float * a, const float * b, float * dst);
void ggml_mul    (int32_t n, const float * a, const float * b, float * dst);
void ggml_scale  (int32_t n, const float * a, float s, float * dst);
void ggml_silu   (int32_t n, const float * a, float * dst);
void ggml_sigmoid(int32_t n, const float * a, float * dst);

// softmax over the row; the maximum is subtracted first so that exp stays finite
void ggml_soft_max(int32_t n, const float * a, float * dst);

// dst[r] = sum over c of w[r][c] * x[c], c ascending; dst must not overlap x
void ggml_mul_mat(int32_t n_cols, int32_t n_rows, const float * w, const float * x, float * dst);

// ggml_mul_mat with chosen matrices of several: w has n_rows rows an expert, one expert after
// the other, and ids names n_ids of them. The i-th takes x + i * x_step (0: all take the same
// row) and gives n_rows values from dst + i * n_rows on. A row adds up in the order of mmv-id.h.
void ggml_mul_mat_id(int32_t n_cols, int32_t n_rows, int32_t n_ids, const float * w, const int32_t * ids,
                     const float * x, int32_t x_step, float * dst);

// m[r][c] += s * a[r] * b[c]
void ggml_out_prod(int32_t n_rows, int32_t n_cols, float s, const float * a, const float * b, float * m);

// a / sqrt(mean(a^2) + eps), times the weight where one is given
void ggml_rms_norm(int32_t n, const float * a, const float * weight, float eps, float * dst);

// a / max(|a|, eps)
void ggml_l2_norm(int32_t n, const float * a, float eps, float * dst);

// rotates the pairs (i, i + n/2) of one head by pos * base^(-2i/n), in place
void ggml_rope(int32_t n, int32_t pos, float base, float * x);

// index of the largest value, the first one of equals
int32_t ggml_argmax(int32_t n, const float * a);

// indices of the k largest values, largest first, the lower index first among equals
void ggml_top_k(int32_t n, int32_t k, const float * a, int32_t * dst);
