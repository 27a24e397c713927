#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

// A file of log-probabilities as llama-perplexity writes it: "_logits_", n_ctx, n_vocab, n_chunk,
// the tokens of all chunks, then for each token of a second half of a chunk but the last one a
// row. A row has its step and its lowest value as floats, and each value as the 16-bit number of
// steps above the lowest. Numbers are as they are in memory.

struct kl_base_head {
    uint32_t n_ctx   = 0;
    int32_t  n_vocab = 0;
    int32_t  n_chunk = 0;

    std::vector<int32_t> tokens;
};

class kl_base_writer {
public:
    // false where the file cannot be written
    bool open(const std::string & path, const kl_base_head & head);
    void write_row(const std::vector<double> & log_probs);
    bool close();

private:
    std::ofstream out;
};

class kl_base_reader {
public:
    // Empty where all is well, else why the file cannot be used.
    std::string open(const std::string & path, kl_base_head & head);

    // false where the file has no more
    bool read_row(int32_t n_vocab, std::vector<float> & log_probs);

private:
    std::ifstream in;
};
