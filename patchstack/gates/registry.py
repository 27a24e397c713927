"""List the gate kinds in the order of the help.

A kind is imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchstack.gates.kind import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The entry of a kind: its name, its help in one sentence, and the function that imports the kind."""

    name: str
    summary: str
    load: Callable[[], Kind[Any]]


KINDS: dict[str, Entry] = {}
"""The entries of all kinds, by name."""


def kind_of(name: str) -> Kind[Any]:
    """Import a kind. Raises `KeyError` if the name is not in `KINDS`."""
    return KINDS[name].load()


def _entry(name: str, summary: str) -> Callable[[Callable[[], Kind[Any]]], None]:
    def add(load: Callable[[], Kind[Any]]) -> None:
        assert name not in KINDS, f"two kinds are named {name}"
        KINDS[name] = Entry(name=name, summary=summary, load=load)

    return add


@_entry("completion", "The same greedy transcript, byte for byte.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import completion

    return completion.KIND


@_entry("tokens", "The same token ids, through llama-server.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import tokens

    return tokens.KIND


@_entry("backend-ops", "All operators, compared with the CPU, and none lost.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import backend_ops

    return backend_ops.KIND


@_entry("kl", "KL divergence against a base.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import kl

    return kl.KIND


@_entry("drift", "KL divergence over growing contexts.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import drift

    return drift.KIND


@_entry("rollback", "State that is rolled back leaves no trace in the output.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import rollback

    return rollback.KIND


@_entry("engaged", "A switch leaves its mark when on, and none when off.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import engaged

    return engaged.KIND


@_entry("routes", "A switch changes the route that it claims to change.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import routes

    return routes.KIND


@_entry("red-green", "A test fails without its code, and passes with it.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import red_green

    return red_green.KIND


@_entry("command", "Any program, with the output that it must print.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import command

    return command.KIND
