#pragma once

#include "model.h"

namespace minillm {

// down(silu(gate(x)) * up(x)) with n_ff hidden values; x and out are rows of n_embd
void swiglu_forward(int32_t n_embd, int32_t n_ff, const float * w_gate, const float * w_up, const float * w_down,
                    const float * x, float * out);

// the feed-forward block of a layer without experts
void ffn_forward(const model & mdl, int32_t il, const float * x, float * out);

} // namespace minillm
