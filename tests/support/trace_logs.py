"""Lines of the notebook and of this series' traces, and generated logs with the counts of an oracle."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from patchstack.llama.traces.reader import Reader
from patchstack.llama.traces.reading import Reading

GTRACE = "[GTRACE-SUMMARY] calls=98 notenab=0 warming=3 warmdone=1 RESET=0 USED=94 incompat=0 distinct_keys=1"
SPEC = (
    "spec shape: kind=verify batch_before=0 rows=4 outputs=4 draft=3 spec_i_first=0 spec_i_last=3 pos0=5 slot_tokens=5"
)
MMQ = (
    "[LLAMA_MOE_MMQ_SHAPE] type=40 moe=1 ncols_dst=104 nchannels_x=256 ncols_max=13 n_active_est=104 density=1"
    " mmq_x_max=128 mmq_x_lim=64 mmq_x_best=16 mmq_y=128 stream_k=1"
)
ADMISSION_54 = (
    "serving admission trace: steps=76 decode_only_steps=0 decode_tokens=8064 prompt_tokens=22913"
    " waiting_prompt_slots=267 max_waiting_prompt_slots=34 started_prompt_slots=128 continued_prompt_slots=139"
    " last_n_batch=2048 last_n_ubatch=512 last_prefill_budget_step=0 last_prefill_cap_per_slot=0"
    " prompt_hist=0:63,1-64:1,513+:12 decode_hist=0:3,1-63:10,64-127:10,128-255:53"
    " waiting_hist=0:63,1-7:1,8-15:2,16-31:9,32-63:1"
)
ADMISSION_55 = (
    "serving admission trace: steps=76 decode_only_steps=0 decode_tokens=8064 prompt_tokens=22913"
    " waiting_prompt_slots=267 max_waiting_prompt_slots=35 started_prompt_slots=128 continued_prompt_slots=139"
    " ttft_deferred_decode_slots=660 last_n_batch=2048 last_n_ubatch=512 last_prefill_budget_step=0"
    " last_prefill_cap_per_slot=0 prompt_hist=0:63,1-64:1,257-512:1,513+:11 decode_hist=0:13,128-255:63"
    " waiting_hist=0:63,1-7:1,8-15:3,16-31:8,32-63:1"
)
ACCEPTANCE = "draft acceptance = 0.81481 (44 accepted / 54 generated)"
ACCEPTANCE_62 = (
    "#gen tokens = 9340    #acc tokens = 7372    #mean acc len = 3.33    #acc rate/pos = (0.877, 0.767, 0.691)"
)


def read(*lines: str | bytes, blocks: int = 0) -> Reading:
    """Read lines, each with its end. With `blocks` they are fed in pieces of that many bytes."""
    whole = b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)
    return read_bytes(whole, blocks=blocks)


def read_bytes(log: bytes, *, blocks: int = 0) -> Reading:
    """Return the reading of a log."""
    reader = Reader()
    for start in range(0, len(log), blocks or max(len(log), 1)):
        reader.feed(log[start : start + (blocks or len(log))])
    return reader.reading()


MMID_ROUTES = ("mmvq", "mmvf", "mmq", "mmf", "host_sync", "mmvq_fused", "mmvf_fused")


def power_bucket(value: int) -> str:
    """Return the bucket of ggml-trace.cpp, by a simple and slow method."""
    if value < 2:
        return str(value)
    low = 1
    while low * 2 <= value:
        low *= 2
    return f"{low}-{2 * low - 1}"


@dataclass(slots=True, kw_only=True)
class Process:
    """One process that traces `MUL_MAT_ID`: its records in order, and its summary, None if it was killed."""

    records: list[str] = field(default_factory=list)
    summary: str | None = None

    @property
    def lines(self) -> list[str]:
        return [*self.records, *([self.summary] if self.summary is not None else [])]


def process(chosen: random.Random, *, limit: int | None = None, killed: bool = False) -> Process:
    """Return a process: graphs of some layers for changing numbers of tokens, with their expected routes."""
    layers, types = chosen.randint(1, 6), chosen.sample(["nvfp4", "q4_0", "f16", "40", "2"], 2)
    calls = []
    for _ in range(chosen.randint(1, 12)):
        tokens = chosen.choice((1, 2, 7, 8, 12, 18, 64, 128, 129, 512))
        for layer in range(layers):
            for name in ("gate", "up", "down"):
                route = "mmvq" if tokens <= 8 else "host_sync" if chosen.random() < 0.02 else "mmq"
                kind = types[layer % 2]
                calls.append((route, kind, tokens, layer, name))
    limit = len(calls) if limit is None else limit
    records = [
        f"trace_moe_mmid_route route={route} type={kind} ne2={tokens} ne1=8 ne0=768 ne00=2048 n_expert=128"
        f" src0=blk.{layer}.ffn_{name}_exps.weight src1=ffn_norm-{layer} dst=ffn_moe_{name}-{layer}"
        for route, kind, tokens, layer, name in calls[:limit]
    ]
    routes = Counter(route for route, *_ in calls)
    parts = [f"{route}={routes[route]}" for route in MMID_ROUTES]
    for route in routes:
        widths = Counter(power_bucket(tokens) for taken, _, tokens, *_ in calls if taken == route)
        ordered = sorted(widths, key=lambda bucket: int(bucket.partition("-")[0]))
        parts.append(f"{route}.ne2_hist=" + ",".join(f"{bucket}:{widths[bucket]}" for bucket in ordered))
    head = f"trace_moe_mmid_route_summary lines={len(records)} dropped={max(len(calls) - limit, 0)}"
    return Process(records=records, summary=None if killed else f"{head} {' '.join(parts)}")


_NAMES = {"40": "nvfp4", "2": "q4_0"}


def oracle(lines: list[str]) -> Counter[tuple[str, str, int, str]]:
    """Count calls by route, type, tokens and folded weight: each line is parsed separately, without a cache."""
    counts: Counter[tuple[str, str, int, str]] = Counter()
    for line in lines:
        if not line.startswith("trace_moe_mmid_route "):
            continue
        pairs = dict(word.split("=", 1) for word in line.split()[1:])
        name = pairs["src0"].split(".")
        kind = _NAMES.get(pairs["type"], pairs["type"])
        counts[pairs["route"], kind, int(pairs["ne2"]), ".".join(["blk", "N", *name[2:]])] += 1
    return counts
