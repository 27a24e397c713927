"""`patchstack bench difference`: compute a decode rate from runs of two lengths.

Costs that do not depend on the length cancel out.
"""

from __future__ import annotations

import functools
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import BadValue
from patchstack.cli.bench.options import (
    AllowOption,
    EngineOption,
    ImageOption,
    LibrariesOption,
    kept_places,
    opened_where,
    variables,
)
from patchstack.cli.options import nearest_workspace
from patchstack.errors import Exit

if TYPE_CHECKING:
    from patchstack.bench.difference import Difference


def difference_command(
    side: Annotated[
        str | None, typer.Argument(metavar="SIDE", help="A build's key, or a directory of programs.")
    ] = None,
    model: Annotated[Path | None, typer.Option("--model", metavar="FILE", help="The model that the sides run.")] = None,
    command: Annotated[
        str | None,
        typer.Option(
            "--command", metavar="TEXT", help="A command of another engine to time. It must contain {tokens}."
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="SIDE", help="A second side. The ratio of the rates is also printed."),
    ] = None,
    tokens: Annotated[str, typer.Option(metavar="N,N", help="Two numbers of generated tokens.")] = "16,64",
    streams: Annotated[int, typer.Option(metavar="N", min=1, help="The number of concurrent sequences.")] = 32,
    prompt: Annotated[
        int, typer.Option(metavar="N", min=1, help="The number of prompt tokens in each sequence.")
    ] = 128,
    repeats: Annotated[int, typer.Option(metavar="N", min=2, max=100, help="The number of runs for each length.")] = 4,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME=VALUE", help="An environment variable for both sides. Repeatable."),
    ] = None,
    engine: EngineOption = None,
    image: ImageOption = None,
    allow: AllowOption = None,
    library_path: LibrariesOption = None,
) -> None:
    """Measure the decode rate as n(g2 - g1)/(T2 - T1).

    In this difference, the times of prefill and of the start of a run cancel out. The result is INVALID (exit 4) unless
    T2 - T1 is at least five times its noise. The result is not a verdict. For a verdict, use `bench ab`.
    """
    lengths, of_both = _lengths(tokens), variables("--env", env)
    sides = [one for one in (side, against) if one is not None]
    found = []
    if sides:
        place = _Place(engine=engine, image=image, allow=allow, library_path=library_path)
        found += _of_sides(sides, place, _model(model), of_both, prompt, streams, lengths, repeats)
    if command is not None:
        found.append(_of_command(command, of_both, streams, lengths, repeats))
    if not found:
        raise BadValue("there is nothing to measure", hint="name a SIDE, or add --command TEXT")
    if any(one.problem for one in found):
        raise typer.Exit(int(Exit.INVALID))
    if len(found) == 2:
        print(f"ratio: {found[0].rate / found[1].rate:.4f}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The machine for the sides, from the command line."""

    engine: str | None
    image: str | None
    allow: list[str] | None
    library_path: str | None


def _model(model: Path | None) -> Path:
    if model is None:
        raise BadValue("a side needs a model", hint="add --model FILE")
    return model


def _of_sides(
    sides: list[str],
    place: _Place,
    model: Path,
    env: dict[str, str],
    prompt: int,
    streams: int,
    lengths: tuple[int, int],
    repeats: int,
) -> list[Difference]:
    """Measure the sides, one after the other, and print the results."""
    from patchstack.workflow.difference import measure_difference

    comparisons, observations = kept_places()
    with opened_where(
        place.engine,
        nearest_workspace(None),
        comparisons,
        observations,
        allow=place.allow,
        image=place.image,
        library_path=place.library_path,
    ) as where:
        measure = functools.partial(
            measure_difference,
            where=where,
            model=model,
            env=env,
            prompt=prompt,
            streams=streams,
            tokens=lengths,
            repeats=repeats,
        )
        return [_told(one, measure(one)) for one in sides]


def _of_command(text: str, env: dict[str, str], streams: int, lengths: tuple[int, int], repeats: int) -> Difference:
    """Measure the command of another engine, and print the result."""
    from patchstack.workflow.difference import measure_command

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadValue(f"--command {text} cannot be parsed: {error}") from error
    if not words:
        raise BadValue("--command is empty", hint="give a command line that contains {tokens}")
    found = measure_command(words, env=env, streams=streams, tokens=lengths, repeats=repeats)
    return _told(words[0], found)


def _lengths(text: str) -> tuple[int, int]:
    """Parse two token counts, as in `16,64`. Raises `UsageError` unless both are positive."""
    words = text.split(",")
    if len(words) != 2 or not all(word.strip().isdecimal() and int(word) > 0 for word in words):
        raise BadValue(f"--tokens {text} is not a pair of positive whole numbers, as in 16,64")
    return int(words[0]), int(words[1])


def _told(side: str, measured: Difference) -> Difference:
    """Print the measurement of a side, and return it."""
    verdict = f"INVALID: {measured.problem}" if measured.problem else f"{measured.rate:.2f} t/s"
    print(f"{side}: {verdict} (T2 - T1 {measured.seconds:.3f} s, noise {measured.noise:.3f} s)")
    return measured
