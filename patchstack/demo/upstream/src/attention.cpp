#include "attention.h"

#include "ggml.h"

#include <cmath>
#include <vector>

namespace minillm {

void attention_forward(const model & mdl, int32_t il, int32_t pos, kv_cache & kv, const float * x, float * out) {
    const hparams & hp = mdl.hp;
    const layer   & l  = mdl.layers[size_t(il)];

    const int32_t n_embd_head = hp.n_embd_head();
    const int32_t n_group     = hp.n_head / hp.n_head_kv;

    std::vector<float> q(size_t(hp.n_embd));
    float * k = kv.k_row(il, pos);
    float * v = kv.v_row(il, pos);

    ggml_mul_mat(hp.n_embd, hp.n_embd,      l.wq.data.data(), x, q.data());
    ggml_mul_mat(hp.n_embd, hp.n_embd_kv(), l.wk.data.data(), x, k);
    ggml_mul_mat(hp.n_embd, hp.n_embd_kv(), l.wv.data.data(), x, v);

    for (int32_t h = 0; h < hp.n_head; h++) {
        ggml_rope(n_embd_head, pos, hp.rope_base, q.data() + h * n_embd_head);
    }
    // keys go into the cache rotated, so that later tokens need not do it again
    for (int32_t h = 0; h < hp.n_head_kv; h++) {
        ggml_rope(n_embd_head, pos, hp.rope_base, k + h * n_embd_head);
    }

    const int32_t n_pos = pos + 1;
    const float   scale = 1.0f / std::sqrt(float(n_embd_head));

    std::vector<float> scores(static_cast<size_t>(n_pos));
    std::vector<float> mixed(size_t(hp.n_embd), 0.0f);

    for (int32_t h = 0; h < hp.n_head; h++) {
        const int32_t offset_kv = h / n_group * n_embd_head;
        const float * q_head    = q.data() + h * n_embd_head;
        float       * dst       = mixed.data() + h * n_embd_head;

        for (int32_t p = 0; p < n_pos; p++) {
            ggml_mul_mat(n_embd_head, 1, kv.k_row(il, p) + offset_kv, q_head, &scores[size_t(p)]);
        }
        ggml_scale(n_pos, scores.data(), scale, scores.data());
        ggml_soft_max(n_pos, scores.data(), scores.data());

        for (int32_t p = 0; p < n_pos; p++) {
            ggml_out_prod(1, n_embd_head, 1.0f, &scores[size_t(p)], kv.v_row(il, p) + offset_kv, dst);
        }
    }

    ggml_mul_mat(hp.n_embd, hp.n_embd, l.wo.data.data(), mixed.data(), out);
}

} // namespace minillm
