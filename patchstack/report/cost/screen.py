"""A cost document on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from patchstack.report.cost import tables
from patchstack.report.documents.cost import CostDocument, CostMachine
from patchstack.report.table import Give, Table, print_table
from patchstack.report.text import counted, printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A table with its title, and lines after it."""

    title: str
    table: Table
    lines: tuple[str, ...] = ()


def print_document(document: CostDocument) -> None:
    """Print every section that a document has."""
    for line in about_lines(document):
        print(printable(line))
    for section in sections_of(document):
        print(f"\n{section.title}\n")
        print_table(section.table)
        for line in section.lines:
            print(printable(line))
    if document.assumptions:
        print("\ntaken for granted\n")
        for line in document.assumptions:
            print(printable(f"- {line}"))


def about_lines(document: CostDocument) -> Iterator[str]:
    """The model, the machine, and options that were not understood."""
    if document.model is not None:
        yield from tables.model_lines(document.model)
    yield from tables.machine_lines(document.machine)
    if document.options is not None and document.options.unknown:
        yield f"unknown  {', '.join(document.options.unknown)}"


def sections_of(document: CostDocument) -> Iterator[Section]:
    """The sections that a document has."""
    if (weights := document.weights) is not None:
        yield Section(title="weights", table=tables.weights_table(weights), lines=tuple(tables.weights_lines(weights)))
    if (memory := document.memory) is not None:
        yield Section(title="memory", table=tables.memory_table(memory), lines=tuple(tables.memory_lines(memory)))
    if document.decode is not None:
        yield Section(title="decode", table=tables.decode_table(document.decode), lines=tuple(_outweighing(document)))
    if document.prefill is not None:
        yield Section(
            title="prefill", table=tables.prefill_table(document.prefill), lines=tuple(_unknown_peaks(document))
        )
    if document.elasticities is not None:
        yield Section(title="elasticity of a step's time", table=tables.sensitivity_table(document))
        yield Section(title="range", table=tables.variation_table(document))
    if document.state is not None:
        yield Section(title="recurrent state", table=tables.state_table(document.state))
    if document.compared is not None:
        yield Section(title="measured over floor", table=tables.compared_table(document.compared))
    if (prefix := document.prefix) is not None:
        yield Section(title="steps", table=tables.prefix_table(prefix), lines=tuple(tables.prefix_lines(prefix)))
        if prefix.ways:
            yield Section(title="other ways", table=tables.ways_table(prefix))


def machines_table(machines: Mapping[str, CostMachine]) -> Table:
    """A row a figure."""
    rows = [
        [name, one.name, one.text, one.origin, f"{one.source}, {one.date}"]
        for name, machine in machines.items()
        for one in machine.figures
    ]
    titles = ("machine", "figure", "value", "origin", "source")
    return Table(titles=titles, rows=rows, styles={}, gives={"source": Give.FOLD})


def _outweighing(document: CostDocument) -> Iterable[str]:
    for one in document.outweigh or ():
        if one.streams is not None:
            many = counted(one.streams, "stream")
            yield f"at {one.context_tokens:,} tokens, KV and state outweigh the weights from {many} on"


def _unknown_peaks(document: CostDocument) -> Iterable[str]:
    lacking = sorted({name for one in document.prefill or () for name in one.unknown_peaks})
    if lacking:
        yield f"the floor is unknown: nobody gave the machine's peak for {', '.join(lacking)}"
