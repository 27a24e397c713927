"""`patchstack gate KIND`: run a single gate. The command is generated from the settings of the gate kind."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patchstack.cli.options import nearest_workspace
from patchstack.cli.proving import connected
from patchstack.errors import Exit

if TYPE_CHECKING:
    from patchstack.gates.judgement import Judgement
    from patchstack.gates.kind import Kind
    from patchstack.gates.registry import Entry
    from patchstack.observe.declared import Setting

BinOption = Annotated[
    Path, typer.Option("--bin", metavar="DIR", help="The directory of the programs, such as bin of a build.")
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine", metavar="ENGINE", help="Where the gate runs: host, docker, ssh://USER@HOST [default: host]."
    ),
]
ImageOption = Annotated[
    str | None, typer.Option("--image", metavar="NAME", help="The image for containers that run the programs.")
]
AgainOption = Annotated[bool, typer.Option("--again", help="Repeat all observations, even if they are stored.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print a patchstack.gate/1 document.")]


def kind_command(entry: Entry) -> Callable[..., None]:
    """Import a gate kind, and return its command as a function for Typer."""
    kind = entry.load()

    def command(**options: Any) -> None:
        _run(kind, options)

    parameters = [_parameter("bin", BinOption)]
    parameters += [_option(setting) for setting in kind.settings if setting.on_command_line]
    parameters += [_parameter("engine", EngineOption, None), _parameter("image", ImageOption, None)]
    parameters += [_parameter("again", AgainOption, False), _parameter("json", JsonOption, False)]
    command.__doc__ = kind.about
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what inspect reads
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _run(kind: Kind[Any], options: Mapping[str, Any]) -> None:
    """Read the settings, run the gate, and print its judgement. Exit with the exit code of the judgement."""
    from patchstack.observe.declared import values_of_options
    from patchstack.workflow.gates import run_alone

    values, refuse = values_of_options(kind.settings, options)
    settings = kind.make(values)
    refuse()
    with connected(options["engine"] or "host", nearest_workspace(None)) as connection:
        judgement = run_alone(
            kind, settings, connection, options["bin"], image=options["image"], again=options["again"]
        )
    raise typer.Exit(int(_finish(judgement, kind, json=options["json"])))


def _option(setting: Setting[Any]) -> inspect.Parameter:
    """Convert a setting to an option for Typer."""
    info = typer.Option(setting.option_name, metavar=setting.metavar, help=setting.help)
    if setting.must_be_given:
        return _parameter(setting.name, Annotated[setting.form.option, info])
    if setting.form.option is bool:
        return _parameter(setting.name, Annotated[bool, info], False)
    if (default := setting.shown_default) is not None:
        return _parameter(setting.name, Annotated[setting.form.option, info], default)
    return _parameter(setting.name, Annotated[setting.form.option | None, info], None)


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _finish(judgement: Judgement, kind: Kind[Any], *, json: bool) -> Exit:
    """Print a judgement, and return its exit code."""
    from patchstack.report.gate import gate_lines, print_judgement_table
    from patchstack.verdict import exit_code

    if json:
        from patchstack.report.documents.gates import gate_document

        print(gate_document(kind.name, judgement).line)
    else:
        if kind.table is not None:
            print_judgement_table(kind.table(judgement))
        for line in gate_lines(kind.name, judgement):
            print(line)
    return exit_code([judgement.verdict])
