#pragma once

#include "common.h"
#include "context.h"
#include "options.h"
#include "sampling.h"

#include <memory>
#include <vector>

// times in milliseconds, and what was done in them
struct work_done {
    double  ms = 0.0;
    int32_t n  = 0;
};

// A model, one sequence of tokens over it, and the time that it took.
class session {
public:
    // Loads the model of the options; prints why it cannot, and then usable() is false.
    explicit session(const llama_options & opts);

    bool usable() const { return ctx != nullptr; }

    const minillm::model & model() const { return *mdl; }
    const float * logits(int32_t i = 0) const { return ctx->logits(i); }
    int32_t n_ctx() const { return ctx->cache().size(); }
    int32_t n_past() const { return ctx->n_past(); }

    // an empty sequence, then these tokens
    void start(const std::vector<minillm::token> & tokens, bool all_logits = false);

    // The next token of the sequence, by the sampler. It is not part of it before advance.
    minillm::token next(minillm::sampler & smpl);
    void advance(minillm::token tok);

    // one more sequence over the same model
    std::unique_ptr<minillm::context> make_context() const;

    // The last lines on stderr, whose last one says that nothing of the output was lost. The
    // tools differ in the name, and in whether they sample.
    void print_perf(const char * name, bool samples) const;
    void print_memory() const;

    work_done prompt;
    work_done eval;
    work_done sampling;

private:
    minillm::context_params params;

    std::unique_ptr<minillm::model>   mdl;
    std::unique_ptr<minillm::context> ctx;

    double    load_ms = 0.0;
    stopwatch total;
    int32_t   n_generated = 0;
};

// natural logarithms of the probabilities that the logits stand for
std::vector<double> log_softmax(const float * logits, int32_t n);
