#include "backend.h"

#include "ggml-cuda.h"
#include "ggml.h"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace minillm {

backend backend_from_env() {
    const char * value = std::getenv("MINILLM_BACKEND");
    const std::string name = value != nullptr ? value : "";

    if (name.empty() || name == "cpu") {
        return backend::cpu;
    }
    if (name == "cuda") {
        return backend::cuda;
    }
    throw std::invalid_argument("MINILLM_BACKEND is neither cpu nor cuda: " + name);
}

static bool find_device() {
    if (ggml_cuda_device() != nullptr) {
        return true;
    }
    std::fprintf(stderr, "MINILLM_BACKEND=cuda: %s, so the CPU does it\n",
                 ggml_cuda_is_built() ? "there is no CUDA device" : "this build has no CUDA");
    return false;
}

void mul_mat_id_cuda(int32_t n_cols, int32_t n_rows, int32_t n_expert, int32_t n_ids, const float * w,
                     const int32_t * ids, const float * x, int32_t x_step, float * dst) {
    static const bool has_device = find_device();

    if (has_device) {
        ggml_cuda_mul_mat_id(n_cols, n_rows, n_expert, n_ids, w, ids, x, x_step, dst);
    } else {
        ggml_mul_mat_id(n_cols, n_rows, n_ids, w, ids, x, x_step, dst);
    }
}

} // namespace minillm
