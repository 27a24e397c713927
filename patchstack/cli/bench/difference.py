"""`patchstack bench difference`: a decode rate without what both lengths of a run share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
from patchstack.errors import Exit, UsageError


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
    from patchstack.bench.difference import Difference
    from patchstack.workflow.difference import measure_difference

    words = tokens.split(",")
    if len(words) != 2 or not all(word.strip().isdecimal() and int(word) > 0 for word in words):
        raise UsageError(f"--tokens {tokens}: two whole numbers above 0, as in 16,64")
    both = (int(words[0]), int(words[1]))
    comparisons, observations = kept_places()
    found: list[Difference] = []
    with opened_where(
        engine,
        nearest_workspace(None),
        comparisons,
        observations,
        allow=allow,
        image=image,
        library_path=library_path,
    ) as where:
        for one in filter(None, (side, against)):
            measured = measure_difference(
                one,
                where,
                model=model,
                env=variables("--env", env),
                prompt=prompt,
                streams=streams,
                tokens=both,
                repeats=repeats,
            )
            verdict = f"INVALID: {measured.problem}" if measured.problem else f"{measured.rate:.2f} t/s"
            print(f"{one}: {verdict} (T2 - T1 {measured.seconds:.3f} s, noise {measured.noise:.3f} s)")
            found.append(measured)
    if any(one.problem for one in found):
        raise typer.Exit(int(Exit.INVALID))
    if len(found) == 2:
        print(f"ratio: {found[0].rate / found[1].rate:.4f}")
