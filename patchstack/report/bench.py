"""Print comparisons, or convert them to Markdown."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

from patchstack.bench.plan import Plan
from patchstack.report.documents.bench import BenchDocument, BenchMachineDocument, BenchRow, BenchSide
from patchstack.report.streams import paint_words
from patchstack.report.table import Give, Table, print_table
from patchstack.report.text import code, counted, printable, table
from patchstack.stats.noise import noise_of

TITLES = ("row", "A", "B", "B/A", "interval", "shows")
"""The titles of the columns that `row_cells` returns."""
_OPEN = "?"


def print_comparison(document: BenchDocument) -> None:
    """Print a comparison: its sides and method, the table, the discarded pairs, and the outcome."""
    print(printable("\n".join(about_lines(document))))
    print()
    rows = [row_cells(row) for row in document.rows]
    print_table(Table(titles=TITLES, rows=rows, styles={}, gives={"shows": Give.FOLD}))
    print()
    for line in outcome_lines(document):
        print(paint_words(printable(line), sys.stdout))


def about_lines(document: BenchDocument) -> Iterator[str]:
    """Yield lines that describe the two sides and the method."""
    kind = "noise of" if document.noise else "comparison"
    yield f"{kind} {document.comparison}: {document.workload} on {document.machine}"
    yield f"  A  {side_words(document.a)}"
    yield f"  B  {side_words(document.b)}"
    runs = f"{document.counted} of at most {counted(document.most, 'pair')}"
    thrown = f", {document.thrown} thrown away" if document.thrown else ""
    yield f"  {runs} counted{thrown}; each statement is wrong with a probability of at most {100 * document.alpha:g}%"


def side_words(side: BenchSide) -> str:
    """Return the label of a side, and its environment variables, in one line."""
    return " ".join([side.label, *(f"{name}={value}" for name, value in side.env.items())])


def row_cells(row: BenchRow) -> list[str]:
    """Return the cells of one table row, in the order of `TITLES`."""
    name = row.name if row.primary else f"{row.name} (guard)"
    return [
        name,
        _figure(row.a, row.unit),
        _figure(row.b, row.unit),
        _percent(row.estimate),
        _interval(row),
        _shows(row),
    ]


def outcome_lines(document: BenchDocument) -> Iterator[str]:
    """Yield the discarded pairs and the outcome of a comparison.

    For an undecided comparison, the lines also estimate how many pairs are needed. If there is a demand, the last line
    states whether it is met. If the comparison measures noise, the lines show the noise instead of an outcome.
    """
    for pair in document.pairs:
        if pair.thrown:
            yield f"pair {pair.number} was thrown away: {pair.thrown}"
    if document.noise:
        yield from noise_lines(document)
        return
    if document.unplanned:
        yield f"not planned: {document.unplanned}"
    yield f"{document.outcome}: {document.reason}"
    if document.outcome == "undecided":
        for row in document.rows:
            if row.needed is not None:
                yield f"  {row.name}: about {row.needed} pairs in all, if later pairs are like these"
    if document.demand is not None:
        yield f"the demand {document.demand} is {'met' if document.demand_met else 'not met'}"


def noise_lines(document: BenchDocument) -> Iterator[str]:
    """Yield lines that describe the machine's noise, measured by comparing a side with itself."""
    pairs = [pair for pair in document.pairs if not pair.thrown]
    coins = [1 if pair.second == "B" else -1 for pair in pairs]
    for row in document.rows if pairs else ():
        noise = noise_of([math.log(pair.ratios[row.name]) for pair in pairs], coins)
        alike = "unknown" if noise.autocorrelation is None else f"{noise.autocorrelation:+.2f}"
        second = f"{100 * math.expm1(noise.second):+.1f}%"
        words = f"a pair deviates by {100 * noise.deviation:.1f}%; running second does {second}"
        yield f"{row.name}: {words}; likeness to the pair before {alike}"
    if document.outcome == "INVALID":
        yield f"INVALID: {document.reason}"


def markdown(document: BenchDocument) -> str:
    """Return the comparison as Markdown, for a comment or a step summary."""
    rows = [[code(cell) for cell in row_cells(row)] for row in document.rows]
    lines = [f"### {code(f'{document.outcome}: {document.workload}')}", ""]
    lines += [code(document.reason), "", *table(TITLES, rows), ""]
    lines += [f"- {code(line.strip())}" for line in about_lines(document)]
    lines += [f"- {code(line.strip())}" for line in outcome_lines(document)]
    return "\n".join(lines) + "\n"


