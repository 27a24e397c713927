"""Define the fork's commits for the paged KV cache. The last one, `MOVED_ON`, is not in the series."""

from __future__ import annotations

from .edits import Commit, Create, Replace

PAGED = Commit(
    subject="feat(paged): paged KV cache behind MINILLM_KV_PAGED",
    body="""\
A context of 512 positions pays for all of them, even where a sequence has ten.
Take the rows in blocks from a pool instead, as the sequence grows. Attention
asks for rows by position and does not see the difference.

Switch: MINILLM_KV_PAGED
Default: off""",
    edits=(
        Create(path="src/kv-paged.h", source="src/kv-paged.h"),
        Create(path="src/kv-paged.cpp", source="src/kv-paged.cpp"),
        Replace(
            path="src/CMakeLists.txt",
            old="""\
    kv-cache.cpp
""",
            new="""\
    kv-cache.cpp
    kv-paged.cpp
""",
        ),
        Replace(
            path="src/kv-cache.h",
            old="""\
#include "hparams.h"

#include <cstdint>
#include <vector>
""",
            new="""\
#include "hparams.h"
#include "kv-paged.h"

#include <cstdint>
#include <memory>
#include <vector>
""",
        ),
        Replace(
            path="src/kv-cache.h",
            old="""\
    kv_cache(const hparams & hp, int32_t n_ctx);

    int32_t size() const { return n_ctx; }
""",
            new="""\
    // n_block positions a block; 0 keeps all positions in one piece
    kv_cache(const hparams & hp, int32_t n_ctx, int32_t n_block = 0);

    int32_t size() const { return n_ctx; }

    // nullptr where the cache is in one piece
    const kv_paged * paged_pool() const { return paged.get(); }
""",
        ),
        Replace(
            path="src/kv-cache.h",
            old="""\
    std::vector<float> data;
""",
            new="""\
    std::vector<float> data;         // one of the two has the rows
    std::unique_ptr<kv_paged> paged;
""",
        ),
        Replace(
            path="src/kv-cache.cpp",
            old="""\
kv_cache::kv_cache(const hparams & hp, int32_t n_ctx) : n_ctx(n_ctx), n_embd_kv(hp.n_embd_kv()) {
""",
            new="""\
kv_cache::kv_cache(const hparams & hp, int32_t n_ctx, int32_t n_block)
    : n_ctx(n_ctx), n_embd_kv(hp.n_embd_kv()) {
""",
        ),
        Replace(
            path="src/kv-cache.cpp",
            old="""\
    data.assign(size_t(n_slots)""",
            new="""\
    if (n_block > 0) {
        paged = std::make_unique<kv_paged>(n_slots * 2, n_embd_kv, n_block);
        return;
    }
    data.assign(size_t(n_slots)""",
        ),
        Replace(
            path="src/kv-cache.cpp",
            old="""\
        throw std::length_error("the KV cache is full");
    }
}
""",
            new="""\
        throw std::length_error("the KV cache is full");
    }
    if (paged) {
        paged->extend(n_pos);
    }
}
""",
        ),
        Replace(
            path="src/kv-cache.cpp",
            old="""\
    return data.data() +""",
            new="""\
    if (paged) {
        return paged->row(int32_t(slot), pos);
    }
    return data.data() +""",
        ),
        Replace(
            path="src/kv-cache.cpp",
            old="""\
void kv_cache::truncate(int32_t) {
    // rows are written before they are read, so the old ones may stay
}

void kv_cache::clear() {
    truncate(0);
}
""",
            new="""\
void kv_cache::truncate(int32_t n_pos) {
    // rows are written before they are read, so the old ones may stay
    if (paged) {
        paged->truncate(n_pos);
    }
}

void kv_cache::clear() {
    if (paged) {
        paged->clear();
    }
}
""",
        ),
        Replace(
            path="src/context.h",
            old="""\
    int32_t n_ctx = 0;

""",
            new="""\
    int32_t n_ctx = 0;

    // positions in a block of the KV cache, MINILLM_KV_BLOCK; 0 has no blocks
    int32_t n_kv_block = 0;

""",
        ),
        Replace(
            path="src/context.cpp",
            old="""\
        throw std::invalid_argument("MINILLM_N_CTX is out of range");
    }
""",
            new="""\
        throw std::invalid_argument("MINILLM_N_CTX is out of range");
    }

    if (env_flag("MINILLM_KV_PAGED")) {
        params.n_kv_block = env_int("MINILLM_KV_BLOCK", KV_PAGED_BLOCK);
        if (params.n_kv_block < 1 || params.n_kv_block > 1 << 16) {
            throw std::invalid_argument("MINILLM_KV_BLOCK is out of range");
        }
    }
""",
        ),
        Replace(
            path="src/context.cpp",
            old="""\
kv(mdl.hp, params.n_ctx > 0 ? params.n_ctx : mdl.hp.n_ctx) {
""",
            new="""\
kv(mdl.hp, params.n_ctx > 0 ? params.n_ctx : mdl.hp.n_ctx, params.n_kv_block) {
""",
        ),
    ),
)

