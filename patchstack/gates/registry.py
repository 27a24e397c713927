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


@_entry("completion", "Compare a greedy transcript, byte for byte.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import completion

    return completion.KIND


@_entry("tokens", "Compare the token ids of llama-server.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import tokens

    return tokens.KIND


@_entry("backend-ops", "Compare operators with the CPU, and find missing cases.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import backend_ops

    return backend_ops.KIND


@_entry("kl", "Measure the KL divergence from a base.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import kl

    return kl.KIND


@_entry("drift", "Measure the KL divergence at growing contexts.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import drift

    return drift.KIND


@_entry("rollback", "Check that a rollback leaves no trace in the output.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import rollback

    return rollback.KIND


@_entry("engaged", "Check that a switch leaves its mark when on, and none when off.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import engaged

    return engaged.KIND


@_entry("routes", "Check that a switch changes the route that it claims to change.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import routes

    return routes.KIND


@_entry("red-green", "Check that a test fails without its code, and passes with it.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import red_green

    return red_green.KIND


@_entry("command", "Run any program, and check its output.")
def _() -> Kind[Any]:
    from patchstack.gates.kinds import command

    return command.KIND