def plan_lines(plan: Plan, expected: str) -> Iterator[str]:
    """Yield the lines that describe a plan before it runs."""
    yield f"comparison {plan.comparison}, on {plan.machine}"
    yield f"  A          {_plan_side(plan.a.label, plan.a.env)}"
    yield f"  B          {_plan_side(plan.b.label, plan.b.env)}"
    yield f"  workload   {plan.workload.program} {' '.join(plan.workload.args)}"
    if plan.reference is not None and plan.reference_workload is not None:
        yield f"  reference  {plan.reference.label}: {' '.join(plan.reference_workload.args)}"
        within = f"{100 * plan.reference_within:g}%"
        yield f"             a pair whose reference runs differ by more than {within} is thrown away"
    else:
        yield "  reference  none: the machine is not watched between runs, and no pair is thrown away"
    for row in plan.rows:
        part = f"primary, a gain above {100 * row.margin:g}%" if row.primary else "guard"
        yield f"  row        {row.name}: {part}, no loss above {100 * row.guard_margin:g}%"
    yield f"  judged     at most {plan.most} pairs, alpha {plan.alpha:g}, coins of seed {plan.seed}"
    yield f"  demand     {plan.demand or 'none'}"
    yield f"  time       {expected}"


def print_machine(document: BenchMachineDocument) -> None:
    """Print the recorded speeds of machines.

    A table comes first. Then a line for each entry states whether the machine became slower, and since when.
    """
    rows = []
    for entry in document.entries:
        speeds = [run.speed for run in entry.runs]
        clocks = [run.clock for run in entry.runs if run.clock is not None]
        clock = f"{min(clocks):g} to {max(clocks):g} MHz" if clocks else "unknown"
        rows.append(
            [
                entry.machine,
                entry.what,
                str(len(speeds)),
                f"{entry.runs[0].at[:16]} to {entry.runs[-1].at[:16]}",
                f"{min(speeds):.4g} to {max(speeds):.4g}",
                clock,
            ]
        )
    titles = ("machine", "reference", "runs", "from", "speed", "clock")
    print_table(Table(titles=titles, rows=rows, styles={}, gives={"machine": Give.FOLD}))
    print()
    for entry in document.entries:
        if entry.drop is None:
            print(f"{entry.what}: not slower than before")
        else:
            drop = entry.drop
            loss = 100 * (1 - drop.after / drop.before)
            run = f"pair {drop.pair} of comparison {drop.comparison}"
            medians = f"{drop.before:.4g} before, {drop.after:.4g} after"
            print(f"{entry.what}: {loss:.1f}% slower since {drop.since} ({run}): {medians}")


def pair_line(document: BenchDocument, most: int) -> str:
    """Return the line for the pair that has just finished."""
    pair = document.pairs[-1]
    ratios = ", ".join(f"{name} {100 * (ratio - 1):+.1f}%" for name, ratio in pair.ratios.items())
    thrown = f"  thrown away: {pair.thrown}" if pair.thrown else ""
    return f"pair {pair.number:2} of at most {most}, {pair.second} second: {ratios}{thrown}"


def _plan_side(label: str, env: dict[str, str]) -> str:
    return " ".join([label, *(f"{name}={value}" for name, value in env.items())])


def _figure(value: float | None, unit: str) -> str:
    return _OPEN if value is None else f"{value:.1f} {unit}".strip() if value >= 10 else f"{value:.4g} {unit}".strip()


def _percent(fraction: float | None) -> str:
    return _OPEN if fraction is None else f"{round(100 * fraction, 1) + 0.0:+.1f}%"


def _interval(row: BenchRow) -> str:
    return f"{_percent(row.low)} to {_percent(row.high)}"


def _shows(row: BenchRow) -> str:
    words = {
        "faster": f"faster than +{100 * row.margin:g}%",
        "slower": f"slower than -{100 * (row.margin if row.primary else row.guard_margin):g}%",
        "below": f"below +{100 * row.margin:g}%",
        "not worse": f"not worse than -{100 * row.guard_margin:g}%",
    }
    return ", ".join(words[one] for one in row.shown) or "nothing yet"
