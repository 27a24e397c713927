"""Tables of logs keep every name, number and verdict whole, at every width of the terminal."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from patchstack.llama.traces.expectations import read_expectation
from patchstack.report.table import Table, print_fitted
from patchstack.report.trace import (
    about_table,
    answer_table,
    contradiction_lines,
    fact_table,
    finding_table,
    log_lines,
    pair_table,
    route_table,
    scaled,
)
from patchstack.report.trace_plots import plot_specs
from patchstack.trace.compare import compare
from patchstack.trace.figures import by_route, by_shape, by_tensor, has_routes
from patchstack.trace.traced import Traced, read_traced
from tests.support.checkout import ROOT
from tests.support.trace_logs import ADMISSION_54

DATA = ROOT / "tests" / "data" / "traces"


def traced(tmp_path: Path, *names: str, more: str = "", expect: str = "trace=mul_mat_route route=mmq >= 1") -> Traced:
    path = tmp_path / "run.log"
    path.write_bytes(
        b"".join(gzip.decompress((DATA / f"{name}.log.gz").read_bytes()) for name in names) + more.encode()
    )
    return read_traced([str(path)], io.BytesIO(), expectations=[read_expectation(expect)])


def tables(one: Traced) -> list[Table]:
    routed = [trace for trace in one.reading.traces if has_routes(trace)]
    return [
        route_table(one, [row for trace in routed for row in by_route(trace)]),
        *(about_table(one, by_shape(trace), "shape") for trace in routed),
        *(about_table(one, rows, "tensors") for trace in routed if (rows := by_tensor(trace))),
        fact_table(one),
        finding_table(one.findings),
        answer_table(one),
    ]


def shown(table: Table, width: int) -> str:
    out = io.StringIO()
    print_fitted(table, Console(file=out, width=width, highlight=False, color_system=None))
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_names_numbers_and_verdicts_are_whole_at_every_width(width: int, tmp_path: Path) -> None:
    one = traced(tmp_path, "cuda-server-all", more=f"{ADMISSION_54}\n")
    pairs = compare(one.reading, one.reading)
    for table in (*tables(one), pair_table(pairs.routes, "trace"), pair_table(pairs.shapes, "shape")):
        text = shown(table, width)
        assert "…" not in text
        words = set(re.split(r"\s+", text))
        for row in table.rows:
            for cell in row:
                # A word that is longer than the terminal is broken, and no letter is lost.
                assert all(word in words for word in cell.split() if len(word) <= width - 14), cell
        assert max(map(len, text.splitlines())) <= width


def test_a_contradiction_is_told_with_both_sides(tmp_path: Path) -> None:
    one = traced(tmp_path, "cuda-moe-all", more=f"{ADMISSION_54}\n")
    assert list(contradiction_lines(one)) == [
        "warning: contradiction: serving admission trace: decode_only_steps against the histograms:"
        " decode_only_steps 0, but the histograms say at least 60 and at most 63 of 76"
    ]


def test_the_lines_above_the_tables_say_what_is_missing(tmp_path: Path) -> None:
    one = traced(tmp_path, "cuda-moe-bounded-40", more="trace_serving step=1 decode")
    lines = list(log_lines(one))
    assert "  the last line is incomplete and is not counted (a record of serving)" in lines
    (shape,) = [line for line in lines if line.startswith("  moe_mmq_shape: ")]
    assert shape == (
        "  moe_mmq_shape: 40 records, 1 summary, 323 more dropped by the limit, 4 whole graphs of 9 calls,"
        " 4 calls of a graph that was cut are left out"
    )


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "-"), (0, "0"), (999, "999"), (1000, "1 k"), (12_345, "12.3 k"), (999_600, "1,000 k"), (10**12, "1 T")],
)
def test_numbers_have_three_digits(number: int | None, text: str) -> None:
    assert scaled(number) == text


def test_plots_are_of_what_the_log_has(tmp_path: Path) -> None:
    specs = {name: spec for name, _, spec in plot_specs(traced(tmp_path, "cuda-server-all"))}
    assert set(specs) == {
        "shapes-layout",
        "shapes-mul_mat_route",
        "shapes-moe_mmid_route",
        "shapes-cublas_route",
        "shapes-moe_mmq_shape",
        "steps-serving",
        "graphs-reused",
    }
    bars = specs["shapes-moe_mmid_route"]["layer"][0]["data"]["values"]  # type: ignore[index]  # a Vega-Lite spec
    told = specs["shapes-moe_mmid_route"]["title"]["subtitle"][0]  # type: ignore[index]  # a Vega-Lite spec
    assert (sum(bar["calls"] for bar in bars), told) == (570, "8 other shapes have 33 calls")
    steps = specs["steps-serving"]["data"]["values"]  # type: ignore[index]  # a Vega-Lite spec
    assert sum(one["tokens"] for one in steps if one["what"] == "prompt tokens") == 531
