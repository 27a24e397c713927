#pragma once

#include "rng.h"
#include "tokenizer.h"

namespace minillm {

struct sampler_params {
    float    temp  = 0.0f; // 0 takes the most likely token
    int32_t  top_k = 40;   // 0 takes from all tokens
    uint64_t seed  = 0;
};

class sampler {
public:
    explicit sampler(const sampler_params & params) : params(params), gen(params.seed) {}

    token sample(const float * logits, int32_t n_vocab);

private:
    sampler_params params;
    rng gen;
};

} // namespace minillm
