"""`patchstack bench difference`: a decode rate without what both lengths of a run share."""

from __future__ import annotations

import functools
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
    side: Annotated[str, typer.Argument(metavar="SIDE", help="A build's key, or a directory of programs.")],
    model: Annotated[Path, typer.Option("--model", metavar="FILE", help="The model.")],
    against: Annotated[
        str | None, typer.Option("--against", metavar="SIDE", help="Another side: also print the ratio.")
    ] = None,
    tokens: Annotated[str, typer.Option(metavar="N,N", help="Two numbers of generated tokens.")] = "16,64",
    streams: Annotated[int, typer.Option(metavar="N", min=1, help="How many sequences at once.")] = 32,
    prompt: Annotated[int, typer.Option(metavar="N", min=1, help="Prompt tokens of each sequence.")] = 128,
    repeats: Annotated[int, typer.Option(metavar="N", min=2, max=100, help="Runs of each length.")] = 4,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="A variable of both sides. Repeatable.")
    ] = None,
    engine: EngineOption = None,
    image: ImageOption = None,
    allow: AllowOption = None,
    library_path: LibrariesOption = None,
) -> None:
    """Measure decoding as n(g2 - g1)/(T2 - T1): prefill and the start of a run cancel. INVALID (exit 4) unless T2 - T1
    is five times its noise. Two figures of one sitting are no verdict: `bench ab` gives one."""
    from patchstack.workflow.difference import measure_difference

    comparisons, observations = kept_places()
    lengths, variables_of_both = _lengths(tokens), variables("--env", env)
    with opened_where(
        engine, nearest_workspace(None), comparisons, observations, allow=allow, image=image, library_path=library_path
    ) as where:
        measure = functools.partial(
            measure_difference,
            where=where,
            model=model,
            env=variables_of_both,
            prompt=prompt,
            streams=streams,
            tokens=lengths,
            repeats=repeats,
        )
        found = [_told(one, measure(one)) for one in (side, against) if one is not None]
    if any(one.problem for one in found):
        raise typer.Exit(int(Exit.INVALID))
    if len(found) == 2:
        print(f"ratio: {found[0].rate / found[1].rate:.4f}")


def _lengths(text: str) -> tuple[int, int]:
    """Two numbers of tokens. Raises `UsageError`."""
    words = text.split(",")
    if len(words) != 2 or not all(word.strip().isdecimal() and int(word) > 0 for word in words):
        raise BadValue(f"--tokens {text}: two whole numbers above 0, as in 16,64")
    return int(words[0]), int(words[1])


def _told(side: str, measured: Difference) -> Difference:
    """Print what was measured of a side, and return it."""
    verdict = f"INVALID: {measured.problem}" if measured.problem else f"{measured.rate:.2f} t/s"
    print(f"{side}: {verdict} (T2 - T1 {measured.seconds:.3f} s, noise {measured.noise:.3f} s)")
    return measured
