#include "ggml.h"

void ggml_mul_mat(int32_t n_cols, int32_t n_rows, const float * w, const float * x, float * dst) {
    for (int32_t r = 0; r < n_rows; r++) {
        const float * row = w + int64_t(r) * n_cols;

        // one accumulator: several would be faster and would round differently
        float sum = 0.0f;
        for (int32_t c = 0; c < n_cols; c++) {
            sum += row[c] * x[c];
        }
        dst[r] = sum;
    }
}

void ggml_out_prod(int32_t n_rows, int32_t n_cols, float s, const float * a, const float * b, float * m) {
    for (int32_t r = 0; r < n_rows; r++) {
        const float sa = s * a[r];

        float * row = m + int64_t(r) * n_cols;
        for (int32_t c = 0; c < n_cols; c++) {
            row[c] += sa * b[c];
        }
    }
}
