#pragma once

#include <cstdint>

namespace minillm {

// the shape of a model; a model file has these fields in this order
struct hparams {
    int32_t n_vocab       = 257; // 256 bytes and bos
    int32_t n_ctx         = 512;
    int32_t n_embd        = 64;
    int32_t n_layer       = 3;
    int32_t n_head        = 4;   // query heads, and heads of the recurrent layers
    int32_t n_head_kv     = 2;   // each serves n_head / n_head_kv query heads
    int32_t n_ff          = 128;
    int32_t n_ff_exp      = 64;  // hidden size of one expert
    int32_t n_expert      = 8;
    int32_t n_expert_used = 2;

    float rope_base = 10000.0f;
    float norm_eps  = 1e-5f;

    int32_t n_embd_head() const { return n_embd / n_head; }
    int32_t n_embd_kv()   const { return n_embd_head() * n_head_kv; }

    // layers come in threes: attention, recurrent, attention with experts
    bool is_recurrent(int32_t il) const { return il % 3 == 1; }
    bool is_moe      (int32_t il) const { return il % 3 == 2; }

    // false for a shape that the code cannot run, of a damaged file for one
    bool valid() const {
        return n_vocab == 257 && n_ctx > 0 && n_embd > 0 && n_layer > 0 && n_head > 0 && n_head_kv > 0 &&
               n_ff > 0 && n_ff_exp > 0 && n_expert > 0 && n_expert_used > 0 && n_expert_used <= n_expert &&
               n_embd % n_head == 0 && n_embd_head() % 2 == 0 && n_head % n_head_kv == 0 &&
               n_ctx <= 1 << 20 && n_embd <= 1 << 12 && n_layer <= 1 << 8 && n_ff <= 1 << 14 &&
               n_ff_exp <= 1 << 14 && n_expert <= 1 << 8;
    }
};

} // namespace minillm
