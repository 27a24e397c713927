#include "moe.h"

#include "ffn.h"
#include "ggml.h"

#include <algorithm>
#include <vector>

namespace minillm {

void moe_forward(const model & mdl, int32_t il, const float * x, float * out) {
    const hparams & hp = mdl.hp;
    const layer   & l  = mdl.layers[size_t(il)];

    std::vector<float>   logits(size_t(hp.n_expert));
    std::vector<int32_t> chosen(size_t(hp.n_expert_used));
    std::vector<float>   weights(size_t(hp.n_expert_used));

    ggml_mul_mat(hp.n_embd, hp.n_expert, l.ffn_router.data.data(), x, logits.data());
    ggml_top_k(hp.n_expert, hp.n_expert_used, logits.data(), chosen.data());

    // softmax over the chosen alone: the weights add up to 1 whoever is left out
    for (size_t i = 0; i < chosen.size(); i++) {
        weights[i] = logits[size_t(chosen[i])];
    }
    ggml_soft_max(hp.n_expert_used, weights.data(), weights.data());

    std::fill(out, out + hp.n_embd, 0.0f);

    // the best expert first: the order of the sum is part of the result
    std::vector<float> expert_out(size_t(hp.n_embd));
    for (size_t i = 0; i < chosen.size(); i++) {
        const int32_t first_ff   = chosen[i] * hp.n_ff_exp;
        const int32_t first_embd = chosen[i] * hp.n_embd;

        swiglu_forward(hp.n_embd, hp.n_ff_exp, l.ffn_gate.row(first_ff), l.ffn_up.row(first_ff),
                       l.ffn_down.row(first_embd), x, expert_out.data());
        ggml_out_prod(1, hp.n_embd, 1.0f, &weights[i], expert_out.data(), out);
    }
}

} // namespace minillm
