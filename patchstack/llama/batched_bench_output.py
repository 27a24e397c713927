"""The rows of `llama-batched-bench --output-format jsonl`.

The tool runs every combination of `-npp`, `-ntg` and `-npl`. It leaves out a combination that does not fit the context
without a word, and may lose its last lines at exit (see `program`). So compare the rows with those that were asked for.
Source: `tools/batched-bench/batched-bench.cpp` of llama.cpp.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

Shape = tuple[int, int, int]
"""Prompt tokens and generated tokens of each sequence, and the number of sequences at once: `pp`, `tg`, `pl`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One combination. `shape` names it; times are in seconds, speeds in tokens per second over all sequences."""

    shape: Shape
    prefill_seconds: float
    prefill_speed: float
    decode_seconds: float
    decode_speed: float
    seconds: float
    speed: float


def read_rows(stdout: bytes) -> tuple[Row, ...] | str:
    """Return the rows in the order of the output, or why they cannot be read. Lines that are no JSON object are passed
    over: the tool prints others beside them."""
    rows = []
    for number, line in enumerate(stdout.decode("utf-8", "replace").splitlines(), 1):
        if not line.startswith("{"):
            continue
        try:
            found = json.loads(line)
            times = {
                name: float(found[key])
                for name, key in (
                    ("prefill_seconds", "t_pp"),
                    ("prefill_speed", "speed_pp"),
                    ("decode_seconds", "t_tg"),
                    ("decode_speed", "speed_tg"),
                    ("seconds", "t"),
                    ("speed", "speed"),
                )
            }
            row = Row(shape=(int(found["pp"]), int(found["tg"]), int(found["pl"])), **times)
        except (ValueError, KeyError, TypeError) as error:
            return f"line {number} is not a row: {error}"
        if bad := [name for name, value in times.items() if not math.isfinite(value) or value <= 0]:
            return f"line {number} has no figure for {', '.join(bad)}"
        rows.append(row)
    return tuple(rows)


def rows_problem(rows: Sequence[Row], wanted: Sequence[Shape]) -> str | None:
    """Return why rows are not the wanted ones, each once; None if they are."""
    counts = Counter(row.shape for row in rows)
    if twice := [shape for shape, count in counts.items() if count > 1]:
        return f"{_named(twice[0])} is there {counts[twice[0]]} times"
    if missing := [shape for shape in wanted if shape not in counts]:
        return f"{len(missing)} of {len(wanted)} rows are missing, the first is {_named(missing[0])}"
    if more := [shape for shape in counts if shape not in wanted]:
        return f"{_named(more[0])} was not asked for"
    return None


def _named(shape: Shape) -> str:
    return "the row pp={}, tg={}, pl={}".format(*shape)
