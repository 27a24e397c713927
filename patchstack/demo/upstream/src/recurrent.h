#pragma once

#include "model.h"

#include <vector>

namespace minillm {

// The state of one recurrent layer: for each head a matrix that maps keys to values.
// Its size does not depend on the number of tokens seen, and it cannot be rolled back.
using recurrent_state = std::vector<float>;

recurrent_state recurrent_state_init(const hparams & hp);

// one token through the gated delta rule of layer il; x and out are rows of n_embd
void recurrent_forward(const model & mdl, int32_t il, recurrent_state & state, const float * x, float * out);

} // namespace minillm
