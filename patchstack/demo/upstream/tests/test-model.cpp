// What has to hold of the whole model: bit for bit, not within a tolerance.

#include "build-info.h"
#include "context.h"
#include "model.h"
#include "sampling.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

using namespace minillm;

static int n_failed = 0;

static void check(bool good, const char * what) {
    std::printf("%s: %s\n", what, good ? "OK" : "FAIL");
    n_failed += good ? 0 : 1;
}

static std::vector<float> all_logits(context & ctx, const std::vector<token> & tokens) {
    ctx.decode(tokens, true);
    return { ctx.logits(), ctx.logits(int32_t(tokens.size())) };
}

static std::vector<float> one_by_one(context & ctx, const std::vector<token> & tokens) {
    std::vector<float> all;
    for (const token tok : tokens) {
        const std::vector<float> row = all_logits(ctx, { tok });
        all.insert(all.end(), row.begin(), row.end());
    }
    return all;
}

static void test_batch(const model & mdl, const std::vector<token> & tokens) {
    context_params params = context_params::from_env();
    context whole(mdl, params);
    context single(mdl, params);
    params.n_batch = 7;
    context cut(mdl, params);

    const std::vector<float> want = all_logits(whole, tokens);
    check(one_by_one(single, tokens) == want, "one by one equals one batch");
    check(all_logits(cut, tokens) == want, "batches of 7 equal one batch");
}

static void test_backend(const model & mdl, const std::vector<token> & tokens) {
    context_params params = context_params::from_env();
    params.moe_backend = backend::cpu;
    context cpu(mdl, params);
    params.moe_backend = backend::cuda;
    context cuda(mdl, params);
    context again(mdl, params);

    // without a GPU this is the CPU twin of the kernel, which rounds as the kernel does
    const std::vector<float> want = all_logits(cpu, tokens);
    const std::vector<float> got  = all_logits(cuda, tokens);
    const bool near = std::equal(got.begin(), got.end(), want.begin(), want.end(),
                                 [](float a, float b) { return std::fabs(a - b) <= 1e-4f; });
    check(near, "the experts of the CUDA backend are near those of the CPU");
    check(all_logits(again, tokens) == got, "they are the same a second time");
}

static void test_truncate(const model & mdl, const std::vector<token> & tokens) {
    const std::vector<token> head(tokens.begin(), tokens.begin() + 20);
    const std::vector<token> tail(tokens.begin() + 20, tokens.end());

    context ctx(mdl, context_params::from_env());
    ctx.decode(head);
    ctx.checkpoint();
    const std::vector<float> want = all_logits(ctx, tail);

    check(!ctx.truncate(10), "no way back to a position without a checkpoint");
    check(ctx.truncate(20) && ctx.n_past() == 20, "back to the checkpoint");
    check(all_logits(ctx, tail) == want, "the same again after the checkpoint");
    check(ctx.truncate(0) && ctx.n_past() == 0, "back to the start");
    ctx.decode(head);
    check(all_logits(ctx, tail) == want, "the same again from the start");
}

static void test_limits(const model & mdl) {
    context_params params = context_params::from_env();
    params.n_ctx = 4;
    context ctx(mdl, params);
    ctx.decode({ 1, 2, 3 });

    bool thrown = false;
    try {
        ctx.decode({ 4, 5 });
    } catch (const std::length_error &) {
        thrown = true;
    }
    check(thrown && ctx.n_past() == 3, "a full cache is an error and changes nothing");

    thrown = false;
    try {
        ctx.decode({ 257 });
    } catch (const std::invalid_argument &) {
        thrown = true;
    }
    check(thrown && ctx.n_past() == 3, "a token outside the vocabulary is an error");
}

static void test_file(const model & mdl) {
    const std::string path = "test-model.mllm";
    mdl.save(path);
    const model copy = model::load(path);
    std::remove(path.c_str());

    bool same = copy.tensors().size() == mdl.tensors().size();
    for (size_t i = 0; same && i < mdl.tensors().size(); i++) {
        same = copy.tensors()[i]->name == mdl.tensors()[i]->name && copy.tensors()[i]->data == mdl.tensors()[i]->data;
    }
    check(same, "a model survives its file");
}

static void test_sampler(const model & mdl) {
    context ctx(mdl, context_params::from_env());
    ctx.decode({ TOKEN_BOS });

    sampler_params params;
    params.temp = 1.0f;
    params.seed = 5;
    sampler a(params);
    sampler b(params);
    bool same = true;
    for (int i = 0; i < 32; i++) {
        same = same && a.sample(ctx.logits(), mdl.hp.n_vocab) == b.sample(ctx.logits(), mdl.hp.n_vocab);
    }
    check(same, "a seed gives the same tokens");
}

int main(int argc, char ** argv) {
    if (answer_version(argc, argv)) {
        return 0;
    }

    model mdl{ hparams() };
    mdl.randomize(42);

    const std::vector<token> tokens = tokenize("A cache, a state and eight experts walk into a bar.", true);

    test_batch(mdl, tokens);
    test_backend(mdl, tokens);
    test_truncate(mdl, tokens);
    test_limits(mdl);
    test_file(mdl);
    test_sampler(mdl);

    std::printf("%s\n", n_failed == 0 ? "all passed" : "some failed");
    return n_failed == 0 ? 0 : 1;
}
