#include "recurrent.h"

#include "ggml.h"

namespace minillm {

recurrent_state recurrent_state_init(const hparams & hp) {
    return recurrent_state(size_t(hp.n_head) * size_t(hp.n_embd_head()) * size_t(hp.n_embd_head()), 0.0f);
}

void recurrent_forward(const model & mdl, int32_t il, recurrent_state & state, const float * x, float * out) {
    const hparams & hp = mdl.hp;
    const layer   & l  = mdl.layers[size_t(il)];

    const int32_t n = hp.n_embd_head();

    std::vector<float> q(size_t(hp.n_embd));
    std::vector<float> k(size_t(hp.n_embd));
    std::vector<float> v(size_t(hp.n_embd));
    std::vector<float> gate(size_t(hp.n_embd));
    std::vector<float> alpha(size_t(hp.n_head));
    std::vector<float> beta(size_t(hp.n_head));

    ggml_mul_mat(hp.n_embd, hp.n_embd, l.wq.data.data(),      x, q.data());
    ggml_mul_mat(hp.n_embd, hp.n_embd, l.wk.data.data(),      x, k.data());
    ggml_mul_mat(hp.n_embd, hp.n_embd, l.wv.data.data(),      x, v.data());
    ggml_mul_mat(hp.n_embd, hp.n_embd, l.w_gate.data.data(),  x, gate.data());
    ggml_mul_mat(hp.n_embd, hp.n_head, l.w_alpha.data.data(), x, alpha.data());
    ggml_mul_mat(hp.n_embd, hp.n_head, l.w_beta.data.data(),  x, beta.data());

    ggml_silu(hp.n_embd, gate.data(), gate.data());
    ggml_sigmoid(hp.n_head, alpha.data(), alpha.data());
    ggml_sigmoid(hp.n_head, beta.data(),  beta.data());

    std::vector<float> mixed(size_t(hp.n_embd));
    std::vector<float> delta(static_cast<size_t>(n));

    for (int32_t h = 0; h < hp.n_head; h++) {
        float * q_head = q.data() + h * n;
        float * k_head = k.data() + h * n;
        float * v_head = v.data() + h * n;
        float * dst    = mixed.data() + h * n;

        // row r of the state gives element r of the value
        float * s = state.data() + h * n * n;

        // a key of length 1 makes the update below replace what it finds and no more
        ggml_l2_norm(n, q_head, hp.norm_eps, q_head);
        ggml_l2_norm(n, k_head, hp.norm_eps, k_head);

        // fade the state, then move what it says for this key towards the value
        ggml_scale(n * n, s, alpha[size_t(h)], s);
        ggml_mul_mat(n, n, s, k_head, delta.data());
        ggml_scale(n, delta.data(), -1.0f, delta.data());
        ggml_add(n, v_head, delta.data(), delta.data());
        ggml_out_prod(n, n, beta[size_t(h)], delta.data(), k_head, s);

        ggml_mul_mat(n, n, s, q_head, dst);
        ggml_rms_norm(n, dst, nullptr, hp.norm_eps, dst);
    }

    ggml_mul(hp.n_embd, mixed.data(), gate.data(), mixed.data());
    ggml_mul_mat(hp.n_embd, hp.n_embd, l.wo.data.data(), mixed.data(), out);
}

} // namespace minillm
