#pragma once

#include <cstdint>

namespace minillm {

// what runs the experts of a MoE layer
enum class backend { cpu, cuda };

// MINILLM_BACKEND, cpu where it is not set; throws std::invalid_argument on other names
backend backend_from_env();

// ggml_mul_mat_id on the GPU. Without one its CPU twin gives the same bits, and the first call
// says so on stderr: whoever asked for a GPU should not take the CPU's speed for that of the GPU.
void mul_mat_id_cuda(int32_t n_cols, int32_t n_rows, int32_t n_expert, int32_t n_ids, const float * w,
                     const int32_t * ids, const float * x, int32_t x_step, float * dst);

} // namespace minillm
