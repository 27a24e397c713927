"""Options of gate commands that set a program's surroundings, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.errors import UsageError

if TYPE_CHECKING:
    from patchstack.observe.settings import Environment

EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="K=V", help="A variable for the program, which gets no others (repeat)."),
]
EngineOption = Annotated[
    str | None,
    typer.Option("--engine", metavar="ENGINE", help="Where it runs: host, docker, ssh://USER@HOST [default: host]."),
]


def variables(given: Sequence[str] | None, option: str = "--env") -> Environment:
    """`K=V`s as an environment. Raises `UsageError` with all that are none."""
    from patchstack.observe.settings import variable_problem

    pairs = [text.partition("=") for text in given or ()]
    problems = [f"{option} {name}: written as NAME=VALUE" for name, equals, _ in pairs if not equals]
    problems += [problem for name, equals, _ in pairs if equals and (problem := variable_problem(name))]
    if problems:
        raise UsageError(f"{option} cannot be used", problems=problems)
    return tuple(sorted({name: value for name, _, value in pairs}.items()))


_OTHERWISE = {"args": "--arg", "states": "--switch"}


def as_option(setting: str) -> str:
    """A setting as it is written on the command line."""
    return _OTHERWISE.get(setting, f"--{setting.replace('_', '-')}")


def usage_problems(problems: Sequence[tuple[str, str]]) -> None:
    """Raise `UsageError` with what is wrong with settings, each named as its option; nothing where nothing is."""
    if problems:
        told = [f"{as_option(key)}: {text}" for key, text in problems]
        raise UsageError("the gate cannot be run so", problems=told)
