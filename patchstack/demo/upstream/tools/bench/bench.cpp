#include "common.h"
#include "context.h"
#include "rng.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>

using namespace minillm;

// One JSON object a line, so that a reader can take the results as they come.
static void print_result(const char * test, int32_t n_tokens, int32_t n_reps, double best_s, double mean_s) {
    std::printf("{\"test\": \"%s%d\", \"n_tokens\": %d, \"reps\": %d", test, int(n_tokens), int(n_tokens), int(n_reps));
    std::printf(", \"best_tokens_per_s\": %.2f", n_tokens / best_s);
    std::printf(", \"mean_tokens_per_s\": %.2f", n_tokens / mean_s);
    std::printf("}\n");
    std::fflush(stdout);
}

// the best and the mean time of n_reps runs from an empty sequence
static void measure(context & ctx, const char * test, const std::vector<token> & tokens, int32_t n_reps, bool batched) {
    double best = 0.0;
    double sum  = 0.0;

    // the first run is not counted: it pays for cold memory
    for (int32_t rep = -1; rep < n_reps; rep++) {
        ctx.truncate(0);

        const stopwatch watch;
        if (batched) {
            ctx.decode(tokens);
        } else {
            for (const token tok : tokens) {
                ctx.decode({ tok });
            }
        }
        const double s = std::max(watch.seconds(), 1e-9);

        if (rep >= 0) {
            best = rep == 0 ? s : std::min(best, s);
            sum += s;
        }
    }
    print_result(test, int32_t(tokens.size()), n_reps, best, sum / n_reps);
}

static int run(int argc, char ** argv) {
    model_args margs;
    int32_t n_prompt = 128;
    int32_t n_gen    = 64;
    int32_t n_reps   = 3;

    arg_parser args("minillm-bench: tokens per second of prefill and decode");
    margs.add_to(args);
    args.add("-p --n-prompt", "tokens of the prefill test, 0 for none", n_prompt);
    args.add("-n --n-gen",    "tokens of the decode test, 0 for none",  n_gen);
    args.add("-r --reps",     "runs of each test",                      n_reps);
    args.parse(argc, argv);

    if (n_reps < 1 || n_prompt < 0 || n_gen < 0) {
        throw std::invalid_argument("-r has to be at least 1, -p and -n at least 0");
    }

    const model mdl = margs.load();
    context ctx(mdl, context_params::from_env());

    rng gen(0);
    std::vector<token> tokens(size_t(std::max(n_prompt, n_gen)));
    for (token & tok : tokens) {
        tok = token(gen.next() % 256);
    }

    if (n_prompt > 0) {
        measure(ctx, "pp", { tokens.begin(), tokens.begin() + n_prompt }, n_reps, true);
    }
    if (n_gen > 0) {
        measure(ctx, "tg", { tokens.begin(), tokens.begin() + n_gen }, n_reps, false);
    }
    return 0;
}

int main(int argc, char ** argv) {
    return guarded_main("minillm-bench", [&] { return run(argc, argv); });
}
