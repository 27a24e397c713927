#include "console.h"
#include "faults.h"
#include "session.h"
#include "tools.h"

#include <algorithm>

using namespace minillm;

// The text to continue, then one token after the other: each is an entry of the console's queue.
static void complete(session & run, const llama_options & opts, sampler & smpl) {
    const int32_t n_left    = run.n_ctx() - run.n_past();
    const int32_t n_predict = opts.n_predict < 0 ? n_left : std::min(opts.n_predict, n_left);

    for (int32_t i = 0; i < n_predict; i++) {
        const token tok = run.next(smpl);
        if (tok == TOKEN_BOS && !opts.ignore_eos) {
            console_print(" [end of text]\n");
            break;
        }
        console_print("%s", token_to_piece(tok).c_str());

        // nobody asks what follows the last one
        if (i + 1 < n_predict) {
            run.advance(tok);
        }
    }
}

int llama_completion(int argc, char ** argv) {
    const llama_options opts = parse_llama_options(argc, argv);
    fault_check();

    console_log('I', "llama_completion: llama backend init");
    console_log('I', "llama_completion: load the model and apply lora adapter, if any");
    session run(opts);
    if (!run.usable()) {
        console_log('E', "llama_completion: error: unable to create context");
        return 1;
    }

    sampler_params sparams;
    sparams.temp  = opts.temp;
    sparams.top_k = opts.top_k;
    sparams.seed  = opts.seed;
    sampler smpl(sparams);

    const std::vector<token> tokens = tokenize(opts.prompt, true);
    if (int32_t(tokens.size()) >= run.n_ctx()) {
        console_log('E', "llama_completion: prompt is too long (%d tokens, max %d)", int(tokens.size()),
                    int(run.n_ctx()) - 1);
        return 1;
    }
    console_log('I', "sampler seed: %llu", static_cast<unsigned long long>(opts.seed));
    console_log('I', "generate: n_ctx = %d, n_batch = %d, n_predict = %d, n_keep = 0", int(run.n_ctx()),
                int(opts.n_batch), int(opts.n_predict));
    run.start(tokens);
    if (opts.show_prompt) {
        console_print("%s", opts.prompt.c_str());
    }
    complete(run, opts, smpl);
    console_print("\n\n");

    if (opts.perf) {
        run.print_perf("common_perf_print", true);
        if (console_verbose()) {
            run.print_memory();
        }
    }
    return 0;
}
