"""`patchstack doctor`: check that everything for verify and build is installed."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from patchstack.cli.failures import talk
from patchstack.cli.options import EngineOption, nearest_workspace
from patchstack.errors import PatchstackError
from patchstack.files.places import cache_places


def doctor_command(
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.doctor/1 document.")] = False,
    engine: EngineOption = None,
) -> None:
    """Check the requirements of verify and build, and print how to get missing ones.

    The requirements are git, engines, Python packages, compilers, nvcc, a GPU and disk space. Writes nothing. Exits
    with 0 if verify can run and an engine can build, otherwise with 3.
    """
    from patchstack.engine.choose import open_engine
    from patchstack.machine.local.doctor import checkup_of
    from patchstack.machine.local.facts import gather
    from patchstack.report.doctor import advice_lines, doctor_table
    from patchstack.report.documents.doctor import doctor_document
    from patchstack.report.table import print_table
    from patchstack.report.text import printable

    cache = cache_places()
    named = engine or os.environ.get("PATCHSTACK_ENGINE") or _configured()
    facts = gather(
        (named,) if named else ("docker", "host"),
        os.environ,
        cache=cache.root,
        open_engine=lambda spec: open_engine(spec, root=cache.engine),
    )
    checkup = checkup_of(facts)
    if json:
        print(doctor_document(checkup).line)
    else:
        print_table(doctor_table(checkup))
        print()
        print(printable("\n".join(advice_lines(checkup))))
    raise typer.Exit(int(checkup.exit_code))


def _configured() -> str | None:
    """Return the engine of the nearest workspace.

    Return None if the workspace cannot be read, because doctor must also check the machine in this case.
    """
    try:
        workspace = nearest_workspace(None)
    except PatchstackError as error:
        talk(f"warning: {error.message}")
        return None
    return workspace.engine if workspace is not None else None
