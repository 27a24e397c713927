#include "trace.h"

#include "env.h"

#include <cstdio>

namespace minillm {

void trace_step(int32_t n_tokens, int32_t n_past, int32_t n_batches, bool all_logits) {
    // looked up once: a decode step is short enough for the environment to show
    static const bool enabled = env_flag("MINILLM_TRACE");
    if (!enabled) {
        return;
    }

    static int64_t step = 0;
    std::fprintf(stderr, "trace: step=%lld kind=%s n_tokens=%d n_past=%d n_batches=%d logits=%s\n",
                 static_cast<long long>(step++), n_tokens == 1 ? "decode" : "prefill", int(n_tokens), int(n_past),
                 int(n_batches), all_logits ? "all" : "last");
}

} // namespace minillm
