"""`patchstack cost machines`: list the machines that patchstack includes."""

from __future__ import annotations

from patchstack.cli.cost.options import JsonOption


def machines_command(json: JsonOption = False) -> None:
    """List the machines that patchstack includes, with the source and date of every value."""
    from patchstack.cost.machine import find_machine, shipped_machines
    from patchstack.report.cost.document import machine_part
    from patchstack.report.cost.tables import machines_table
    from patchstack.report.documents.cost import CostDocument
    from patchstack.report.table import print_table

    found = {name: machine_part(find_machine(name)) for name in shipped_machines()}
    if json:
        for machine in found.values():
            print(CostDocument(machine=machine).line)
    else:
        print_table(machines_table(found))
