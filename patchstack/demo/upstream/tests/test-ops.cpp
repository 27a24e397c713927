// On the CPU, each operator against a naive reference in double precision; on the GPU, each
// kernel against its CPU twin, bit for bit.
//
//   test-ops [-b BACKEND] [-o OP] [-l] [--version]
//
// exit code 0: all passed, 1: some failed, 2: wrong usage, or no test ran

#include "build-info.h"
#include "ggml-cuda.h"
#include "ggml.h"
#include "rng.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
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

struct test_backend {
    std::string name;
    std::string about;
    bool        can_run;
    double      tolerance;

    std::vector<test_case> cases;
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

// n_ids of 8 experts, the last one first; one_x: all of them take the same row
struct mul_mat_id_case {
    int32_t n_rows;
    int32_t n_cols;
    int32_t x_step;
    vec     w;
    vec     x;

    std::vector<int32_t> ids;

    mul_mat_id_case(int32_t n_rows, int32_t n_cols, int32_t n_ids, bool one_x)
        : n_rows(n_rows), n_cols(n_cols), x_step(one_x ? 0 : n_cols), w(random_vec(8 * n_rows * n_cols, 15)),
          x(random_vec(one_x ? n_cols : n_ids * n_cols, 16)) {
        for (int32_t i = 0; i < n_ids; i++) {
            ids.push_back(7 - i * 3 % 8);
        }
    }

    vec on_cpu() const {
        vec dst(ids.size() * size_t(n_rows));
        ggml_mul_mat_id(n_cols, n_rows, int32_t(ids.size()), w.data(), ids.data(), x.data(), x_step, dst.data());
        return dst;
    }

    vec on_gpu() const {
        vec dst(ids.size() * size_t(n_rows));
        ggml_cuda_mul_mat_id(n_cols, n_rows, 8, int32_t(ids.size()), w.data(), ids.data(), x.data(), x_step,
                             dst.data());
        return dst;
    }

