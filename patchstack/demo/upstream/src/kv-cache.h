#pragma once

#include "hparams.h"

#include <cstdint>
#include <vector>

namespace minillm {

// keys and values of the attention layers, one row a position
class kv_cache {
public:
    kv_cache(const hparams & hp, int32_t n_ctx);

    int32_t size() const { return n_ctx; }

    // makes room for the positions up to n_pos; to be called before they are written
    void extend(int32_t n_pos);

    // valid until the next call of extend
    float * k_row(int32_t il, int32_t pos);
    float * v_row(int32_t il, int32_t pos);

    // forgets the positions from n_pos on
    void truncate(int32_t n_pos);
    void clear();

private:
    float * row(int32_t il, int32_t pos, bool is_v);

    int32_t n_ctx;
    int32_t n_embd_kv;

    // layer number to its place among the attention layers, -1 for the others
    std::vector<int32_t> slot_of_layer;

    std::vector<float> data;
};

} // namespace minillm
