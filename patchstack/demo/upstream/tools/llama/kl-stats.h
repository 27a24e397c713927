#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// How far a model is from a base, token by token: KLD = sum of p_base * (log p_base - log p).
class kl_stats {
public:
    // a token that came next, with what the base and the model thought of all tokens before
    void add(const std::vector<float> & base, const std::vector<double> & log_probs, int32_t next);

    size_t count() const { return kld.size(); }

    // the line of the table that stands for all tokens so far
    void print_line(int32_t chunk) const;

    void print_perplexity() const;
    void print_divergence() const;
    void print_probabilities() const;

private:
    std::vector<double> nll;
    std::vector<double> nll_base;
    std::vector<double> kld;
    std::vector<double> p_diff;

    int32_t n_same_top = 0;
};
