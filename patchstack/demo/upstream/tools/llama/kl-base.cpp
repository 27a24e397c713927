#include "kl-base.h"

#include <algorithm>
#include <cmath>

static const std::string MAGIC = "_logits_";

// what is less likely than the likeliest by this factor of e is all the same
static const double RANGE = 16.0;

// two floats, then the values, filled up to an even number
static size_t row_size(int32_t n_vocab) {
    return 2 * ((size_t(n_vocab) + 1) / 2) + 4;
}

template <typename T>
static void write_raw(std::ostream & out, const T * data, size_t n) {
    out.write(reinterpret_cast<const char *>(data), std::streamsize(n * sizeof(T)));
}

template <typename T>
static bool read_raw(std::istream & in, T * data, size_t n) {
    return bool(in.read(reinterpret_cast<char *>(data), std::streamsize(n * sizeof(T))));
}

bool kl_base_writer::open(const std::string & path, const kl_base_head & head) {
    out.open(path, std::ios::binary);
    out << MAGIC;
    write_raw(out, &head.n_ctx, 1);
    write_raw(out, &head.n_vocab, 1);
    write_raw(out, &head.n_chunk, 1);
    write_raw(out, head.tokens.data(), head.tokens.size());
    return bool(out);
}

void kl_base_writer::write_row(const std::vector<double> & log_probs) {
    const auto   range = std::minmax_element(log_probs.begin(), log_probs.end());
    const float  low   = float(std::max(*range.first, *range.second - RANGE));
    const float  step  = float((*range.second - double(low)) / 65535.0);

    std::vector<uint16_t> steps(row_size(int32_t(log_probs.size())) - 4);
    for (size_t i = 0; i < log_probs.size(); i++) {
        const double above = log_probs[i] - double(low);
        steps[i] = step > 0.0f && above > 0.0 ? uint16_t(std::min(std::nearbyint(above / double(step)), 65535.0)) : 0;
    }
    write_raw(out, &step, 1);
    write_raw(out, &low, 1);
    write_raw(out, steps.data(), steps.size());
}

bool kl_base_writer::close() {
    out.close();
    return bool(out);
}

std::string kl_base_reader::open(const std::string & path, kl_base_head & head) {
    in.open(path, std::ios::binary);
    if (!in) {
        return "failed to open " + path;
    }
    std::string magic(MAGIC.size(), '\0');
    if (!read_raw(in, &magic[0], magic.size()) || magic != MAGIC) {
        return path + " does not look like a file containing log-probabilities";
    }
    if (!read_raw(in, &head.n_ctx, 1) || !read_raw(in, &head.n_vocab, 1) || !read_raw(in, &head.n_chunk, 1) ||
        head.n_ctx < 2 || head.n_ctx > 1u << 20 || head.n_vocab < 1 || head.n_chunk < 1 || head.n_chunk > 1 << 20) {
        return "failed reading n_vocab, n_chunk from " + path;
    }
    for (int32_t i = 0; i < head.n_chunk; i++) {
        std::vector<int32_t> chunk(head.n_ctx);
        if (!read_raw(in, chunk.data(), chunk.size())) {
            return "failed reading evaluation tokens from " + path;
        }
        head.tokens.insert(head.tokens.end(), chunk.begin(), chunk.end());
    }
    return "";
}

bool kl_base_reader::read_row(int32_t n_vocab, std::vector<float> & log_probs) {
    float head[2];
    std::vector<uint16_t> steps(row_size(n_vocab) - 4);
    if (!read_raw(in, head, 2) || !read_raw(in, steps.data(), steps.size())) {
        return false;
    }
    log_probs.resize(size_t(n_vocab));
    for (size_t i = 0; i < log_probs.size(); i++) {
        log_probs[i] = head[0] * float(steps[i]) + head[1];
    }
    return true;
}
