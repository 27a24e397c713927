"""Define the options for verbosity and colours, which every command accepts before or after its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from typer._types import TyperChoice
from typer.core import TyperOption

from patchstack.cli.failures import complain, without_credentials
from patchstack.report.streams import When, choose

if TYPE_CHECKING:
    from typer._click.core import Context

_VERBOSE = "patchstack.verbose"


def add_manner(command: Any) -> None:
    """Let a command accept the options for verbosity and colours after its name.

    For a group, this includes all of its commands. If the command has an option with the same name, its own option has
    priority. `command` is a Typer command. The help of the command does not list these options, because the help of
    `patchstack` lists them.
    """
    for parameter in command.params:
        if "--json" in parameter.opts and parameter.callback is None:
            parameter.callback = _json
    taken = {name for parameter in command.params for name in parameter.opts}
    command.params += [option for option in _options() if taken.isdisjoint(option.opts)]
    below = getattr(command, "commands", {})
    for one in getattr(below, "own", below).values():  # lazy commands get these options when they are loaded
        add_manner(one)


def name_programs(context: Context) -> None:
    """Print on stderr each program that patchstack starts from now on."""
    from patchstack.process import tell_programs

    root = context.find_root()
    if _VERBOSE not in root.meta:
        root.meta[_VERBOSE] = True
        root.call_on_close(tell_programs(_program))


def _program(args: Sequence[str]) -> None:
    import shlex

    complain(f"run: {without_credentials(shlex.join(args))}")


def _options() -> list[TyperOption]:
    standing: dict[str, Any] = {"expose_value": False, "is_eager": True, "hidden": True}
    color = TyperChoice([when.value for when in When])
    return [
        TyperOption(param_decls=["--color"], type=color, callback=_color, **standing),
        TyperOption(param_decls=["--quiet", "-q"], is_flag=True, callback=_quiet, **standing),
        TyperOption(param_decls=["--verbose", "-v"], is_flag=True, callback=_verbose, **standing),
    ]


def _color(context: Context, _: object, value: str | None) -> None:
    if value is not None and not context.resilient_parsing:
        choose(color=When(value))


def _quiet(context: Context, _: object, value: bool | None) -> None:
    if value and not context.resilient_parsing:
        choose(quiet=True)


def _verbose(context: Context, _: object, value: bool | None) -> None:
    if value and not context.resilient_parsing:
        choose(coded=True)
        name_programs(context)


def _json(context: Context, _: object, value: bool | None) -> bool | None:
    if value and not context.resilient_parsing:
        choose(coded=True)
    return value
