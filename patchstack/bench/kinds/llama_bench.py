"""`llama-bench`: run the tests of llama-bench. The figure of a test is the mean speed of its repetitions."""

from __future__ import annotations

import json
from collections import Counter
from statistics import fmean

from patchstack.bench.kinds.batched import Counts
from patchstack.bench.workload import Figures, Workload, WorkloadKind, workload_models
from patchstack.llama.settings import ARGS, ENV, GPU_LAYERS, MODEL, SECONDS, TRIES
from patchstack.observe.declared import Setting, Values, Whole
from patchstack.observe.protocol import Observation

PROGRAM = "llama-bench"
_CLOSE = 1e-4
PROMPTS = Setting[tuple[int, ...]](
    name="prompt_tokens", form=Counts(), default=(512,), metavar="N,…", help="Prompt lengths, in tokens (-p)."
)
GENERATED = Setting[tuple[int, ...]](
    name="generated_tokens", form=Counts(), default=(128,), metavar="N,…", help="Numbers of generated tokens (-n)."
)
REPETITIONS = Setting[int](
    name="repetitions", form=Whole(1, 100), default=1, metavar="N", help="Repetitions in one process (-r)."
)


def make(name: str, values: Values) -> Workload:
    """Return the workload that the settings describe."""
    model, own, env = values[MODEL], values[ARGS], values[ENV]
    prompts, generated = values[PROMPTS], values[GENERATED]
    return Workload(
        name=name,
        kind=KIND.name,
        program=PROGRAM,
        args=(
            *("-m", f"{{model:{model.name}}}", "-ngl", str(values[GPU_LAYERS]), "-r", str(values[REPETITIONS])),
            *("-p", ",".join(map(str, prompts)), "-n", ",".join(map(str, generated)), "-o", "jsonl", *own.args),
        ),
        env=dict(env),
        models=workload_models([model, *(one for one in own.models if one != model)]),
        sentinel=None,
        seconds=values[SECONDS],
        tries=values[TRIES],
        rows=(*(f"pp{count}" for count in prompts), *(f"tg{count}" for count in generated)),
        unit="t/s",
        better="higher",
        reading={"repetitions": values[REPETITIONS]},
    )


def read(workload: Workload, seen: Observation) -> Figures | str:
    """Return the mean speed of each test in tokens per second, or the reason why the output cannot be used. The mean
    must match the samples in the same line."""
    found: dict[str, float] = {}
    counts: Counter[str] = Counter()
    for number, line in enumerate(seen.stdout.decode("utf-8", "replace").splitlines(), 1):
        if not line.startswith("{"):
            continue
        try:
            row = json.loads(line)
            prompt, generated, speed = int(row["n_prompt"]), int(row["n_gen"]), float(row["avg_ts"])
            samples = [(prompt + generated) * 1e9 / float(one) for one in row["samples_ns"]]
            if len(samples) != int(workload.reading["repetitions"]):
                return f"line {number} has {len(samples)} samples instead of {workload.reading['repetitions']}"
            if not abs(fmean(samples) / speed - 1) < _CLOSE:
                told = f"avg_ts is {speed:g}, but the mean of its samples is {fmean(samples):g}"
                return f"line {number} contradicts itself: {told}"
        except (ValueError, KeyError, TypeError, ZeroDivisionError, OverflowError) as error:
            return f"line {number} is not a row: {error}"
        name = f"pp{prompt}" if not generated else f"tg{generated}" if not prompt else f"pp{prompt}+tg{generated}"
        found[name] = speed
        counts[name] += 1
    if twice := [name for name, count in counts.items() if count > 1]:
        return f"the row {twice[0]} was found {counts[twice[0]]} times"
    if missing := [name for name in workload.rows if name not in found]:
        return f"{len(missing)} of {len(workload.rows)} rows are missing, the first is {missing[0]}"
    if more := [name for name in found if name not in workload.rows]:
        return f"the row {more[0]} was not requested"
    return found


KIND = WorkloadKind(
    name="llama-bench",
    version=1,
    settings=(MODEL, PROMPTS, GENERATED, REPETITIONS, GPU_LAYERS, ARGS, ENV, SECONDS, TRIES),
    make=make,
    read=read,
    primary=lambda workload: ("tg*",),
)
