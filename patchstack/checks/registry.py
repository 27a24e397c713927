"""List the kinds of checks. A kind is imported when it is first used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchstack.checks.kind import Kind


def _present() -> Kind[Any]:
    from patchstack.checks.kinds import present

    return present.KIND


def _absent() -> Kind[Any]:
    from patchstack.checks.kinds import absent

    return absent.KIND


def _sites() -> Kind[Any]:
    from patchstack.checks.kinds import sites

    return sites.KIND


def _command() -> Kind[Any]:
    from patchstack.checks.kinds import command

    return command.KIND


KINDS: dict[str, Callable[[], Kind[Any]]] = {
    "present": _present,
    "absent": _absent,
    "sites": _sites,
    "command": _command,
}
"""The function that imports each kind, by the name of the kind."""


def kind_of(name: str) -> Kind[Any]:
    """Import a kind and return it. Raises `KeyError` if `KINDS` does not contain the name."""
    return KINDS[name]()
