"""`patchstack bench machine`: show the history of the machines on which this user measured."""

from __future__ import annotations

from typing import Annotated

import typer

from patchstack.causes import NoComparison
from patchstack.files.places import cache_places


def machine_command(
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.bench-machine/1 document.")] = False,
) -> None:
    """List the reference runs of all comparisons by machine.

    If a machine has become slower, also shows since when. Runs nothing.
    """
    from patchstack.bench.history import by_workload, history, slower_since
    from patchstack.report.bench import print_machine
    from patchstack.report.documents.bench import machine_document

    file = cache_places().machine_history
    runs = by_workload(history(file))
    if not runs:
        raise NoComparison(f"there is no history in {file}", hint="run patchstack bench ab, which writes it")
    drops = {key: drop for key, several in runs.items() if (drop := slower_since(several)) is not None}
    document = machine_document(runs, drops)
    if json:
        print(document.line)
    else:
        print_machine(document)
