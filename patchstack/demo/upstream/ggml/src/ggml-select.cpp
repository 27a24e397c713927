#include "ggml.h"

int32_t ggml_argmax(int32_t n, const float * a) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) {
        if (a[i] > a[best]) {
            best = i;
        }
    }
    return best;
}

void ggml_top_k(int32_t n, int32_t k, const float * a, int32_t * dst) {
    int32_t n_dst = 0;

    // the k best so far stay sorted in dst; a later equal never passes an earlier one
    for (int32_t i = 0; i < n; i++) {
        int32_t at = n_dst;
        while (at > 0 && a[i] > a[dst[at - 1]]) {
            at--;
        }
        if (at >= k) {
            continue;
        }
        if (n_dst < k) {
            n_dst++;
        }
        for (int32_t j = n_dst - 1; j > at; j--) {
            dst[j] = dst[j - 1];
        }
        dst[at] = i;
    }
}
