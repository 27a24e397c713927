#include "kv-cache.h"

#include <stdexcept>

namespace minillm {

kv_cache::kv_cache(const hparams & hp, int32_t n_ctx) : n_ctx(n_ctx), n_embd_kv(hp.n_embd_kv()) {
    int32_t n_slots = 0;
    for (int32_t il = 0; il < hp.n_layer; il++) {
        slot_of_layer.push_back(hp.is_recurrent(il) ? -1 : n_slots++);
    }

    data.assign(size_t(n_slots) * 2 * size_t(n_ctx) * size_t(n_embd_kv), 0.0f);
}

void kv_cache::extend(int32_t n_pos) {
    if (n_pos > n_ctx) {
        throw std::length_error("the KV cache is full");
    }
}

float * kv_cache::row(int32_t il, int32_t pos, bool is_v) {
    const size_t slot = size_t(slot_of_layer[size_t(il)]) * 2 + (is_v ? 1 : 0);

    return data.data() + (slot * size_t(n_ctx) + size_t(pos)) * size_t(n_embd_kv);
}

float * kv_cache::k_row(int32_t il, int32_t pos) {
    return row(il, pos, false);
}

float * kv_cache::v_row(int32_t il, int32_t pos) {
    return row(il, pos, true);
}

void kv_cache::truncate(int32_t) {
    // rows are written before they are read, so the old ones may stay
}

void kv_cache::clear() {
    truncate(0);
}

} // namespace minillm
