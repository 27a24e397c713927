#include "moe.h"

#include "ffn.h"
#include "ggml.h"

#include <algorithm>
#include <vector>

namespace minillm {

// What the chosen experts give, a row of n_embd each: one operator for all of them at a time.
static std::vector<float> experts_by_id(const hparams & hp, const layer & l, const std::vector<int32_t> & chosen,
                                        const float * x) {
    const int32_t n_ids = int32_t(chosen.size());
    const int32_t n_ff  = hp.n_ff_exp;

    std::vector<float> gate(size_t(n_ids * n_ff));
    std::vector<float> up(size_t(n_ids * n_ff));
    std::vector<float> out(size_t(n_ids * hp.n_embd));

    const auto mul_mat_id = [&](int32_t n_cols, int32_t n_rows, const tensor & w, const float * src, int32_t step,
                                std::vector<float> & dst) {
        mul_mat_id_cuda(n_cols, n_rows, hp.n_expert, n_ids, w.data.data(), chosen.data(), src, step, dst.data());
    };
    mul_mat_id(hp.n_embd, n_ff, l.ffn_gate, x, 0, gate);
    mul_mat_id(hp.n_embd, n_ff, l.ffn_up,   x, 0, up);

    ggml_silu(n_ids * n_ff, gate.data(), gate.data());
    ggml_mul(n_ids * n_ff, gate.data(), up.data(), gate.data());

    mul_mat_id(n_ff, hp.n_embd, l.ffn_down, gate.data(), n_ff, out);
    return out;
}

void moe_forward(const model & mdl, int32_t il, backend where, const float * x, float * out) {
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

    if (where == backend::cuda) {
        const std::vector<float> outs = experts_by_id(hp, l, chosen, x);
        for (size_t i = 0; i < chosen.size(); i++) {
            ggml_out_prod(1, hp.n_embd, 1.0f, &weights[i], outs.data() + i * size_t(hp.n_embd), out);
        }
        return;
    }

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
