#include "ggml.h"
#include "mmv-id.h"

#include <algorithm>

// one row as a warp adds it up
static float dot_by_lanes(int32_t n_cols, const float * w, const float * x) {
    float sum[MMV_LANES] = {};
    for (int32_t c = 0; c < n_cols; c++) {
        sum[c % MMV_LANES] += w[c] * x[c];
    }
    for (int32_t half = MMV_LANES / 2; half > 0; half /= 2) {
        for (int32_t lane = 0; lane < half; lane++) {
            sum[lane] += sum[lane + half];
        }
    }
    return sum[0];
}

void ggml_mul_mat_id(int32_t n_cols, int32_t n_rows, int32_t n_ids, const float * w, const int32_t * ids,
                     const float * x, int32_t x_step, float * dst) {
    for (int32_t i = 0; i < n_ids; i++) {
        const float * w_id = w + int64_t(ids[i]) * n_rows * n_cols;
        const float * x_id = x + int64_t(i) * x_step;

        // block by block, as the kernel: x stays in the CPU cache
        for (int32_t first = 0; first < n_rows; first += MINILLM_MMV_ROWS) {
            const int32_t last = std::min(first + MINILLM_MMV_ROWS, n_rows);
            for (int32_t r = first; r < last; r++) {
                dst[int64_t(i) * n_rows + r] = dot_by_lanes(n_cols, w_id + int64_t(r) * n_cols, x_id);
            }
        }
    }
}
