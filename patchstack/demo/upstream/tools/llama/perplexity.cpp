#include "console.h"
#include "faults.h"
#include "kl-base.h"
#include "kl-stats.h"
#include "session.h"
#include "tools.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

using namespace minillm;

// fewer tokens than this get no statistics
static const size_t MIN_COUNT = 100;

// The logits of the second half of each chunk count: each row, with the token that came next.
// use gets the chunk, the row of its logits, the token, and whether it is the chunk's last one.
template <typename F>
static void for_each_row(session & run, const kl_base_head & text, const char * name, const F & use) {
    const int32_t n_ctx = int32_t(text.n_ctx);

    for (int32_t chunk = 0; chunk < text.n_chunk; chunk++) {
        fault_step();

        std::vector<token> tokens(text.tokens.begin() + chunk * n_ctx, text.tokens.begin() + (chunk + 1) * n_ctx);
        tokens[0] = TOKEN_BOS;

        const stopwatch watch;
        run.start(tokens, true);
        if (chunk == 0) {
            console_log_open('I', "%s: %.2f seconds per pass - ETA ", name, watch.seconds());
            console_print("%.2f minutes\n", watch.seconds() * text.n_chunk / 60.0);
            use.begin();
        }
        for (int32_t i = n_ctx / 2; i + 1 < n_ctx; i++) {
            if (!use.row(chunk, run.logits(i), tokens[size_t(i) + 1], i + 2 == n_ctx)) {
                return;
            }
        }
    }
}

struct perplexity_rows {
    kl_base_writer * base;
    std::vector<double> & nll;
    int32_t n_vocab;

    void begin() const {}

    bool row(int32_t chunk, const float * logits, token next, bool is_last) const {
        const std::vector<double> log_probs = log_softmax(logits, n_vocab);
        nll.push_back(-log_probs[size_t(next)]);
        if (base != nullptr) {
            base->write_row(log_probs);
        }
        if (is_last) {
            double sum = 0.0;
            for (const double x : nll) {
                sum += x;
            }
            console_print("[%d]%.4lf,", int(chunk) + 1, std::exp(sum / double(nll.size())));
        }
        return true;
    }
};

struct divergence_rows {
    kl_base_reader & base;
    kl_stats & stats;
    int32_t n_vocab;

    void begin() const {
        console_print("\n");
        console_print("chunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence              "
                      "Δp RMS            Same top p\n");
    }

    bool row(int32_t chunk, const float * logits, token next, bool is_last) const {
        std::vector<float> row_base;
        if (!base.read_row(n_vocab, row_base)) {
            console_log('E', "kl_divergence: failed reading log-probs for chunk %d", int(chunk));
            return false;
        }
        stats.add(row_base, log_softmax(logits, n_vocab), next);
        if (is_last) {
            stats.print_line(chunk + 1);
        }
        return true;
    }
};

static void perplexity(session & run, const llama_options & opts) {
    const int32_t n_ctx = run.n_ctx();
    if (!opts.kl_base.empty()) {
        console_log('I', "perplexity: saving all logits to %s", opts.kl_base.c_str());
    }
    console_log('I', "perplexity: tokenizing the input ..");
    const stopwatch watch;

    kl_base_head text;
    text.n_ctx   = uint32_t(n_ctx);
    text.n_vocab = run.model().hp.n_vocab;
    text.tokens  = tokenize(opts.prompt, true);
    console_log('I', "perplexity: tokenization took %g ms", watch.seconds() * 1e3);

    const int32_t n_tokens = int32_t(text.tokens.size());
    if (n_tokens < 2 * n_ctx) {
        console_log('E', "perplexity: you need at least %d tokens to evaluate perplexity with a context of %d",
                    2 * int(n_ctx), int(n_ctx));
        console_log('E', "perplexity: the data file you provided tokenizes to only %d tokens", int(n_tokens));
        return;
    }
    text.n_chunk = opts.n_chunks < 0 ? n_tokens / n_ctx : std::min(opts.n_chunks, n_tokens / n_ctx);
    text.tokens.resize(size_t(text.n_chunk * n_ctx));

    kl_base_writer base;
    if (!opts.kl_base.empty() && !base.open(opts.kl_base, text)) {
        console_log('E', "perplexity: failed to open %s for writing", opts.kl_base.c_str());
        return;
    }
    console_log('I', "perplexity: calculating perplexity over %d chunks, n_ctx=%d, batch_size=%d, n_seq=1",
                int(text.n_chunk), int(n_ctx), int(opts.n_batch));

    std::vector<double> nll;
    for_each_row(run, text, "perplexity",
                 perplexity_rows{ opts.kl_base.empty() ? nullptr : &base, nll, text.n_vocab });
    console_print("\n");
    if (!opts.kl_base.empty() && !base.close()) {
        throw std::runtime_error("cannot write " + opts.kl_base);
    }

    double sum  = 0.0;
    double sum2 = 0.0;
    for (const double x : nll) {
        sum  += x;
        sum2 += x * x;
    }
    const double n     = double(nll.size());
    const double ppl   = std::exp(sum / n);
    const double sigma = std::sqrt(std::max(sum2 / n - sum / n * sum / n, 0.0) / (n - 1));
    console_log('I', "Final estimate: PPL = %.4lf +/- %.5lf", ppl, sigma * ppl);
}

// as there: what is wrong with the base is said on stderr, and the exit code is 0
static void kl_divergence(session & run, const llama_options & opts) {
    if (opts.kl_base.empty()) {
        console_log('E', "kl_divergence: you must provide a name of a file containing the log probabilities of the "
                    "base model");
        return;
    }
    kl_base_head   text;
    kl_base_reader base;
    const std::string complaint = base.open(opts.kl_base, text);
    if (!complaint.empty()) {
        console_log('E', "kl_divergence: %s", complaint.c_str());
        return;
    }
    const int32_t n_vocab = run.model().hp.n_vocab;
    if (int64_t(text.n_ctx) > int64_t(run.n_ctx())) {
        console_log('E', "kl_divergence: %s has been computed with %u, while the current context is %d. Increase it "
                    "with -c and retry", opts.kl_base.c_str(), text.n_ctx, int(run.n_ctx()));
        return;
    }
    if (text.n_vocab != n_vocab) {
        console_log('E', "kl_divergence: inconsistent vocabulary (%d vs %d)", int(text.n_vocab), int(n_vocab));
        return;
    }
    console_log('I', "kl_divergence: computing over %d chunks, n_ctx=%u, batch_size=%d, n_seq=1", int(text.n_chunk),
                text.n_ctx, int(opts.n_batch));

    kl_stats stats;
    for_each_row(run, text, "kl_divergence", divergence_rows{ base, stats, n_vocab });
    console_print("\n");

    if (stats.count() >= MIN_COUNT) {
        stats.print_perplexity();
        stats.print_divergence();
        stats.print_probabilities();
    }
}

int llama_perplexity(int argc, char ** argv) {
    const llama_options opts = parse_llama_options(argc, argv);
    fault_check();

    session run(opts);
    if (!run.usable()) {
        console_log('E', "llama_perplexity: error: unable to load model");
        return 1;
    }
    (opts.kl_divergence ? kl_divergence : perplexity)(run, opts);

    if (opts.perf && console_verbose()) {
        console_print("\n");
        run.print_perf("llama_perf_context_print", false);
        run.print_memory();
    }
    return 0;
}
