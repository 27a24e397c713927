#pragma once

#include "model.h"

namespace minillm {

// One token through the experts of layer il: the router picks n_expert_used of them and
// weighs their outputs. x and out are rows of n_embd.
void moe_forward(const model & mdl, int32_t il, const float * x, float * out);

} // namespace minillm
