#include "ggml.h"

#include <algorithm>
#include <cmath>

static float sum_of_squares(int32_t n, const float * a) {
    float sum = 0.0f;
    for (int32_t i = 0; i < n; i++) {
        sum += a[i] * a[i];
    }
    return sum;
}

void ggml_rms_norm(int32_t n, const float * a, const float * weight, float eps, float * dst) {
    const float scale = 1.0f / std::sqrt(sum_of_squares(n, a) / float(n) + eps);

    ggml_scale(n, a, scale, dst);
    if (weight != nullptr) {
        ggml_mul(n, dst, weight, dst);
    }
}

void ggml_l2_norm(int32_t n, const float * a, float eps, float * dst) {
    const float norm = std::sqrt(sum_of_squares(n, a));

    ggml_scale(n, a, 1.0f / std::max(norm, eps), dst);
}
