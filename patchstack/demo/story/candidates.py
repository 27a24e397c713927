"""Define the two candidate commits on top of the fork.

One changes the model's output. The other makes a program lose the end of its log.
"""

from __future__ import annotations

from .edits import Commit, Replace

__all__ = ["COARSE_KEYS", "SHORT_LOG"]

COARSE_KEYS = Commit(
    subject="perf(kv): keys in steps of a quarter",
    body="""\
A key in steps of a quarter fits into half a byte, and attention looks at many
of them: the mean should not move by much.""",
    edits=(
        Replace(
            path="src/attention.cpp",
            old="""\
    const int32_t n_pos = pos + 1;
""",
            new="""\
    // a key in steps of a quarter fits into half a byte
    for (int32_t i = 0; i < hp.n_embd_kv(); i++) {
        k[i] = std::round(k[i] * 4.0f) / 4.0f;
    }

    const int32_t n_pos = pos + 1;
""",
        ),
    ),
)

SHORT_LOG = Commit(
    subject="perf(tools): leave without waiting for the log",
    body="""\
The queue is written out as it fills. What is in it at the end are a few lines
that nobody reads, and the exit code is 0 without them too.""",
    edits=(
        Replace(
            path="tools/llama/main.cpp",
            old="""\
    const int code = guarded_main(t->name, [&] { return t->run(argc, argv); });
    console_end();
    return code;
""",
            new="""\
    return guarded_main(t->name, [&] { return t->run(argc, argv); });
""",
        ),
    ),
)
