// Each operator against a naive reference in double precision.
//
//   test-ops [-o OP] [-l]
//
// exit code 0: all passed, 1: some failed, 2: no test has that name

#include "ggml.h"
#include "rng.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

using vec = std::vector<float>;

struct test_case {
    ggml_op op;
    std::string params;
    std::function<double()> max_error; // relative to values around 1
};

static vec random_vec(int32_t n, uint64_t seed) {
    minillm::rng gen(seed);
    vec v(static_cast<size_t>(n));
    for (float & x : v) {
        x = gen.next_float() * 2.0f;
    }
    return v;
}

static double max_diff(const vec & got, const std::vector<double> & want) {
    double max = 0.0;
    for (size_t i = 0; i < got.size(); i++) {
        const double diff = std::fabs(double(got[i]) - want[i]) / std::max(1.0, std::fabs(want[i]));
        // a NaN compares false with everything, so ask for what is good
        max = diff <= max ? max : diff;
    }
    return max;
}

static double test_map(int32_t n, void (*op)(int32_t, const float *, float *), double (*ref)(double)) {
    vec a = random_vec(n, 1);
    std::vector<double> want(a.begin(), a.end());
    std::transform(want.begin(), want.end(), want.begin(), ref);
    op(n, a.data(), a.data());
    return max_diff(a, want);
}

static double test_binary(int32_t n, void (*op)(int32_t, const float *, const float *, float *),
                          double (*ref)(double, double)) {
    const vec a = random_vec(n, 2);
    const vec b = random_vec(n, 3);
    vec got(a.size());
    std::vector<double> want;
    for (size_t i = 0; i < a.size(); i++) {
        want.push_back(ref(a[i], b[i]));
    }
    op(n, a.data(), b.data(), got.data());
    return max_diff(got, want);
}

static double test_scale(int32_t n, float s) {
    vec a = random_vec(n, 4);
    std::vector<double> want;
    for (const float x : a) {
        want.push_back(double(x) * double(s));
    }
    ggml_scale(n, a.data(), s, a.data());
    return max_diff(a, want);
}

static double test_soft_max(int32_t n, float shift) {
    vec a = random_vec(n, 5);
    double sum = 0.0;
    for (const float x : a) {
        sum += std::exp(double(x));
    }
    std::vector<double> want;
    for (float & x : a) {
        want.push_back(std::exp(double(x)) / sum);
        x += shift; // no change to the result, if it does not overflow
    }
    ggml_soft_max(n, a.data(), a.data());
    return max_diff(a, want);
}

static double test_mul_mat(int32_t n_rows, int32_t n_cols) {
    const vec w = random_vec(n_rows * n_cols, 6);
    const vec x = random_vec(n_cols, 7);
    vec got(static_cast<size_t>(n_rows));
    std::vector<double> want(got.size(), 0.0);
    for (size_t i = 0; i < w.size(); i++) {
        want[i / x.size()] += double(w[i]) * double(x[i % x.size()]);
    }
    ggml_mul_mat(n_cols, n_rows, w.data(), x.data(), got.data());
    return max_diff(got, want);
}

static double test_out_prod(int32_t n_rows, int32_t n_cols, float s) {
    const vec a = random_vec(n_rows, 8);
    const vec b = random_vec(n_cols, 9);
    vec m = random_vec(n_rows * n_cols, 10);
    std::vector<double> want(m.begin(), m.end());
    for (size_t i = 0; i < m.size(); i++) {
        want[i] += double(s) * double(a[i / b.size()]) * double(b[i % b.size()]);
    }
    ggml_out_prod(n_rows, n_cols, s, a.data(), b.data(), m.data());
    return max_diff(m, want);
}

static double test_norm(int32_t n, bool is_rms, bool has_weight, float eps) {
    const vec a = random_vec(n, 11);
    const vec w = random_vec(n, 12);
    const double ss = std::inner_product(a.begin(), a.end(), a.begin(), 0.0);
    const double by = is_rms ? std::sqrt(ss / n + double(eps)) : std::max(std::sqrt(ss), double(eps));

    vec got(a.size());
    std::vector<double> want;
    for (size_t i = 0; i < a.size(); i++) {
        want.push_back(double(a[i]) / by * (has_weight ? double(w[i]) : 1.0));
    }
    if (is_rms) {
        ggml_rms_norm(n, a.data(), has_weight ? w.data() : nullptr, eps, got.data());
    } else {
        ggml_l2_norm(n, a.data(), eps, got.data());
    }
    return max_diff(got, want);
}

static double test_rope(int32_t n, int32_t pos) {
    vec x = random_vec(n, 13);
    std::vector<double> want(x.begin(), x.end());
    const size_t half = x.size() / 2;
    for (size_t i = 0; i < half; i++) {
        const double theta = pos / std::pow(10000.0, 2.0 * double(i) / n);
        want[i]        = double(x[i]) * std::cos(theta) - double(x[i + half]) * std::sin(theta);
        want[i + half] = double(x[i]) * std::sin(theta) + double(x[i + half]) * std::cos(theta);
    }
    ggml_rope(n, pos, 10000.0f, x.data());
    return max_diff(x, want);
}

