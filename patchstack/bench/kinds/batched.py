"""`batched`: measure prefill and decode of several sequences at once with llama-batched-bench.

The figures are total tokens per second.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from patchstack.bench.workload import Figures, Workload, WorkloadKind, workload_models
from patchstack.llama.batched_bench_output import Shape, read_rows, rows_problem
from patchstack.llama.program import sentinel_of
from patchstack.llama.settings import ARGS, ENV, FLASH_ATTENTION, GPU_LAYERS, MODEL, SECONDS, TRIES
from patchstack.observe.declared import Models, Refused, Setting, Values
from patchstack.observe.protocol import Observation
from patchstack.workspace.node import Node

PROGRAM = "llama-batched-bench"
_REFERENCE: Shape = (128, 32, 8)
_DECODES = 16
"""If every shape generates at least this many tokens, the decode rows are the primary rows."""


@dataclass(frozen=True, slots=True)
class Counts:
    """A setting for whole numbers above 0. The value is a YAML list, or a comma-separated string as for
    llama-batched-bench."""

    written: str = "whole numbers, such as 8,32,64"
    option: Any = str

    def read(self, node: Node, name: str, models: Models) -> tuple[int, ...] | None:
        node.used.append(name)
        value = node.node.get(name)
        try:
            return self.convert(",".join(map(str, value)) if isinstance(value, list) else str(value), name, models)
        except Refused as error:
            node.complain(name, str(error))
            return None

    def convert(self, given: str, name: str, models: Models) -> tuple[int, ...]:
        words = [word.strip() for word in given.split(",")]
        if not all(word.isdecimal() and 0 < int(word) <= 1 << 20 for word in words) or len(set(words)) < len(words):
            raise Refused(f"{given[:40]!r} is not a list of different whole numbers above 0, such as 8,32,64")
        return tuple(map(int, words))


PROMPTS = Setting[tuple[int, ...]](
    name="npp", form=Counts(), default=(128,), metavar="N,…", help="Number of prompt tokens per sequence."
)
GENERATED = Setting[tuple[int, ...]](
    name="ntg", form=Counts(), default=(128,), metavar="N,…", help="Number of generated tokens per sequence."
)
PARALLEL = Setting[tuple[int, ...]](
    name="npl", form=Counts(), default=(8, 32, 64, 128), metavar="N,…", help="Number of concurrent sequences."
)


def make(name: str, values: Values) -> Workload:
    """Return the workload that the settings describe."""
    prompts, generated, parallel = values[PROMPTS], values[GENERATED], values[PARALLEL]
    shapes = [*itertools.product(prompts, generated, parallel)]
    model, own, env = values[MODEL], values[ARGS], values[ENV]
    args = (
        *("-m", f"{{model:{model.name}}}", "-ngl", str(values[GPU_LAYERS]), "-fa", values[FLASH_ATTENTION]),
        *own.args,
        *arguments_of(shapes),
    )
    return Workload(
        name=name,
        kind=KIND.name,
        program=PROGRAM,
        args=args,
        env=dict(env),
        models=workload_models([model, *(one for one in own.models if one != model)]),
        sentinel=sentinel_of(PROGRAM),
        seconds=values[SECONDS],
        tries=values[TRIES],
        rows=tuple(row for shape in shapes for row in row_names(shape, shapes)),
        unit="t/s",
        better="higher",
        reading={"shapes": [list(shape) for shape in shapes]},
    )


def arguments_of(shapes: Sequence[Shape]) -> tuple[str, ...]:
    """Return the arguments for these shapes, including the context size that the largest shape needs."""
    prompts, generated, parallel = (sorted({shape[at] for shape in shapes}) for at in range(3))
    context = max(pl * (pp + tg) for pp, tg, pl in shapes)
    return (
        *("-fit", "off", "-c", str(context), "-b", "2048", "-ub", "512"),
        *("-npp", ",".join(map(str, prompts)), "-ntg", ",".join(map(str, generated))),
        *("-npl", ",".join(map(str, parallel)), "--output-format", "jsonl", "-lv", "4", "--perf"),
    )


def row_names(shape: Shape, shapes: Sequence[Shape]) -> tuple[str, str]:
    """Return the names of the two rows of a shape, for example `prefill x32` and `decode x32`.

    If the shapes differ in prompt length or generated tokens, the names include these numbers.
    """
    pp, tg, pl = shape
    which = [str(pp)] if len({one[0] for one in shapes}) > 1 else []
    which += [f"+{tg}"] if len({one[1] for one in shapes}) > 1 else []
    words = "".join(f"{one} " for one in which)
    return f"prefill {words}x{pl}", f"decode {words}x{pl}"


def read(workload: Workload, seen: Observation) -> Figures | str:
    """Return the speed of every row in tokens per second, or the reason why the output cannot be used."""
    rows = read_rows(seen.stdout)
    if isinstance(rows, str):
        return rows
    shapes = [(int(pp), int(tg), int(pl)) for pp, tg, pl in workload.reading["shapes"]]
    if problem := rows_problem(rows, shapes):
        return problem
    figures: dict[str, float] = {}
    for row in rows:
        prefill, decode = row_names(row.shape, shapes)
        figures |= {prefill: row.prefill_speed, decode: row.decode_speed}
    return figures


def reference(workload: Workload) -> Workload:
    """Return the short reference workload with the same model.

    It runs the shape `_REFERENCE`, with each number limited to the largest such number in the workload's shapes.
    """
    largest = [max(int(shape[at]) for shape in workload.reading["shapes"]) for at in range(3)]
    shape = tuple(min(fixed, own) for fixed, own in zip(_REFERENCE, largest, strict=True))
    shapes = [(shape[0], shape[1], shape[2])]
    loading = workload.args[: -len(arguments_of(shapes))]  # all shapes have the same number of arguments
    return Workload(
        name="reference",
        kind=KIND.name,
        program=PROGRAM,
        args=(*loading, *arguments_of(shapes)),
        env={},
        models=workload.models,
        sentinel=workload.sentinel,
        seconds=workload.seconds,
        tries=workload.tries,
        rows=row_names(shapes[0], shapes),
        unit=workload.unit,
        better=workload.better,
        reading={"shapes": [list(shapes[0])]},
    )


def primary(workload: Workload) -> tuple[str, ...]:
    """Return the primary rows: decode, or prefill if a shape generates fewer than 16 tokens."""
    decodes = all(int(shape[1]) >= _DECODES for shape in workload.reading["shapes"])
    return ("decode *",) if decodes else ("prefill *",)


KIND = WorkloadKind(
    name="batched",
    version=1,
    settings=(MODEL, PROMPTS, GENERATED, PARALLEL, GPU_LAYERS, FLASH_ATTENTION, ARGS, ENV, SECONDS, TRIES),
    make=make,
    read=read,
    reference=reference,
    primary=primary,
)
