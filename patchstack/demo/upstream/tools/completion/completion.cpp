#include "common.h"
#include "context.h"
#include "env.h"
#include "sampling.h"

#include <cstdio>
#include <string>

using namespace minillm;

static void print(token tok) {
    std::fputs(token_to_piece(tok).c_str(), stdout);
    // a reader at the other end of a pipe sees each token as it comes
    std::fflush(stdout);
}

static int run(int argc, char ** argv) {
    model_args     margs;
    sampler_params sparams;
    std::string    prompt;
    int32_t        n_predict = 32;

    arg_parser args("minillm-completion: continue a prompt");
    margs.add_to(args);
    args.add("-p --prompt",    "text to continue",                       prompt);
    args.add("-n --n-predict", "number of tokens to add",                n_predict);
    args.add("--temp",         "temperature, 0 takes the likeliest",     sparams.temp);
    args.add("--top-k",        "sample from this many, 0 from all",      sparams.top_k);
    args.add("--seed",         "seed of the sampler",                    sparams.seed);
    args.parse(argc, argv);

    const model mdl = margs.load();
    context ctx(mdl, context_params::from_env());
    sampler smpl(sparams);

    const std::vector<token> tokens = tokenize(prompt, true);

    const stopwatch t_prefill;
    ctx.decode(tokens);
    const double s_prefill = t_prefill.seconds();

    std::fputs(prompt.c_str(), stdout);

    const stopwatch t_decode;
    int32_t n_decoded = 0;
    for (int32_t i = 0; i < n_predict; i++) {
        const token tok = smpl.sample(ctx.logits(), mdl.hp.n_vocab);
        if (tok == TOKEN_BOS) {
            break;
        }
        print(tok);

        // nobody asks what follows the last one
        if (i + 1 < n_predict) {
            ctx.decode({ tok });
            n_decoded++;
        }
    }
    const double s_decode = t_decode.seconds();

    std::fputs("\n", stdout);
    std::fflush(stdout);

    if (!env_flag("MINILLM_NO_TIMINGS")) {
        std::fprintf(stderr, "prefill: %d tokens in %.3f ms\n", int(tokens.size()), s_prefill * 1e3);
        std::fprintf(stderr, "decode:  %d tokens in %.3f ms\n", int(n_decoded), s_decode * 1e3);
    }
    return 0;
}

int main(int argc, char ** argv) {
    return guarded_main("minillm-completion", [&] { return run(argc, argv); });
}