    std::vector<double> naive() const {
        std::vector<double> dst;
        for (size_t i = 0; i < ids.size(); i++) {
            for (int32_t r = 0; r < n_rows; r++) {
                const float * row = w.data() + (ids[i] * n_rows + r) * n_cols;
                dst.push_back(std::inner_product(row, row + n_cols, x.data() + i * size_t(x_step), 0.0,
                                                 std::plus<double>(), [](double a, double b) { return a * b; }));
            }
        }
        return dst;
    }
};

static double test_mul_mat_id(int32_t n_rows, int32_t n_cols, int32_t n_ids, bool one_x) {
    const mul_mat_id_case c(n_rows, n_cols, n_ids, one_x);
    return max_diff(c.on_cpu(), c.naive());
}

static double test_mul_mat_id_cuda(int32_t n_rows, int32_t n_cols, int32_t n_ids, bool one_x) {
    const mul_mat_id_case c(n_rows, n_cols, n_ids, one_x);
    const vec want = c.on_cpu();
    return max_diff(c.on_gpu(), { want.begin(), want.end() });
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

// MUL_MAT_ID with every shape, n_ids times n_rows rows of n_cols
static void add_mul_mat_id(std::vector<test_case> & cases, double (*f)(int32_t, int32_t, int32_t, bool)) {
    for (const int32_t n_cols : { 1, 33, 64, 200 }) {
        for (const int32_t n_rows : { 5, 64 }) {
            for (const int32_t n_ids : { 1, 2, 8 }) {
                for (const bool one_x : { true, false }) {
                    const std::string params = "rows=" + std::to_string(n_rows) + ",cols=" + std::to_string(n_cols) +
                                               ",ids=" + std::to_string(n_ids) + ",one_x=" + (one_x ? "1" : "0");
                    cases.push_back({ GGML_OP_MUL_MAT_ID, params, [=] { return f(n_rows, n_cols, n_ids, one_x); } });
                }
            }
        }
    }
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
    add_mul_mat_id(cases, test_mul_mat_id);
    return cases;
}

static std::vector<test_backend> make_backends() {
    const char * device = ggml_cuda_device();
    const char * about  = device != nullptr ? device : ggml_cuda_is_built() ? "no CUDA device" : "built without CUDA";

    test_backend cpu  = { "CPU",   "one thread", true,              1e-5, make_test_cases() };
    test_backend cuda = { "CUDA0", about,        device != nullptr, 0.0,  {} };
    add_mul_mat_id(cuda.cases, test_mul_mat_id_cuda);
    return { cpu, cuda };
}

// true where all cases of the operator passed, or of all operators where it has no name
static bool run(const test_backend & backend, const std::string & only, int & n_all) {
    int n_good = 0;
    n_all = 0;
    for (const test_case & test : backend.cases) {
        if (!only.empty() && only != ggml_op_name(test.op)) {
            continue;
        }
        char text[32];
        std::string what;
        try {
            const double error = test.max_error();
            if (!(error <= backend.tolerance)) {
                std::snprintf(text, sizeof(text), "error %g", error);
                what = text;
            }
        } catch (const std::exception & e) {
            what = e.what();
        }
        const bool good = what.empty();

        std::printf("  %s(%s): %s\n", ggml_op_name(test.op), test.params.c_str(), good ? "OK" : "FAIL");
        if (!good) {
            std::printf("    %s\n", what.c_str());
        }
        n_all  += 1;
        n_good += good ? 1 : 0;
    }

    // an operator that nobody tests is a failure too
    for (int32_t op = 0; op < GGML_OP_COUNT && only.empty() && backend.name == "CPU"; op++) {
        const auto is_of_op = [op](const test_case & test) { return test.op == op; };
        if (std::none_of(backend.cases.begin(), backend.cases.end(), is_of_op)) {
            std::printf("  %s(): FAIL, no test\n", ggml_op_name(ggml_op(op)));
            n_all++;
        }
    }
    std::printf("  %d/%d tests passed\n", n_good, n_all);
    return n_good == n_all;
}

int main(int argc, char ** argv) {
    std::string only_op;
    std::string only_backend;
    for (int i = 1; i < argc; i++) {
        const std::string arg = argv[i];
        if (arg == "-l") {
            for (int32_t op = 0; op < GGML_OP_COUNT; op++) {
                std::printf("%s\n", ggml_op_name(ggml_op(op)));
            }
            return 0;
        }
        if (arg == "--version") {
            minillm::print_version();
            return 0;
        }
        if ((arg != "-o" && arg != "-b") || i + 1 == argc) {
            std::fprintf(stderr, "usage: test-ops [-b BACKEND] [-o OP] [-l] [--version]\n");
            return 2;
        }
        (arg == "-o" ? only_op : only_backend) = argv[++i];
    }

    int n_run     = 0;
    int n_good    = 0;
    int n_skipped = 0;
    const std::vector<test_backend> backends = make_backends();
    for (size_t i = 0; i < backends.size(); i++) {
        const test_backend & backend = backends[i];
        if (!only_backend.empty() && only_backend != backend.name) {
            continue;
        }
        std::printf("Backend %d/%d: %s\n", int(i) + 1, int(backends.size()), backend.name.c_str());
        std::printf("  Device description: %s\n", backend.about.c_str());

        int n_tests = 0;
        const bool good = backend.can_run && run(backend, only_op, n_tests);
        if (n_tests == 0) {
            std::printf("  Backend %s: skipped\n", backend.name.c_str());
            n_skipped++;
            continue;
        }
        std::printf("  Backend %s: %s\n", backend.name.c_str(), good ? "OK" : "FAIL");
        n_run  += 1;
        n_good += good ? 1 : 0;
    }
    std::printf("%d/%d backends passed, %d skipped\n", n_good, n_run, n_skipped);

    // nothing was tested: that is no success
    if (n_run == 0) {
        std::printf("FAIL\n");
        std::fprintf(stderr, "test-ops: no test ran\n");
        return 2;
    }
    std::printf("%s\n", n_good == n_run ? "OK" : "FAIL");
    return n_good == n_run ? 0 : 1;
}
