#pragma once

#include "kv-cache.h"
#include "model.h"

namespace minillm {

// One token at position pos through the attention of layer il: stores its key and value,
// then attends to the positions 0 to pos. x and out are rows of n_embd.
void attention_forward(const model & mdl, int32_t il, int32_t pos, kv_cache & kv, const float * x, float * out);

} // namespace minillm
