#pragma once

#include <cstdint>

namespace minillm {

// splitmix64: integers only, so that a seed means the same bytes on every machine
class rng {
public:
    explicit rng(uint64_t seed) : state(seed) {}

    uint64_t next() {
        uint64_t z = (state += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }

    // [-1, 1) in steps of 2^-23, which a float holds exactly
    float next_float() {
        return float(int32_t(next() >> 40) - (1 << 23)) / float(1 << 23);
    }

    // [0, 1)
    double next_double() {
        return double(next() >> 11) / double(1ull << 53);
    }

private:
    uint64_t state;
};

} // namespace minillm
