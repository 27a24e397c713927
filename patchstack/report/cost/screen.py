"""A cost document on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from patchstack.report.cost import tables
from patchstack.report.documents.cost import CostDocument, CostMachine
from patchstack.report.table import Give, Table, print_table
from patchstack.report.text import counted, printable


def print_document(document: CostDocument) -> None:
    """Print every section that a document has."""
    if document.model is not None:
        _lines(tables.model_lines(document.model))
    _lines(tables.machine_lines(document.machine))
    if document.options is not None and document.options.unknown:
        _lines([f"unknown  {', '.join(document.options.unknown)}"])
    if document.weights is not None:
        _section("weights", tables.weights_table(document.weights), tables.weights_lines(document.weights))
    if document.memory is not None:
        _section("memory", tables.memory_table(document.memory), tables.memory_lines(document.memory))
    if document.decode is not None:
        _section("decode", tables.decode_table(document.decode), _outweighing(document))
    if document.prefill is not None:
        _section("prefill", tables.prefill_table(document.prefill), _unknown_peaks(document))
    if document.elasticities is not None:
        _section("elasticities", tables.sensitivity_table(document))
        _section("range", tables.variation_table(document))
    if document.state is not None:
        _section("recurrent state", tables.state_table(document.state))
    if document.compared is not None:
        _section("measured over floor", tables.compared_table(document.compared))
    if document.prefix is not None:
        _section("steps", tables.prefix_table(document.prefix), tables.prefix_lines(document.prefix))
        if document.prefix.ways:
            _section("other ways", tables.ways_table(document.prefix))
    if document.assumptions:
        print()
        _lines(f"taken for granted: {one}" for one in document.assumptions)


def machines_table(machines: Mapping[str, CostMachine]) -> Table:
    """A row a figure."""
    rows = [
        [name, one.name, one.text, one.origin, f"{one.source}, {one.date}"]
        for name, machine in machines.items()
        for one in machine.figures
    ]
    titles = ("machine", "figure", "value", "origin", "source")
    return Table(titles=titles, rows=rows, styles={}, gives={"source": Give.FOLD})


def _section(title: str, table: Table, after: Iterable[str] = ()) -> None:
    print(f"\n{title}\n")
    print_table(table)
    _lines(after)


def _lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(printable(line))


def _outweighing(document: CostDocument) -> Iterable[str]:
    for one in document.outweigh or ():
        if one.streams is not None:
            yield f"at {one.context_tokens:,} tokens, KV and state outweigh the weights from {counted(one.streams, 'stream')} on"


def _unknown_peaks(document: CostDocument) -> Iterable[str]:
    lacking = sorted({name for one in document.prefill or () for name in one.unknown_peaks})
    if lacking:
        yield f"the floor is unknown: nobody gave the machine's peak for {', '.join(lacking)}"
