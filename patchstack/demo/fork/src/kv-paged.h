#pragma once

#include <cstdint>
#include <vector>

namespace minillm {

// positions in a block where MINILLM_KV_BLOCK does not say otherwise
constexpr int32_t KV_PAGED_BLOCK = 16;

// KV rows in blocks of a few positions, taken from a pool as the sequence grows, so that
// a short sequence does not pay for the longest one
class kv_paged {
public:
    // n_slots rows of n_embd_kv floats a position, n_block positions a block
    kv_paged(int32_t n_slots, int32_t n_embd_kv, int32_t n_block);

    // takes blocks until the positions up to n_pos have room
    void extend(int32_t n_pos);

    // the blocks stay where they are when the pool grows
    float * row(int32_t slot, int32_t pos);

    // forgets the positions from n_pos on
    void truncate(int32_t n_pos);
    void clear();

    int32_t block_size()    const { return n_block; }
    int32_t n_blocks_pool() const { return int32_t(pool.size()); }
    int32_t n_blocks_used() const { return n_blocks_pool() - int32_t(unused.size()); }

private:
    int32_t take();

    int32_t n_slots;
    int32_t n_embd_kv;
    int32_t n_block;

    std::vector<std::vector<float>> pool;

    std::vector<int32_t> unused; // blocks of the pool that nobody has
    std::vector<int32_t> table;  // block of the positions i * n_block and on
};

} // namespace minillm
