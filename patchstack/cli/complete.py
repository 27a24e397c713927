"""Complete values in the shell from the nearest workspace and its ledger.

A shell runs this code at each press of the tab key. So the code reads few files, and prints nothing if an error occurs.
The shell also evaluates the output, so the output contains only harmless characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

_HARMLESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*\Z")

Found = list[tuple[str, str]]
"""Values for the shell, each with a short description."""


def complete_series(ctx: typer.Context, incomplete: str) -> Found:
    """Return the names of the workspace's series that are not yet on the command line."""
    with suppress(Exception):
        given = _named(ctx)
        return _fitting(((name, "") for name in _section(ctx, "series") if name not in given), incomplete)
    return []


def complete_number(ctx: typer.Context, incomplete: str) -> Found:
    """Return the patch numbers of the named series, or of all series if none is named."""
    with suppress(Exception):
        return _fitting(_numbers(ctx), incomplete)
    return []


def complete_series_or_number(ctx: typer.Context, incomplete: str) -> Found:
    """Return series names and patch numbers."""
    return [*complete_series(ctx, incomplete), *complete_number(ctx, incomplete)]


def complete_variant(ctx: typer.Context, incomplete: str) -> Found:
    """Return the names of the variants that the workspace declares or patchstack includes."""
    found: Found = []
    with suppress(Exception):
        from patchstack.builds.inputs.variant import builders_directory
        from patchstack.workspace import read_yaml

        shipped = read_yaml(builders_directory() / "variants.yaml")["variants"]
        found += _fitting(((name, "") for name in shipped), incomplete)
    with suppress(Exception):
        known = {name for name, _ in found}
        found += _fitting(((name, "") for name in _section(ctx, "variants") if name not in known), incomplete)
    return found


def complete_suite(ctx: typer.Context, incomplete: str) -> Found:
    """Return the names of the workspace's suites."""
    with suppress(Exception):
        return _fitting(((name, "") for name in _section(ctx, "suites")), incomplete)
    return []


def complete_gate(ctx: typer.Context, incomplete: str) -> Found:
    """Return the names of the gates of the named suite, or of all suites if none is named."""
    with suppress(Exception):
        suites = _section(ctx, "suites")
        chosen = ctx.params.get("suite")
        names = {
            str(gate["name"]): str(gate.get("kind", ""))
            for name, suite in suites.items()
            if chosen in (None, name)
            for gate in suite["gates"]
        }
        return _fitting(names.items(), incomplete)
    return []


def complete_decision(ctx: typer.Context, incomplete: str) -> Found:
    """Return the abbreviated ids of the decisions in the ledger."""
    with suppress(Exception):
        ledger = _workspace(ctx).parent / "ledger"
        # The same number of digits as in the output of `patchstack ledger`.
        return _fitting(((path.stem[:12], "") for path in sorted(ledger.glob("*.json"))), incomplete)
    return []


def _workspace(ctx: typer.Context) -> Path:
    from patchstack.workspace import find_workspace

    found = ctx.params.get("workspace") or find_workspace(Path.cwd())
    if found is None:
        raise FileNotFoundError
    return Path(found)


def _section(ctx: typer.Context, name: str) -> dict[str, Any]:
    from patchstack.workspace import read_yaml

    return dict(read_yaml(_workspace(ctx), comments=False)[name])


def _named(ctx: typer.Context) -> set[str]:
    """Return the words on the command line that name series.

    These words are in `args` if the command line ends in an option without its value.
    """
    named = ctx.params.get("series") or ctx.params.get("what") or ctx.args
    return {named} if isinstance(named, str) else set(named)


def _numbers(ctx: typer.Context) -> Iterator[tuple[str, str]]:
    from patchstack.series.files.names import number_of, slug_of
    from patchstack.series.files.order import patch_names

    known = _section(ctx, "series")
    names = _named(ctx) & known.keys()
    seen = set()
    for name, series in known.items():
        if names and name not in names:
            continue
        for file in patch_names(_workspace(ctx).parent / series["patches"]):
            number = number_of(file)
            if number is not None and number not in seen:
                seen.add(number)
                yield str(number), slug_of(file)


def _fitting(values: Iterable[tuple[str, str]], incomplete: str) -> Found:
    return [
        (value, word if _HARMLESS.match(word) else "")
        for value, word in values
        if value.startswith(incomplete) and _HARMLESS.match(value)
    ]
