"""Define the upstream commits that were made after the fork began.

The first does not change lines near the fork's changes. The second moves such lines. The third conflicts with the fork.
"""

from __future__ import annotations

from .edits import Commit, Replace

_GELU = Commit(
    subject="ggml : add the gelu operator",
    body="""\
The tanh approximation that most models with GELU were trained with.
No layer uses it yet.""",
    edits=(
        Replace(
            path="ggml/include/ggml.h",
            old="    GGML_OP_SIGMOID,\n",
            new="    GGML_OP_SIGMOID,\n    GGML_OP_GELU,\n",
        ),
        Replace(
            path="ggml/include/ggml.h",
            old="void ggml_sigmoid(int32_t n, const float * a, float * dst);\n",
            new="""\
void ggml_sigmoid(int32_t n, const float * a, float * dst);
void ggml_gelu   (int32_t n, const float * a, float * dst);
""",
        ),
        Replace(
            path="ggml/src/ggml.cpp",
            old='    "SIGMOID",\n',
            new='    "SIGMOID",\n    "GELU",\n',
        ),
        Replace(
            path="ggml/src/ggml-act.cpp",
            old="void ggml_soft_max(",
            new="""\
void ggml_gelu(int32_t n, const float * a, float * dst) {
    const float sqrt_2_over_pi = 0.7978845608f;

    for (int32_t i = 0; i < n; i++) {
        const float x = a[i];
        dst[i] = 0.5f * x * (1.0f + std::tanh(sqrt_2_over_pi * (x + 0.044715f * x * x * x)));
    }
}

void ggml_soft_max(""",
        ),
        Replace(
            path="tests/test-ops.cpp",
            old="""\
    const auto sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
""",
            new="""\
    const auto sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
    const auto gelu    = [](double x) {
        return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    };
""",
        ),
        Replace(
            path="tests/test-ops.cpp",
            old="""\
        add(GGML_OP_SOFT_MAX, ns,                [=] { return test_soft_max(n, 0.0f); });
""",
            new="""\
        add(GGML_OP_GELU,     ns,                [=] { return test_map(n, ggml_gelu, gelu); });
        add(GGML_OP_SOFT_MAX, ns,                [=] { return test_soft_max(n, 0.0f); });
""",
        ),
    ),
)

_CHECK = Commit(
    subject="context : say which token is not in the vocabulary",
    body="""\
The message named neither the token nor its place, which is of no help in a
prompt of some hundred tokens. The check gets a function of its own.""",
    edits=(
        Replace(
            path="src/context.cpp",
            old="""\
#include <stdexcept>

namespace minillm {

""",
            new="""\
#include <stdexcept>
#include <string>

namespace minillm {

// before the first change: a decode that fails leaves the sequence as it was
static void check_tokens(const std::vector<token> & tokens, int32_t n_vocab) {
    for (size_t i = 0; i < tokens.size(); i++) {
        if (tokens[i] < 0 || tokens[i] >= n_vocab) {
            throw std::invalid_argument("token " + std::to_string(tokens[i]) + " at place " +
                                        std::to_string(i) + " is not in the vocabulary");
        }
    }
}

""",
        ),
        Replace(
            path="src/context.cpp",
            old="""\
    for (const token tok : tokens) {
        if (tok < 0 || tok >= mdl.hp.n_vocab) {
            throw std::invalid_argument("a token is not in the vocabulary");
        }
    }

    kv.extend""",
            new="""\
    check_tokens(tokens, mdl.hp.n_vocab);

    kv.extend""",
        ),
    ),
)

_EXPERT = Commit(
    subject="moe : run an expert in a function of its own",
    body="""\
moe_forward routes and sums, expert_forward knows where the rows of an expert
are. No functional change.""",
    edits=(
        Replace(
            path="src/moe.cpp",
            old="""\
void moe_forward(""",
            new="""\
static void expert_forward(const hparams & hp, const layer & l, int32_t expert, const float * x,
                           float * out) {
    // the rows of all experts are in one tensor, one expert after the other
    const float * w_gate = l.ffn_gate.row(expert * hp.n_ff_exp);
    const float * w_up   = l.ffn_up.row(expert * hp.n_ff_exp);
    const float * w_down = l.ffn_down.row(expert * hp.n_embd);

    swiglu_forward(hp.n_embd, hp.n_ff_exp, w_gate, w_up, w_down, x, out);
}

void moe_forward(""",
        ),
        Replace(
            path="src/moe.cpp",
            old="""\
        const int32_t first_ff   = chosen[i] * hp.n_ff_exp;
        const int32_t first_embd = chosen[i] * hp.n_embd;

        swiglu_forward(hp.n_embd, hp.n_ff_exp, l.ffn_gate.row(first_ff), l.ffn_up.row(first_ff),
                       l.ffn_down.row(first_embd), x, expert_out.data());
""",
            new="""\
        expert_forward(hp, l, chosen[i], x, expert_out.data());
""",
        ),
    ),
)

UPSTREAM_NEXT: tuple[Commit, ...] = (_GELU, _CHECK, _EXPERT)