TEST = Commit(
    subject="test(paged): paged and contiguous caches decode the same tokens",
    body="""\
Generate with several block sizes, go back to a checkpoint and to the start,
and compare each token with the contiguous cache. scripts/smoke.sh does the
same from outside, with the switch off and on.""",
    edits=(
        Create(path="tests/test-paged.cpp", source="tests/test-paged.cpp"),
        Create(path="scripts/smoke.sh", source="scripts/smoke.sh", executable=True),
        Replace(
            path="tests/CMakeLists.txt",
            old="foreach(test ops model)\n",
            new="foreach(test ops model paged)\n",
        ),
    ),
)

FIX = Commit(
    subject="fix(paged): give blocks back when a sequence is truncated",
    body="""\
truncate and clear dropped the blocks from the table and from nowhere else, so
the pool grew with every sequence. Give them back, the last one first: the next
sequence then takes the same blocks again.

Switch: MINILLM_KV_PAGED
Default: off""",
    edits=(
        Replace(
            path="src/kv-paged.cpp",
            old="""\
    if (n_blocks < table.size()) {
        table.resize(n_blocks);
    }
""",
            new="""\
    while (table.size() > n_blocks) {
        unused.push_back(table.back());
        table.pop_back();
    }
""",
        ),
        Replace(
            path="src/kv-paged.cpp",
            old="""\
    table.clear();
""",
            new="""\
    truncate(0);
""",
        ),
        Replace(
            path="tests/test-paged.cpp",
            old="""\
        check(generate(paged, prompt, 40) == want, blocks + " decode the same tokens");
""",
            new="""\
        check(generate(paged, prompt, 40) == want, blocks + " decode the same tokens");

        const int32_t n_pool = paged.cache().paged_pool()->n_blocks_pool();
        check(generate(paged, prompt, 40) == want, blocks + " do so a second time");
        check(paged.cache().paged_pool()->n_blocks_pool() == n_pool, blocks + " come back");

        paged.truncate(0);
        check(paged.cache().paged_pool()->n_blocks_used() == 0, blocks + " are free at the start");
""",
        ),
    ),
)

MOVED_ON = Commit(
    subject="perf(paged): default block size of 32 positions",
    body="""\
Half as many look-ups and a shorter table; the last block wastes at most 31
positions instead of 15. MINILLM_KV_BLOCK=16 brings the old size back.

Switch: MINILLM_KV_PAGED
Default: off""",
    edits=(
        Replace(
            path="src/kv-paged.h",
            old="constexpr int32_t KV_PAGED_BLOCK = 16;\n",
            new="constexpr int32_t KV_PAGED_BLOCK = 32;\n",
        ),
    ),
)
