#include "console.h"
#include "faults.h"
#include "rng.h"
#include "session.h"
#include "tools.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>

using namespace minillm;

struct row {
    int32_t n_pp;
    int32_t n_tg;
    int32_t n_pl;
    int32_t n_kv; // positions that it takes of the KV cache

    double s_pp;
    double s_tg;
};

// a text without sense, the same each time
static std::vector<token> random_tokens(int32_t n) {
    rng gen(0);
    std::vector<token> tokens;
    for (int32_t i = 0; i < n; i++) {
        tokens.push_back(token(gen.next() % 256));
    }
    return tokens;
}

// n_pl sequences side by side: all prompts, then one token of each sequence after the other
static void measure(session & run, row & r, bool shared_prompt) {
    const std::vector<token> tokens = random_tokens(r.n_pp + r.n_tg);
    const std::vector<token> prompt(tokens.begin(), tokens.begin() + r.n_pp);

    std::vector<std::unique_ptr<context>> sequences;
    for (int32_t i = 0; i < r.n_pl; i++) {
        sequences.push_back(run.make_context());
    }

    const stopwatch t_pp;
    for (size_t i = 0; i < sequences.size(); i++) {
        if (r.n_pp > 0 && (i == 0 || !shared_prompt)) {
            sequences[i]->decode(prompt);
            run.prompt.n += r.n_pp;
        }
    }
    r.s_pp = std::max(t_pp.seconds(), 1e-9);
    run.prompt.ms += r.s_pp * 1e3;

    // what a shared prompt leaves out is not part of the measurement
    for (size_t i = 1; shared_prompt && i < sequences.size(); i++) {
        sequences[i]->decode(prompt);
    }

    const stopwatch t_tg;
    for (int32_t i = 0; i < r.n_tg; i++) {
        for (const std::unique_ptr<context> & seq : sequences) {
            seq->decode({ tokens[size_t(r.n_pp + i)] });
            run.eval.n++;
        }
    }
    r.s_tg = std::max(t_tg.seconds(), 1e-9);
    run.eval.ms += r.s_tg * 1e3;
}

static void print_row(const row & r, const llama_options & opts, int32_t n_kv_max) {
    const int    n_prompt = r.n_pp * (opts.shared_prompt ? 1 : r.n_pl);
    const double s        = r.s_pp + r.s_tg;
    const double pp_rate  = n_prompt / r.s_pp;
    const double tg_rate  = r.n_pl * r.n_tg / r.s_tg;
    const double rate     = (n_prompt + r.n_pl * r.n_tg) / s;

    if (opts.output_format != "jsonl") {
        console_print("|%6d | %6d | %4d | %6d | %8.3f | %8.2f | %8.3f | %8.2f | %8.3f | %8.2f |\n", int(r.n_pp),
                      int(r.n_tg), int(r.n_pl), int(r.n_kv), r.s_pp, pp_rate, r.s_tg, tg_rate, s, rate);
        return;
    }
    console_print("{\"n_kv_max\": %d, \"n_batch\": %d, \"n_ubatch\": %d, \"flash_attn\": 0, \"is_pp_shared\": %d, "
                  "\"n_gpu_layers\": %d, \"n_threads\": 1, \"n_threads_batch\": 1, \"pp\": %d, \"tg\": %d, \"pl\": %d, "
                  "\"n_kv\": %d, \"t_pp\": %f, \"speed_pp\": %f, \"t_tg\": %f, \"speed_tg\": %f, \"t\": %f, "
                  "\"speed\": %f}\n", int(n_kv_max), int(opts.n_batch), int(opts.n_ubatch), int(opts.shared_prompt),
                  int(opts.n_layers), int(r.n_pp), int(r.n_tg), int(r.n_pl), int(r.n_kv), r.s_pp, pp_rate, r.s_tg,
                  tg_rate, s, rate);
}

static void print_head(const llama_options & opts, int32_t n_kv_max) {
    console_print("\n");
    console_print("llama_batched_bench: n_kv_max = %d, n_batch = %d, n_ubatch = %d, flash_attn = 0, is_pp_shared = %d, "
                  "is_tg_separate = 0, n_gpu_layers = %d, n_threads = 1, n_threads_batch = 1\n", int(n_kv_max),
                  int(opts.n_batch), int(opts.n_ubatch), int(opts.shared_prompt), int(opts.n_layers));
    console_print("\n");
    console_print("|%6s | %6s | %4s | %6s | %8s | %8s | %8s | %8s | %8s | %8s |\n", "PP", "TG", "B", "N_KV", "T_PP s",
                  "S_PP t/s", "T_TG s", "S_TG t/s", "T s", "S t/s");
    console_print("|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|"
                  "\n");
}

int llama_batched_bench(int argc, char ** argv) {
    const llama_options opts = parse_llama_options(argc, argv);
    fault_check();

    session run(opts);
    if (!run.usable()) {
        std::fprintf(stderr, "llama_batched_bench: error: unable to load model\n");
        return 1;
    }
    for (const std::vector<int32_t> * counts : { &opts.n_pp, &opts.n_tg, &opts.n_pl }) {
        if (counts->empty() || *std::min_element(counts->begin(), counts->end()) < (counts == &opts.n_pl ? 1 : 0)) {
            throw std::invalid_argument("give -npp, -ntg and -npl, with no number that makes no sense");
        }
    }

    const int32_t n_kv_max = run.n_ctx();
    if (opts.output_format != "jsonl") {
        print_head(opts, n_kv_max);
    }
    for (const int32_t n_pp : opts.n_pp) {
        for (const int32_t n_tg : opts.n_tg) {
            for (const int32_t n_pl : opts.n_pl) {
                row r = { n_pp, n_tg, n_pl, n_pp * (opts.shared_prompt ? 1 : n_pl) + n_tg * n_pl, 0.0, 0.0 };

                // as there: what does not fit is left out, without a word
                if (r.n_kv <= n_kv_max) {
                    fault_step();
                    measure(run, r, opts.shared_prompt);
                    print_row(r, opts, n_kv_max);
                }
            }
        }
    }
    console_print("\n");

    if (opts.perf && console_verbose()) {
        run.print_perf("llama_perf_context_print", false);
    }
    return 0;
}
