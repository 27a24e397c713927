#include "ggml-cuda.h"

#include <stdexcept>

bool ggml_cuda_is_built() {
    return false;
}

const char * ggml_cuda_device() {
    return nullptr;
}

void ggml_cuda_mul_mat_id(int32_t, int32_t, int32_t, int32_t, const float *, const int32_t *, const float *, int32_t,
                          float *) {
    throw std::runtime_error("this build has no CUDA");
}
