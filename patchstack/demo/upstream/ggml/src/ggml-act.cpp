#include "ggml.h"

#include <cmath>

void ggml_add(int32_t n, const float * a, const float * b, float * dst) {
    for (int32_t i = 0; i < n; i++) {
        dst[i] = a[i] + b[i];
    }
}

void ggml_mul(int32_t n, const float * a, const float * b, float * dst) {
    for (int32_t i = 0; i < n; i++) {
        dst[i] = a[i] * b[i];
    }
}

void ggml_scale(int32_t n, const float * a, float s, float * dst) {
    for (int32_t i = 0; i < n; i++) {
        dst[i] = a[i] * s;
    }
}

static float sigmoid(float x) {
    return 1.0f / (1.0f + std::exp(-x));
}

void ggml_silu(int32_t n, const float * a, float * dst) {
    for (int32_t i = 0; i < n; i++) {
        dst[i] = a[i] * sigmoid(a[i]);
    }
}

void ggml_sigmoid(int32_t n, const float * a, float * dst) {
    for (int32_t i = 0; i < n; i++) {
        dst[i] = sigmoid(a[i]);
    }
}

void ggml_soft_max(int32_t n, const float * a, float * dst) {
    const float max = a[ggml_argmax(n, a)];

    float sum = 0.0f;
    for (int32_t i = 0; i < n; i++) {
        dst[i] = std::exp(a[i] - max);
        sum += dst[i];
    }
    ggml_scale(n, dst, 1.0f / sum, dst);
}
