#include "session.h"

#include "console.h"
#include "faults.h"
#include "ggml.h"

#include <algorithm>
#include <cmath>
#include <exception>

using namespace minillm;

static double rate(const work_done & work) {
    return std::max(work.n, 1) / work.ms * 1e3;
}

static void print_model(const minillm::model & mdl) {
    const hparams & hp = mdl.hp;

    size_t n_params = 0;
    for (const tensor * t : mdl.tensors()) {
        n_params += t->data.size();
    }
    console_log('I', "print_info: arch                  = minillm");
    console_log('I', "print_info: n_ctx_train           = %d", int(hp.n_ctx));
    console_log('I', "print_info: n_embd                = %d", int(hp.n_embd));
    console_log('I', "print_info: n_layer               = %d", int(hp.n_layer));
    console_log('I', "print_info: n_head                = %d", int(hp.n_head));
    console_log('I', "print_info: n_head_kv             = %d", int(hp.n_head_kv));
    console_log('I', "print_info: n_expert              = %d", int(hp.n_expert));
    console_log('I', "print_info: n_expert_used         = %d", int(hp.n_expert_used));
    console_log('I', "print_info: model params          = %.2f K", double(n_params) / 1e3);
    console_log('I', "print_info: n_vocab               = %d", int(hp.n_vocab));
}

session::session(const llama_options & opts) {
    const stopwatch watch;

    params = context_params::from_env();
    if (opts.n_ctx > 0) {
        params.n_ctx = opts.n_ctx;
    }
    try {
        mdl = std::make_unique<minillm::model>(minillm::model::load(opts.model));
    } catch (const std::exception & e) {
        console_log('E', "llama_model_load: error loading model: %s", e.what());
        console_log('E', "llama_model_load_from_file_impl: failed to load model");
        console_log('E', "common_init_from_params: failed to load model '%s'", opts.model.c_str());
        return;
    }
    ctx = make_context();

    if (console_verbose()) {
        print_model(*mdl);
        console_log('I', "llama_context: n_ctx         = %d", int(n_ctx()));
        console_log('I', "llama_context: n_batch       = %d", int(opts.n_batch));
        console_log('I', "llama_context: n_ubatch      = %d", int(opts.n_ubatch));
    }
    load_ms = watch.seconds() * 1e3;
}

std::unique_ptr<context> session::make_context() const {
    return std::make_unique<context>(*mdl, params);
}

void session::start(const std::vector<token> & tokens, bool all_logits) {
    const stopwatch watch;
    ctx->truncate(0);
    ctx->decode(tokens, all_logits);
    prompt.ms += watch.seconds() * 1e3;
    prompt.n  += int32_t(tokens.size());
    n_generated = 0;
}

token session::next(sampler & smpl) {
    fault_step();

    const stopwatch watch;
    token tok = smpl.sample(logits(), mdl->hp.n_vocab);
    if (fault_is("flip-token") && n_generated == fault_value(5)) {
        int32_t best[2];
        ggml_top_k(mdl->hp.n_vocab, 2, logits(), best);
        tok = best[tok == best[0] ? 1 : 0];
    }
    sampling.ms += watch.seconds() * 1e3;
    sampling.n  += 1;
    n_generated += 1;
    return tok;
}

void session::advance(token tok) {
    const stopwatch watch;
    ctx->decode({ tok });
    eval.ms += watch.seconds() * 1e3;
    eval.n  += 1;
}

void session::print_perf(const char * name, bool samples) const {
    const double  total_ms = total.seconds() * 1e3;
    const int32_t n_total  = prompt.n + eval.n;

    if (samples) {
        console_log('I', "%s:    sampling time = %10.2f ms", name, sampling.ms);
        console_log('I', "%s:    samplers time = %10.2f ms / %5d tokens", name, sampling.ms,
                    int(prompt.n + sampling.n));
    }
    console_log('I', "%s:        load time = %10.2f ms", name, load_ms);
    console_log('I', "%s: prompt eval time = %10.2f ms / %5d tokens (%8.2f ms per token, %8.2f tokens per second)",
                name, prompt.ms, int(prompt.n), prompt.ms / std::max(prompt.n, 1), rate(prompt));
    console_log('I', "%s:        eval time = %10.2f ms / %5d runs   (%8.2f ms per token, %8.2f tokens per second)",
                name, eval.ms, int(eval.n), eval.ms / std::max(eval.n, 1), rate(eval));
    console_log('I', "%s:       total time = %10.2f ms / %5d tokens", name, total_ms, int(n_total));
    if (samples) {
        const double rest = total_ms - sampling.ms - prompt.ms - eval.ms;
        console_log('I', "%s: unaccounted time = %10.2f ms / %5.1f %%      (total - sampling - prompt eval - eval) / "
                    "(total)", name, rest, 100.0 * rest / total_ms);
    }
    // there are no graphs here; each step after the first does what the one before it did
    console_log('I', "%s:    graphs reused = %10d", name, int(std::max(eval.n - 1, 0)));
}

void session::print_memory() const {
    size_t n_bytes = 0;
    for (const tensor * t : mdl->tensors()) {
        n_bytes += t->data.size() * sizeof(float);
    }
    const int model = int(n_bytes >> 20);

    console_log('I', "common_memory_breakdown_print: | memory breakdown [MiB] | total   free    self   model   context "
                "  compute    unaccounted |");
    console_log('I', "common_memory_breakdown_print: |   - Host               |                %5d = %5d +   %5d +   "
                "%5d                |", model, model, 0, 0);
}

std::vector<double> log_softmax(const float * logits, int32_t n) {
    const double max = logits[ggml_argmax(n, logits)];
    double sum = 0.0;
    for (int32_t i = 0; i < n; i++) {
        sum += std::exp(double(logits[i]) - max);
    }

    std::vector<double> out(static_cast<size_t>(n));
    for (int32_t i = 0; i < n; i++) {
        out[size_t(i)] = double(logits[i]) - max - std::log(sum);
    }
    return out;
}
