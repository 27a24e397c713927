"""Commands that are imported when they are asked for: a command line waits for its own command alone."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

STYLE: dict[str, Any] = {
    "rich_markup_mode": None,
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
"""What every Typer app of ours is made with."""


@dataclass(frozen=True, slots=True)
class Lazy:
    """Where a command is and what the help says of it, so that neither needs the command itself.

    `target` is `module:attribute` of a function or a Typer app; `heading` is the section of the help it stands under.
    """

    target: str
    short_help: str
    heading: str = "Commands"


class _OnDemand(Mapping[str, Any]):
    """A group's own commands, and behind them those that are imported when they are looked up."""

    def __init__(self, own: Mapping[str, Any], lazy: Mapping[str, Lazy]) -> None:
        self.own, self.lazy = own, lazy

    def __getitem__(self, name: str) -> Any:
        return self.own[name] if name in self.own else _load(name, self.lazy[name])

    def __iter__(self) -> Iterator[str]:
        return iter([*self.own, *self.lazy])

    def __len__(self) -> int:
        return len(self.own) + len(self.lazy)


def group_of(lazy: Mapping[str, Lazy]) -> type[TyperGroup]:
    """A class of groups that have these commands behind their own, in this order."""

    class LazyGroup(TyperGroup):
        def __init__(self, *, commands: Any = None, **others: Any) -> None:
            super().__init__(**others)
            self.commands: Any = _OnDemand(commands or {}, lazy)

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


@functools.cache
def _load(name: str, command: Lazy) -> Any:
    module, _, attribute = command.target.partition(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(**STYLE)
        alone.command(name)(found)
        found = alone
    loaded = get_command(found)
    loaded.name, loaded.short_help = name, command.short_help
    return loaded
