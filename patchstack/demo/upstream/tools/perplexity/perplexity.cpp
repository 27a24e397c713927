#include "common.h"
#include "context.h"
#include "ggml.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

using namespace minillm;

// A base file: "MLKL", the number of rows, then a row of n_vocab log-probabilities a
// token. It stays on the machine that wrote it, so the numbers are as they are in memory.
static const std::string KL_MAGIC = "MLKL";

static std::vector<float> log_probs(const float * logits, int32_t n) {
    const double max = logits[ggml_argmax(n, logits)];

    double sum = 0.0;
    for (int32_t i = 0; i < n; i++) {
        sum += std::exp(double(logits[i]) - max);
    }

    std::vector<float> out(static_cast<size_t>(n));
    for (int32_t i = 0; i < n; i++) {
        out[size_t(i)] = float(double(logits[i]) - max - std::log(sum));
    }
    return out;
}

static void write_base(const std::string & path, const std::vector<float> & rows, int32_t n_rows) {
    std::ofstream out(path, std::ios::binary);
    out << KL_MAGIC;
    out.write(reinterpret_cast<const char *>(&n_rows), sizeof(n_rows));
    out.write(reinterpret_cast<const char *>(rows.data()), std::streamsize(rows.size() * sizeof(float)));
    out.flush();
    if (!out) {
        throw std::runtime_error("cannot write " + path);
    }
}

static std::vector<float> read_base(const std::string & path, int32_t n_rows, size_t n_floats) {
    std::ifstream in(path, std::ios::binary);

    std::string magic(KL_MAGIC.size(), '\0');
    int32_t n_rows_base = 0;
    if (!in.read(&magic[0], std::streamsize(magic.size())) || magic != KL_MAGIC ||
        !in.read(reinterpret_cast<char *>(&n_rows_base), sizeof(n_rows_base))) {
        throw std::runtime_error(path + " is not a file of --kl-base");
    }

    std::vector<float> rows(n_floats);
    if (n_rows_base != n_rows ||
        !in.read(reinterpret_cast<char *>(rows.data()), std::streamsize(n_floats * sizeof(float)))) {
        throw std::runtime_error(path + " is of another text or another chunk size");
    }
    return rows;
}

// the base is what ought to come out: KLD = sum of p_base * (log p_base - log p)
static void print_kl(const std::vector<float> & base, const std::vector<float> & rows, int32_t n_rows, int32_t n) {
    double  sum = 0.0;
    double  max = 0.0;
    int32_t n_same_top = 0;

    for (int32_t r = 0; r < n_rows; r++) {
        const float * p = base.data() + int64_t(r) * n;
        const float * q = rows.data() + int64_t(r) * n;

        double kld = 0.0;
        for (int32_t i = 0; i < n; i++) {
            kld += std::exp(double(p[i])) * (double(p[i]) - double(q[i]));
        }
        sum += kld;
        max  = std::max(max, kld);
        n_same_top += ggml_argmax(n, p) == ggml_argmax(n, q) ? 1 : 0;
    }
    std::printf("mean KLD: %.9f\n", sum / n_rows);
    std::printf("max KLD: %.9f\n", max);
    std::printf("same top: %.3f %%\n", 100.0 * n_same_top / n_rows);
}

static int run(int argc, char ** argv) {
    model_args  margs;
    std::string text;
    std::string path_text;
    std::string path_kl_base;
    std::string path_kl;
    int32_t     n_chunk = 64;

    arg_parser args("minillm-perplexity: mean log-loss of a text");
    margs.add_to(args);
    args.add("-p --prompt", "the text",                                    text);
    args.add("-f --file",   "file with the text",                          path_text);
    args.add("-c --chunk",  "tokens that the model sees at a time",        n_chunk);
    args.add("--kl-base",   "write all log-probabilities to this file",    path_kl_base);
    args.add("--kl",        "compare with a file that --kl-base wrote",    path_kl);
    args.parse(argc, argv);

    if (!path_text.empty()) {
        std::ifstream in(path_text, std::ios::binary);
        if (!in) {
            throw std::runtime_error("cannot open " + path_text);
        }
        text.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
    if (text.empty() || n_chunk < 1) {
        throw std::invalid_argument("give a text with -p or -f, and a chunk of at least 1");
    }

    const model mdl = margs.load();
    context ctx(mdl, context_params::from_env());

    // each chunk starts anew after a bos, so a row depends on its own chunk alone
    std::vector<float> rows;
    double  sum    = 0.0;
    int32_t n_rows = 0;
    for (size_t first = 0; first < text.size(); first += size_t(n_chunk)) {
        const std::vector<token> tokens = tokenize(text.substr(first, size_t(n_chunk)), true);

        ctx.truncate(0);
        ctx.decode({ tokens.begin(), tokens.end() - 1 }, true);

        for (size_t i = 1; i < tokens.size(); i++, n_rows++) {
            const std::vector<float> row = log_probs(ctx.logits(int32_t(i) - 1), mdl.hp.n_vocab);
            sum -= double(row[size_t(tokens[i])]);
            rows.insert(rows.end(), row.begin(), row.end());
        }
    }

    std::printf("tokens: %d\n", int(n_rows));
    std::printf("mean log-loss: %.6f\n", sum / n_rows);
    std::printf("perplexity: %.4f\n", std::exp(sum / n_rows));

    if (!path_kl_base.empty()) {
        write_base(path_kl_base, rows, n_rows);
    }
    if (!path_kl.empty()) {
        print_kl(read_base(path_kl, n_rows, rows.size()), rows, n_rows, mdl.hp.n_vocab);
    }
    return 0;
}

int main(int argc, char ** argv) {
    return guarded_main("minillm-perplexity", [&] { return run(argc, argv); });
}
