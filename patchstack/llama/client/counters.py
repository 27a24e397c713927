"""Read the counters of llama-server and vLLM from `/metrics` (Prometheus text format)."""

from __future__ import annotations

import math
import re

_LINE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(\{.*\})? +(\S+)(?: +-?\d+)?")
LLAMA, VLLM = "llama-server", "vllm"
_NAMES = {
    LLAMA: {
        "prompt": "llamacpp:prompt_tokens_total",
        "generated": "llamacpp:tokens_predicted_total",
        "busy": "llamacpp:requests_processing",
        "waiting": "llamacpp:requests_deferred",
    },
    VLLM: {
        "prompt": "vllm:prompt_tokens_total",
        "generated": "vllm:generation_tokens_total",
        "busy": "vllm:num_requests_running",
        "waiting": "vllm:num_requests_waiting",
        "preemptions": "vllm:num_preemptions_total",
        "drafted": "vllm:spec_decode_num_draft_tokens_total",
        "accepted": "vllm:spec_decode_num_accepted_tokens_total",
        "cached": "vllm:prefix_cache_hits_total",
    },
}


def read_counters(text: str) -> tuple[str, dict[str, float]]:
    """Return the kind of server and its counters.

    The kind is empty if the server is unknown. Each counter is the sum over all its labels. `prompt` and `generated`
    are token counts. `busy` and `waiting` are request counts.
    """
    sums: dict[str, float] = {}
    for line in text.splitlines():
        found = _LINE.fullmatch(line.strip())
        if found is None:
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        if math.isfinite(value):
            sums[found[1]] = sums.get(found[1], 0.0) + value
    for server, names in _NAMES.items():
        if names["prompt"] in sums and names["generated"] in sums:
            return server, {own: sums[name] for own, name in names.items() if name in sums}
    return "", {}


def grown(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Return the increase of each counter. The gauges `busy` and `waiting` are omitted."""
    return {name: after[name] - before[name] for name in before if name in after and name not in ("busy", "waiting")}
