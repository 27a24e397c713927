"""Define the options of the `patchstack cost` commands, and print their documents."""

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
    typer.Argument(
        metavar="[-- SERVER COMMAND...]", help="The command line of llama-server. Only its options are read."
    ),
]
MachineOption = Annotated[
    str | None,
    typer.Option("--machine", metavar="NAME", help="A machine that patchstack includes, or the path of a YAML file."),
]
BandwidthOption = Annotated[
    str | None, typer.Option("--bandwidth", metavar="FIGURE", help="The memory bandwidth with its unit: '273 GB/s'.")
]
MemoryOption = Annotated[
    str | None, typer.Option("--memory", metavar="FIGURE", help="The memory of the device with its unit: '96 GiB'.")
]
ImatrixOption = Annotated[
    Path | None,
    typer.Option("--imatrix", metavar="FILE", help="A GGUF file of llama-imatrix with the counts of experts."),
]
BuildOption = Annotated[
    Path | None,
    typer.Option(
        "--build", metavar="BIN", help="Get the sizes of compute buffers from llama-fit-params in this directory."
    ),
]
StreamsOption = Annotated[
    str,
    typer.Option(
        "--streams", metavar="LIST", help="The numbers of concurrent sequences: 1,8,32 or 1..128 (powers of two)."
    ),
]
ContextsOption = Annotated[
    str,
    typer.Option(
        "--contexts",
        metavar="LIST",
        help="The numbers of tokens in each sequence before the step: 0,4096 or 1024..32768.",
    ),
]
VaryOption = Annotated[
    str | None,
    typer.Option(
        "--vary", metavar="RANGE", help="A range for an input: bandwidth=200..300 (GB/s), context=1024..32768."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print a patchstack.cost/1 document.")]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write a page with plots. Needs patchstack[plots].")
]


def chosen_machine(machine: str | None, bandwidth: str | None = None, memory: str | None = None) -> Machine:
    """Return the machine that the options name. Values from the command line override the machine's own values."""
    from patchstack.cost.machine import Machine, find_machine, parse_figure

    found = find_machine(machine) if machine is not None else Machine(name="given on the command line")
    if bandwidth is not None:
        found = replace(found, bandwidth=parse_figure(bandwidth, "bandwidth"))
    if memory is not None:
        found = replace(found, memory=parse_figure(memory, "memory"))
    return found


def show(document: CostDocument, *, json: bool, html: Path | None = None) -> None:
    """Print a document as JSON or as tables. If `html` is given, also write the HTML page to this file."""
    if html is not None:
        from patchstack.report.cost.plots import write_page

        write_page(document, html)
    if json:
        print(document.line)
        return
    from patchstack.report.cost.tables import print_document

    print_document(document)
