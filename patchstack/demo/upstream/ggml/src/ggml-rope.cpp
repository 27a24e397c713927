#include "ggml.h"

#include <cmath>

void ggml_rope(int32_t n, int32_t pos, float base, float * x) {
    const int32_t half = n / 2;

    for (int32_t i = 0; i < half; i++) {
        // the angle in double: a float has too few bits left at large positions
        const double theta = double(pos) * std::pow(double(base), -2.0 * i / n);

        const float c = float(std::cos(theta));
        const float s = float(std::sin(theta));

        const float x0 = x[i];
        const float x1 = x[i + half];

        x[i]        = x0 * c - x1 * s;
        x[i + half] = x0 * s + x1 * c;
    }
}
