#include "context.h"

#include "attention.h"
#include "env.h"
#include "ffn.h"
#include "ggml.h"
#include "moe.h"

#include <algorithm>
#include <stdexcept>

namespace minillm {

context_params context_params::from_env() {
    context_params params;

    params.n_ctx = env_int("MINILLM_N_CTX", params.n_ctx);
    if (params.n_ctx < 0 || params.n_ctx > 1 << 20) {
        throw std::invalid_argument("MINILLM_N_CTX is out of range");
    }

    params.n_batch = env_int("MINILLM_N_BATCH", params.n_batch);
    if (params.n_batch < 1) {
        throw std::invalid_argument("MINILLM_N_BATCH is out of range");
    }

    params.moe_backend = backend_from_env();

    return params;
}

context::context(const model & mdl, const context_params & params)
    : mdl(mdl), params(params), kv(mdl.hp, params.n_ctx > 0 ? params.n_ctx : mdl.hp.n_ctx) {
    for (int32_t il = 0; il < mdl.hp.n_layer; il++) {
        states.push_back(mdl.hp.is_recurrent(il) ? recurrent_state_init(mdl.hp) : recurrent_state());
    }
}

void context::decode(const std::vector<token> & tokens, bool all_logits) {
    const int32_t n_tokens = int32_t(tokens.size());

    for (const token tok : tokens) {
        if (tok < 0 || tok >= mdl.hp.n_vocab) {
            throw std::invalid_argument("a token is not in the vocabulary");
        }
    }

    kv.extend(n_past_ + n_tokens);
    logits_.clear();

    for (int32_t first = 0; first < n_tokens; first += params.n_batch) {
        const int32_t n_batch = std::min(params.n_batch, n_tokens - first);
        const bool    is_last = first + n_batch == n_tokens;

        decode_batch(tokens.data() + first, n_batch, all_logits ? n_batch : is_last ? 1 : 0);
    }
}

// all tokens through a layer before the next layer: its weights stay in the CPU cache
void context::decode_batch(const token * tokens, int32_t n_tokens, int32_t n_logits) {
    const hparams & hp = mdl.hp;

    std::vector<float> hidden;
    for (int32_t i = 0; i < n_tokens; i++) {
        const float * embd = mdl.tok_embd.row(tokens[i]);
        hidden.insert(hidden.end(), embd, embd + hp.n_embd);
    }

    std::vector<float> cur(size_t(hp.n_embd));
    std::vector<float> out(size_t(hp.n_embd));

    for (int32_t il = 0; il < hp.n_layer; il++) {
        const layer & l = mdl.layers[size_t(il)];

        for (int32_t i = 0; i < n_tokens; i++) {
            float * h = hidden.data() + i * hp.n_embd;

            ggml_rms_norm(hp.n_embd, h, l.mixer_norm.row(0), hp.norm_eps, cur.data());
            if (hp.is_recurrent(il)) {
                recurrent_forward(mdl, il, states[size_t(il)], cur.data(), out.data());
            } else {
                attention_forward(mdl, il, n_past_ + i, kv, cur.data(), out.data());
            }
            ggml_add(hp.n_embd, h, out.data(), h);

            ggml_rms_norm(hp.n_embd, h, l.ffn_norm.row(0), hp.norm_eps, cur.data());
            if (hp.is_moe(il)) {
                moe_forward(mdl, il, params.moe_backend, cur.data(), out.data());
            } else {
                ffn_forward(mdl, il, cur.data(), out.data());
            }
            ggml_add(hp.n_embd, h, out.data(), h);
        }
    }

    n_past_ += n_tokens;

    for (int32_t i = n_tokens - n_logits; i < n_tokens; i++) {
        ggml_rms_norm(hp.n_embd, hidden.data() + i * hp.n_embd, mdl.output_norm.row(0), hp.norm_eps, cur.data());

        logits_.resize(logits_.size() + size_t(hp.n_vocab));
        float * dst = logits_.data() + logits_.size() - hp.n_vocab;

        ggml_mul_mat(hp.n_embd, hp.n_vocab, mdl.output.data.data(), cur.data(), dst);
        ggml_add(hp.n_vocab, dst, mdl.output_bias.data.data(), dst);
    }
}

void context::checkpoint() {
    saved_states = states;
    n_saved      = n_past_;
}

bool context::truncate(int32_t n_past) {
    if (n_past == n_past_) {
        return true;
    }
    if (n_past > n_past_ || n_past < 0 || (n_past != 0 && n_past != n_saved)) {
        return false;
    }

    if (n_past == 0) {
        for (recurrent_state & state : states) {
            std::fill(state.begin(), state.end(), 0.0f);
        }
        n_saved = 0;
        kv.clear();
    } else {
        states = saved_states;
        kv.truncate(n_past);
    }
    n_past_ = n_past;

    return true;
}

} // namespace minillm
