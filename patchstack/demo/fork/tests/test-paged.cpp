// The paged cache and the contiguous one decode the same, bit for bit.

#include "build-info.h"
#include "context.h"
#include "model.h"
#include "sampling.h"

#include <cstdio>
#include <string>
#include <vector>

using namespace minillm;

static int n_failed = 0;

static void check(bool good, const std::string & what) {
    std::printf("%s: %s\n", what.c_str(), good ? "OK" : "FAIL");
    n_failed += good ? 0 : 1;
}

static context make_context(const model & mdl, int32_t n_kv_block) {
    context_params params;
    params.n_kv_block = n_kv_block;
    return context(mdl, params);
}

// prompt, checkpoint, n tokens; back to the checkpoint, n tokens; back to the start, all again
static std::vector<token> generate(context & ctx, const std::string & prompt, int32_t n) {
    const int32_t n_vocab = 257;

    sampler_params params;
    params.temp = 1.0f;
    params.seed = 3;
    sampler smpl(params);

    std::vector<token> all;
    for (int32_t round = 0; round < 4; round++) {
        if (round % 2 == 0) {
            ctx.truncate(0);
            ctx.decode(tokenize(prompt, true));
            ctx.checkpoint();
        } else {
            ctx.truncate(int32_t(prompt.size()) + 1);
            ctx.decode({ '.' });
        }
        for (int32_t i = 0; i < n; i++) {
            all.push_back(smpl.sample(ctx.logits(), n_vocab));
            ctx.decode({ all.back() });
        }
    }
    return all;
}

int main(int argc, char ** argv) {
    if (answer_version(argc, argv)) {
        return 0;
    }

    model mdl{ hparams() };
    mdl.randomize(7);

    const std::string prompt = "Pages are what a cache and a book have in common.";

    context contiguous = make_context(mdl, 0);
    check(contiguous.cache().paged_pool() == nullptr, "no pool without blocks");

    const std::vector<token> want = generate(contiguous, prompt, 40);
    for (const int32_t n_kv_block : { 1, 7, 16, 32, 1024 }) {
        context paged = make_context(mdl, n_kv_block);

        const std::string blocks = "blocks of " + std::to_string(n_kv_block);
        check(paged.cache().paged_pool() != nullptr, blocks + " are in use");
        check(generate(paged, prompt, 40) == want, blocks + " decode the same tokens");
    }

    std::printf("%s\n", n_failed == 0 ? "all passed" : "some failed");
    return n_failed == 0 ? 0 : 1;
}
