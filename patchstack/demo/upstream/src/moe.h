#pragma once

#include "backend.h"
#include "model.h"

namespace minillm {

// One token through the experts of layer il: the router picks n_expert_used of them and
// weighs their outputs. x and out are rows of n_embd. The backends add up in different orders.
void moe_forward(const model & mdl, int32_t il, backend where, const float * x, float * out);

} // namespace minillm
