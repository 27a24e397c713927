#include "kv-paged.h"

#include <stdexcept>

namespace minillm {

// the pool grows by this many blocks at a time
static const int32_t N_GROW = 4;

kv_paged::kv_paged(int32_t n_slots, int32_t n_embd_kv, int32_t n_block)
    : n_slots(n_slots), n_embd_kv(n_embd_kv), n_block(n_block) {
    if (n_block < 1) {
        throw std::invalid_argument("a KV block needs at least one position");
    }
}

int32_t kv_paged::take() {
    if (unused.empty()) {
        const int32_t n_pool = n_blocks_pool();
        for (int32_t i = 0; i < N_GROW; i++) {
            pool.emplace_back(size_t(n_slots) * size_t(n_block) * size_t(n_embd_kv), 0.0f);
            // the lowest number ends up on top, so that blocks are taken in order
            unused.push_back(n_pool + N_GROW - 1 - i);
        }
    }

    const int32_t id = unused.back();
    unused.pop_back();
    return id;
}

void kv_paged::extend(int32_t n_pos) {
    const size_t n_blocks = size_t((n_pos + n_block - 1) / n_block);
    while (table.size() < n_blocks) {
        table.push_back(take());
    }
}

float * kv_paged::row(int32_t slot, int32_t pos) {
    std::vector<float> & block = pool[size_t(table[size_t(pos / n_block)])];

    return block.data() + (size_t(slot) * size_t(n_block) + size_t(pos % n_block)) * size_t(n_embd_kv);
}

void kv_paged::truncate(int32_t n_pos) {
    // a block that still has a position in use stays
    const size_t n_blocks = size_t((n_pos + n_block - 1) / n_block);
    if (n_blocks < table.size()) {
        table.resize(n_blocks);
    }
}

void kv_paged::clear() {
    table.clear();
}

} // namespace minillm