// has_ties rounds the values to a few, so that the order among equals counts
static double test_select(int32_t n, int32_t k, bool has_ties) {
    vec a = random_vec(n, 14);
    for (float & x : a) {
        x = has_ties ? std::floor(x) : x;
    }
    std::vector<int32_t> want(a.size());
    std::iota(want.begin(), want.end(), 0);
    std::stable_sort(want.begin(), want.end(), [&](int32_t i, int32_t j) { return a[size_t(i)] > a[size_t(j)]; });
    want.resize(static_cast<size_t>(k));

    std::vector<int32_t> got(static_cast<size_t>(k), -1);
    ggml_top_k(n, k, a.data(), got.data());
    return got == want && (k > 1 || ggml_argmax(n, a.data()) == want[0]) ? 0.0 : 1.0;
}

static std::vector<test_case> make_test_cases() {
    std::vector<test_case> cases;
    const auto add = [&](ggml_op op, const std::string & params, const std::function<double()> & f) {
        cases.push_back({ op, params, f });
    };
    const auto silu    = [](double x) { return x / (1.0 + std::exp(-x)); };
    const auto sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };

    for (const int32_t n : { 1, 7, 64 }) {
        const std::string ns = "n=" + std::to_string(n);

        add(GGML_OP_ADD, ns, [=] { return test_binary(n, ggml_add, [](double x, double y) { return x + y; }); });
        add(GGML_OP_MUL, ns, [=] { return test_binary(n, ggml_mul, [](double x, double y) { return x * y; }); });
        add(GGML_OP_SCALE,    ns + ",s=-0.5",    [=] { return test_scale(n, -0.5f); });
        add(GGML_OP_SILU,     ns,                [=] { return test_map(n, ggml_silu, silu); });
        add(GGML_OP_SIGMOID,  ns,                [=] { return test_map(n, ggml_sigmoid, sigmoid); });
        add(GGML_OP_SOFT_MAX, ns,                [=] { return test_soft_max(n, 0.0f); });
        add(GGML_OP_SOFT_MAX, ns + ",shift=512", [=] { return test_soft_max(n, 512.0f); });
        add(GGML_OP_MUL_MAT,  "rows=5,cols=" + std::to_string(n), [=] { return test_mul_mat(5, n); });
        add(GGML_OP_MUL_MAT,  "rows=64,cols=" + std::to_string(n), [=] { return test_mul_mat(64, n); });
        add(GGML_OP_OUT_PROD, "rows=3,cols=" + std::to_string(n), [=] { return test_out_prod(3, n, 0.25f); });
        add(GGML_OP_RMS_NORM, ns + ",weight=0",  [=] { return test_norm(n, true, false, 1e-5f); });
        add(GGML_OP_RMS_NORM, ns + ",weight=1",  [=] { return test_norm(n, true, true, 1e-5f); });
        add(GGML_OP_L2_NORM,  ns + ",eps=1e-5",  [=] { return test_norm(n, false, false, 1e-5f); });
        add(GGML_OP_L2_NORM,  ns + ",eps=100",   [=] { return test_norm(n, false, false, 100.0f); });
        add(GGML_OP_ARGMAX,   ns,                [=] { return test_select(n, 1, false); });
        add(GGML_OP_ARGMAX,   ns + ",ties=1",    [=] { return test_select(n, 1, true); });
    }
    for (const int32_t pos : { 0, 1, 511, 100000 }) {
        add(GGML_OP_ROPE, "n=16,pos=" + std::to_string(pos), [=] { return test_rope(16, pos); });
    }
    for (const int32_t k : { 2, 8 }) {
        const std::string ks = "n=8,k=" + std::to_string(k);
        add(GGML_OP_TOP_K, ks,             [=] { return test_select(8, k, false); });
        add(GGML_OP_TOP_K, ks + ",ties=1", [=] { return test_select(8, k, true); });
    }
    return cases;
}

int main(int argc, char ** argv) {
    std::string only;
    for (int i = 1; i < argc; i++) {
        const std::string arg = argv[i];
        if (arg == "-l") {
            for (int32_t op = 0; op < GGML_OP_COUNT; op++) {
                std::printf("%s\n", ggml_op_name(ggml_op(op)));
            }
            return 0;
        }
        if (arg != "-o" || i + 1 == argc) {
            std::fprintf(stderr, "usage: test-ops [-o OP] [-l]\n");
            return 2;
        }
        only = argv[++i];
    }

    int n_all  = 0;
    int n_good = 0;
    std::vector<int> n_of_op(GGML_OP_COUNT, 0);
    for (const test_case & test : make_test_cases()) {
        n_of_op[test.op]++;
        if (!only.empty() && only != ggml_op_name(test.op)) {
            continue;
        }
        const double error = test.max_error();
        const bool   good  = error <= 1e-5;

        std::printf("%s(%s): %s\n", ggml_op_name(test.op), test.params.c_str(), good ? "OK" : "FAIL");
        if (!good) {
            std::printf("  error %g\n", error);
        }
        n_all  += 1;
        n_good += good ? 1 : 0;
    }
    if (n_all == 0) {
        std::fprintf(stderr, "test-ops: no test for %s\n", only.c_str());
        return 2;
    }

    // an operator that nobody tests is a failure too
    for (int32_t op = 0; op < GGML_OP_COUNT && only.empty(); op++) {
        if (n_of_op[size_t(op)] == 0) {
            std::printf("%s(): FAIL, no test\n", ggml_op_name(ggml_op(op)));
            n_all++;
        }
    }
    std::printf("%d/%d tests passed\n", n_good, n_all);
    return n_good == n_all ? 0 : 1;
}
