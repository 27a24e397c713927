#pragma once

#include <cstdint>

namespace minillm {

// Where MINILLM_TRACE is set: one line on stderr with the shape of a step. A step of one
// token is a decode, a longer one a prefill that n_batches passes over the layers take.
void trace_step(int32_t n_tokens, int32_t n_past, int32_t n_batches, bool all_logits);

} // namespace minillm
