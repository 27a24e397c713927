#include "ffn.h"

#include "ggml.h"

#include <vector>

namespace minillm {

void swiglu_forward(int32_t n_embd, int32_t n_ff, const float * w_gate, const float * w_up, const float * w_down,
                    const float * x, float * out) {
    std::vector<float> gate(static_cast<size_t>(n_ff));
    std::vector<float> up(static_cast<size_t>(n_ff));

    ggml_mul_mat(n_embd, n_ff, w_gate, x, gate.data());
    ggml_mul_mat(n_embd, n_ff, w_up,   x, up.data());

    ggml_silu(n_ff, gate.data(), gate.data());
    ggml_mul(n_ff, gate.data(), up.data(), gate.data());

    ggml_mul_mat(n_ff, n_embd, w_down, gate.data(), out);
}

void ffn_forward(const model & mdl, int32_t il, const float * x, float * out) {
    const layer & l = mdl.layers[size_t(il)];

    swiglu_forward(mdl.hp.n_embd, mdl.hp.n_ff, l.ffn_gate.data.data(), l.ffn_up.data.data(), l.ffn_down.data.data(),
                   x, out);
}

} // namespace minillm
