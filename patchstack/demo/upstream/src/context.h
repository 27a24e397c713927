#pragma once

#include "backend.h"
#include "kv-cache.h"
#include "model.h"
#include "recurrent.h"
#include "tokenizer.h"

#include <cstdint>
#include <vector>

namespace minillm {

struct context_params {
    // positions that the KV cache can hold; 0 takes the value of the model
    int32_t n_ctx = 0;

    // tokens that one pass over the layers takes; longer prompts are cut
    int32_t n_batch = 64;

    // of the experts; all other operators run on the CPU
    backend moe_backend = backend::cpu;

    // MINILLM_N_CTX, MINILLM_N_BATCH and MINILLM_BACKEND where set;
    // throws std::invalid_argument on a value that makes no sense
    static context_params from_env();
};

// one sequence of tokens and all that the layers remember of it
class context {
public:
    // the model has to outlive the context
    context(const model & mdl, const context_params & params);

    // Appends tokens to the sequence and computes the logits after the last one, or after
    // each. Throws std::length_error where they do not fit, and then changes nothing.
    void decode(const std::vector<token> & tokens, bool all_logits = false);

    // row i of the last decode, n_vocab floats; row 0 is the only one without all_logits
    const float * logits(int32_t i = 0) const { return logits_.data() + int64_t(i) * mdl.hp.n_vocab; }

    int32_t n_past() const { return n_past_; }
    const kv_cache & cache() const { return kv; }

    // remembers the recurrent state of this position, instead of an earlier one
    void checkpoint();

    // Cuts the sequence back to n_past tokens. A recurrent state has no positions, so this
    // works for 0 and for the position of the checkpoint; false for others.
    bool truncate(int32_t n_past);

private:
    void decode_batch(const token * tokens, int32_t n_tokens, int32_t n_logits);

    const model & mdl;
    context_params params;
    kv_cache kv;

    std::vector<recurrent_state> states; // one a layer, empty for attention
    std::vector<recurrent_state> saved_states;

    int32_t n_past_ = 0;
    int32_t n_saved = 0; // 0: no checkpoint

    std::vector<float> logits_;
};

} // namespace minillm
