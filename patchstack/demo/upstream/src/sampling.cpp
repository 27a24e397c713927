#include "sampling.h"

#include "ggml.h"

#include <algorithm>
#include <vector>

namespace minillm {

token sampler::sample(const float * logits, int32_t n_vocab) {
    if (params.temp <= 0.0f) {
        return ggml_argmax(n_vocab, logits);
    }

    const int32_t k = params.top_k > 0 ? std::min(params.top_k, n_vocab) : n_vocab;

    std::vector<int32_t> ids(static_cast<size_t>(k));
    std::vector<float>   probs(static_cast<size_t>(k));

    ggml_top_k(n_vocab, k, logits, ids.data());
    for (size_t i = 0; i < ids.size(); i++) {
        probs[i] = logits[ids[i]];
    }
    ggml_scale(k, probs.data(), 1.0f / params.temp, probs.data());
    ggml_soft_max(k, probs.data(), probs.data());

    double left = gen.next_double();
    for (size_t i = 0; i < ids.size(); i++) {
        left -= double(probs[i]);
        if (left < 0.0) {
            return ids[i];
        }
    }
    // rounding can leave a rest: it belongs to the last one
    return ids.back();
}

} // namespace minillm
