#pragma once

#include "hparams.h"

#include <cstdint>
#include <string>
#include <vector>

namespace minillm {

// n_rows rows of n_cols floats each
struct tensor {
    std::string name;

    int32_t n_cols = 0;
    int32_t n_rows = 0;

    std::vector<float> data;

    const float * row(int32_t r) const { return data.data() + int64_t(r) * n_cols; }
};

struct layer {
    tensor mixer_norm;
    tensor wq;
    tensor wk;
    tensor wv;
    tensor wo;

    // recurrent layers only
    tensor w_alpha; // how much of the state stays
    tensor w_beta;  // how much of the new value goes in
    tensor w_gate;

    tensor ffn_norm;
    tensor ffn_router; // MoE layers only

    // in MoE layers the rows of all experts, one expert after the other
    tensor ffn_gate;
    tensor ffn_up;
    tensor ffn_down;
};

struct model {
    hparams hp;

    tensor tok_embd;
    std::vector<layer> layers;
    tensor output_norm;
    tensor output;
    tensor output_bias;

    // all tensors at their sizes and zero; throws std::invalid_argument on a bad shape
    explicit model(const hparams & hp);

    // every tensor that the shape calls for, in the order of the file
    std::vector<tensor *> tensors();
    std::vector<const tensor *> tensors() const;

    // the same weights for the same seed on every machine
    void randomize(uint64_t seed);

    // both throw std::runtime_error where the file cannot be used
    void save(const std::string & path) const;
    static model load(const std::string & path);
};

} // namespace minillm
