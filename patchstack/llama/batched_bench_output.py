"""Parse the rows of `llama-batched-bench --output-format jsonl`.

The tool runs every combination of `-npp`, `-ntg` and `-npl`. It silently skips a combination that does not fit into the
context, and it may lose its last lines at exit (see `program`). Therefore, compare the rows with the requested rows.

Source: `tools/batched-bench/batched-bench.cpp` of llama.cpp.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

Shape = tuple[int, int, int]
"""Prompt tokens per sequence (`pp`), generated tokens per sequence (`tg`), and parallel sequences (`pl`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The results of one combination.

    `shape` identifies the combination. Times are in seconds. Speeds are in tokens per second, over all sequences.
    """

    shape: Shape
    prefill_seconds: float
    prefill_speed: float
    decode_seconds: float
    decode_speed: float
    seconds: float
    speed: float


def read_rows(stdout: bytes) -> tuple[Row, ...] | str:
    """Return the rows in the order of the output, or the reason why they cannot be read.

    Lines that are not a JSON object are ignored, because the tool also prints other lines.
    """
    rows = []
    for number, line in enumerate(stdout.decode("utf-8", "replace").splitlines(), 1):
        if not line.startswith("{"):
            continue
        try:
            found = json.loads(line)
            printed = json.loads(line, parse_float=Decimal, parse_int=Decimal)
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
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            return f"line {number} is not a row: {error}"
        if bad := [name for name, value in times.items() if not math.isfinite(value) or value <= 0]:
            return f"line {number} has no figure for {', '.join(bad)}"
        if complaint := identity_problem(printed):
            return f"line {number} contradicts itself: {complaint}"
        rows.append(row)
    return tuple(rows)


def identity_problem(row: Mapping[str, Decimal]) -> str | None:
    """Return the contradiction between the figures of a row. Return None if the figures agree.

    `row` contains the tool's figures (`pp`, `tg`, `pl`, `n_kv`, `t_pp`, `speed_pp`, `t_tg`, `speed_tg`), with the
    digits as printed. These identities must hold within the rounding: `n_kv` = `pl`·(`pp` + `tg`), `speed_pp` =
    `pp`·`pl`/`t_pp` and `speed_tg` = `tg`·`pl`/`t_tg`.
    """
    try:
        pp, tg, pl, n_kv = (int(row[name]) for name in ("pp", "tg", "pl", "n_kv"))
        if n_kv != pl * (pp + tg):
            return f"N_KV is {n_kv}, not {pl * (pp + tg)} = {pl} * ({pp} + {tg})"
        for tokens, time, speed in ((pp, "t_pp", "speed_pp"), (tg, "t_tg", "speed_tg")):
            if not _possible(tokens * pl, row[time], row[speed]):
                return f"{speed} is {row[speed]}, but {tokens} * {pl} tokens took {row[time]} s"
    except (KeyError, ValueError, TypeError, InvalidOperation) as error:
        return f"a figure is missing or not a number: {error!r}"
    return None


def _possible(tokens: int, seconds: Decimal, speed: Decimal) -> bool:
    """Return whether the printed speed is possible for the printed time, within the rounding of both."""
    (shortest, longest), (slowest, fastest) = _rounded(seconds), _rounded(speed)
    if longest <= 0 or tokens / longest > fastest:
        return False
    return shortest <= 0 or tokens / shortest >= slowest


def _rounded(value: Decimal) -> tuple[Decimal, Decimal]:
    """Return the smallest and the largest value that round to the printed digits."""
    exponent = value.as_tuple().exponent
    half = Decimal(5).scaleb(exponent - 1) if isinstance(exponent, int) else Decimal(0)
    return value - half, value + half


def rows_problem(rows: Sequence[Row], wanted: Sequence[Shape]) -> str | None:
    """Return the difference between the rows and the wanted rows.

    Return None if each wanted row occurs exactly once and no other row occurs.
    """
    counts = Counter(row.shape for row in rows)
    if twice := [shape for shape, count in counts.items() if count > 1]:
        return f"{_named(twice[0])} occurs {counts[twice[0]]} times"
    if missing := [shape for shape in wanted if shape not in counts]:
        return f"{len(missing)} of {len(wanted)} rows are missing, the first is {_named(missing[0])}"
    if more := [shape for shape in counts if shape not in wanted]:
        return f"{_named(more[0])} was not requested"
    return None


def _named(shape: Shape) -> str:
    return "the row pp={}, tg={}, pl={}".format(*shape)
