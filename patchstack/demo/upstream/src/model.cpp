#include "model.h"

#include "rng.h"

#include <cmath>
#include <stdexcept>

namespace minillm {

static void init(tensor & t, const std::string & name, int32_t n_cols, int32_t n_rows) {
    t.name   = name;
    t.n_cols = n_cols;
    t.n_rows = n_rows;
    t.data.assign(size_t(n_cols) * size_t(n_rows), 0.0f);
}

model::model(const hparams & hp) : hp(hp) {
    if (!hp.valid()) {
        throw std::invalid_argument("the model has a shape that cannot run");
    }

    init(tok_embd, "tok_embd", hp.n_embd, hp.n_vocab);

    layers.resize(size_t(hp.n_layer));
    for (int32_t il = 0; il < hp.n_layer; il++) {
        layer & l = layers[size_t(il)];

        const std::string prefix = "blk." + std::to_string(il) + ".";

        // the recurrent layers have as many key heads as query heads
        const int32_t n_embd_kv = hp.is_recurrent(il) ? hp.n_embd : hp.n_embd_kv();

        init(l.mixer_norm, prefix + "mixer_norm", hp.n_embd, 1);
        init(l.wq,         prefix + "wq",         hp.n_embd, hp.n_embd);
        init(l.wk,         prefix + "wk",         hp.n_embd, n_embd_kv);
        init(l.wv,         prefix + "wv",         hp.n_embd, n_embd_kv);
        init(l.wo,         prefix + "wo",         hp.n_embd, hp.n_embd);
        if (hp.is_recurrent(il)) {
            init(l.w_alpha, prefix + "w_alpha", hp.n_embd, hp.n_head);
            init(l.w_beta,  prefix + "w_beta",  hp.n_embd, hp.n_head);
            init(l.w_gate,  prefix + "w_gate",  hp.n_embd, hp.n_embd);
        }

        const int32_t n_ff     = hp.is_moe(il) ? hp.n_ff_exp : hp.n_ff;
        const int32_t n_expert = hp.is_moe(il) ? hp.n_expert : 1;

        init(l.ffn_norm, prefix + "ffn_norm", hp.n_embd, 1);
        if (hp.is_moe(il)) {
            init(l.ffn_router, prefix + "ffn_router", hp.n_embd, hp.n_expert);
        }
        init(l.ffn_gate, prefix + "ffn_gate", hp.n_embd, n_ff * n_expert);
        init(l.ffn_up,   prefix + "ffn_up",   hp.n_embd, n_ff * n_expert);
        init(l.ffn_down, prefix + "ffn_down", n_ff,      hp.n_embd * n_expert);
    }

    init(output_norm, "output_norm", hp.n_embd,  1);
    init(output,      "output",      hp.n_embd,  hp.n_vocab);
    init(output_bias, "output_bias", hp.n_vocab, 1);
}

std::vector<tensor *> model::tensors() {
    std::vector<tensor *> all;

    all.push_back(&tok_embd);
    for (layer & l : layers) {
        for (tensor * t : { &l.mixer_norm, &l.wq, &l.wk, &l.wv, &l.wo, &l.w_alpha, &l.w_beta, &l.w_gate,
                            &l.ffn_norm, &l.ffn_router, &l.ffn_gate, &l.ffn_up, &l.ffn_down }) {
            if (!t->data.empty()) {
                all.push_back(t);
            }
        }
    }
    all.push_back(&output_norm);
    all.push_back(&output);
    all.push_back(&output_bias);

    return all;
}

std::vector<const tensor *> model::tensors() const {
    const std::vector<tensor *> all = const_cast<model *>(this)->tensors();
    return { all.begin(), all.end() };
}

static bool ends_with(const std::string & s, const std::string & end) {
    return s.size() >= end.size() && s.compare(s.size() - end.size(), end.size(), end) == 0;
}

void model::randomize(uint64_t seed) {
    for (tensor * t : tensors()) {
        // a stream for each name: a tensor more leaves the others as they are
        uint64_t stream = seed;
        for (const char c : t->name) {
            stream = rng(stream ^ static_cast<unsigned char>(c)).next();
        }
        rng gen(stream);

        const bool  is_norm = ends_with(t->name, "_norm");
        const float scale   = is_norm ? 0.1f : std::sqrt(3.0f / float(t == &tok_embd ? 1 : t->n_cols));

        for (float & w : t->data) {
            w = gen.next_float() * scale + (is_norm ? 1.0f : 0.0f);
        }
    }

    // random logits favour no byte; the bias keeps the output to what a terminal can show
    for (int32_t i = 0; i < hp.n_vocab; i++) {
        const bool is_text = i == ' ' || (i >= 'a' && i <= 'z');
        output_bias.data[size_t(i)] = is_text ? 0.0f : -6.0f;
    }
}

} // namespace minillm
