"""Options of the commands of `patchstack cost`, and the output of a document."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from patchstack.cost.machine import Machine
    from patchstack.report.documents.cost import CostDocument

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A GGUF file, or the first of its shards.")]
ServerArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- SERVER COMMAND...]", help="llama-server's command line; only its options are read."),
]
MachineOption = Annotated[
    str | None,
    typer.Option("--machine", metavar="NAME", help="A machine that patchstack knows, or the path of a YAML file."),
]
BandwidthOption = Annotated[
    str | None, typer.Option("--bandwidth", metavar="FIGURE", help="Bandwidth of memory with its unit: '273 GB/s'.")
]
MemoryOption = Annotated[
    str | None, typer.Option("--memory", metavar="FIGURE", help="Memory of the device with its unit: '96 GiB'.")
]
ImatrixOption = Annotated[
    Path | None,
    typer.Option("--imatrix", metavar="FILE", help="Counts of experts that llama-imatrix wrote, as GGUF."),
]
BuildOption = Annotated[
    Path | None,
    typer.Option("--build", metavar="BIN", help="Ask llama-fit-params of a build for compute buffers."),
]
StreamsOption = Annotated[
    str, typer.Option("--streams", metavar="LIST", help="Sequences at once: 1,8,32 or 1..128 (powers of two).")
]
ContextsOption = Annotated[
    str, typer.Option("--contexts", metavar="LIST", help="Tokens that each has before the step: 0,4096 or 1024..32768.")
]
VaryOption = Annotated[
    str | None,
    typer.Option("--vary", metavar="RANGE", help="INPUT=LOW..HIGH: bandwidth=200..300 (GB/s), context=1024..32768."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print a patchstack.cost/1 document.")]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write a page with plots. Needs patchstack[plots].")
]


def chosen_machine(machine: str | None, bandwidth: str | None = None, memory: str | None = None) -> Machine:
    """Return the machine that the options name. Figures from the command line override the machine's own figures."""
    from patchstack.cost.machine import Machine, find_machine, parse_figure

    found = find_machine(machine) if machine is not None else Machine(name="given on the command line")
    if bandwidth is not None:
        found = replace(found, bandwidth=parse_figure(bandwidth, "bandwidth"))
    if memory is not None:
        found = replace(found, memory=parse_figure(memory, "memory"))
    return found


def show(document: CostDocument, *, json: bool, html: Path | None = None) -> None:
    """Print a document as JSON or as tables, and write its HTML page."""
    if html is not None:
        from patchstack.report.cost.plots import write_page

        write_page(document, html)
    if json:
        print(document.line)
        return
    from patchstack.report.cost.tables import print_document

    print_document(document)
