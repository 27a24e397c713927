"""Import commands on first use, so that each call imports only the command that it runs."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer._click.exceptions import NoArgsIsHelpError, UsageError
from typer.core import TyperGroup
from typer.main import get_command

from patchstack.cli.failures import complain
from patchstack.cli.manner import add_manner
from patchstack.errors import Exit

if TYPE_CHECKING:
    from typer._click.core import Context
    from typer._click.shell_completion import CompletionItem

STYLE: dict[str, Any] = {
    "rich_markup_mode": None,
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
"""The arguments that all our Typer apps have in common."""


@dataclass(frozen=True, slots=True)
class Lazy:
    """The location and the help text of a command, so that `--help` does not import the command.

    `target` is `module:attribute`, which names a function or a Typer app. It can also be a function that returns the
    command's function. `heading` is the section of the command in the help.
    """

    target: str | Callable[[], Callable[..., None]]
    short_help: str
    heading: str = "Commands"


class _OnDemand(Mapping[str, Any]):
    """The commands of a group: its own commands, then the lazy commands.

    A lazy command is imported when it is looked up.
    """

    def __init__(self, own: Mapping[str, Any], lazy: Mapping[str, Lazy]) -> None:
        self.own, self.lazy = own, lazy

    def __getitem__(self, name: str) -> Any:
        return self.own[name] if name in self.own else _load(name, self.lazy[name])

    def __iter__(self) -> Iterator[str]:
        return iter([*self.own, *self.lazy])

    def __len__(self) -> int:
        return len(self.own) + len(self.lazy)


def group_of(lazy: Mapping[str, Lazy]) -> type[TyperGroup]:
    """Return a group class with these lazy commands.

    The lazy commands follow the group's own commands, in the given order.
    """

    class LazyGroup(TyperGroup):
        def __init__(self, *, commands: Any = None, **others: Any) -> None:
            super().__init__(**others)
            self.commands: Any = _OnDemand(commands or {}, lazy)

        def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
            """Complete the names of commands without importing them."""
            from typer._click.shell_completion import CompletionItem

            helps = {name: one.short_help for name, one in lazy.items()}
            helps |= {name: one.get_short_help_str() for name, one in self.commands.own.items()}
            names = [CompletionItem(name, help=helps[name]) for name in self.commands if name.startswith(incomplete)]
            return [*names, *super(TyperGroup, self).shell_complete(ctx, incomplete)]

        def main(self, *args: Any, **others: Any) -> Any:
            """Run the command line. Usage errors are printed in the same form as other errors."""
            if any(name.endswith("_COMPLETE") for name in os.environ):
                from typer._completion_classes import completion_init

                completion_init()  # registers Typer's own completion script for each shell
            try:
                code = super().main(*args, **{**others, "standalone_mode": False})
            except UsageError as error:
                complain(_usage(error))
                sys.exit(error.exit_code)
            except typer.Abort:
                complain("error: the question was not answered")
                sys.exit(Exit.USAGE)
            sys.exit(code if isinstance(code, int) else 0)

        def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]  # typer's types are private
            own = [(name, command.get_short_help_str()) for name, command in self.commands.own.items()]
            sections = {"Commands": own} if own else {}
            for name, command in lazy.items():
                sections.setdefault(command.heading, []).append((name, command.short_help))
            widest = max(map(len, self.commands))
            for heading, entries in sections.items():
                with formatter.section(heading):
                    formatter.write_dl([(name.ljust(widest), text) for name, text in entries])

    return LazyGroup


def _usage(error: UsageError) -> str:
    if isinstance(error, NoArgsIsHelpError):
        return error.format_message()
    message, _, guess = error.format_message().partition(" Did you mean ")
    message, _, guesses = message.partition(" (Possible options: ")
    message = message[:1].lower() + message[1:].removesuffix(".")
    hints = [f"did you mean {guess}"] if guess else []
    hints += [f"did you mean one of {guesses.removesuffix(')')}?"] if guesses else []
    if error.ctx is not None:
        hints.append(f"see '{error.ctx.command_path} --help'")
    return f"error: {message}" + ("\n\nhint: " + " ".join(hints) if hints else "")


@functools.cache
def _load(name: str, command: Lazy) -> Any:
    if isinstance(command.target, str):
        module, _, attribute = command.target.partition(":")
        found = getattr(import_module(module), attribute)
    else:
        found = command.target()
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(**STYLE)
        alone.command(name)(found)
        found = alone
    loaded = get_command(found)
    loaded.name, loaded.short_help = name, command.short_help
    add_manner(loaded)
    return loaded
