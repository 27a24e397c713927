#pragma once

// The operators that have a CUDA kernel. In a build without CUDA there is no device.

#include <cstdint>

// false for a build without CUDA
bool ggml_cuda_is_built();

// the name of the first GPU; nullptr where there is none, or no driver for it
const char * ggml_cuda_device();

// ggml_mul_mat_id on the first GPU, the same bits; all pointers are to host memory.
// Throws std::runtime_error where CUDA reports an error.
void ggml_cuda_mul_mat_id(int32_t n_cols, int32_t n_rows, int32_t n_expert, int32_t n_ids, const float * w,
                          const int32_t * ids, const float * x, int32_t x_step, float * dst);
