"""`patchstack gate routes`: does a switch change the route that it claims to change?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patchstack.cli.gates.prompts import (
    ArgOption,
    AttentionOption,
    ContextOption,
    LayersOption,
    SecondsOption,
    SeedOption,
    SentinelOption,
    TokensOption,
    TriesOption,
    runs_of,
)
from patchstack.cli.gates.standing import AgainOption, BinOption, ImageOption, JsonOption, finish, stand
from patchstack.cli.gates.variables import EngineOption, EnvOption, usage_problems, variables


def routes_command(
    bin: BinOption,  # noqa: A002  (the option's name)
    on: Annotated[list[str], typer.Option("--on", metavar="K=V", help="The switch (repeat).")],
    expect: Annotated[
        list[str],
        typer.Option("--expect", metavar="TEXT", help="What the traces show where it is on, as in 'trace read'."),
    ],
    expect_off: Annotated[
        list[str] | None,
        typer.Option("--expect-off", metavar="TEXT", help="What they show where it is off [default: otherwise]."),
    ] = None,
    off: Annotated[
        list[str] | None, typer.Option("--off", metavar="K=V", help="Set instead where it is off (repeat).")
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="FILE", help="The model, on the engine's machine.")
    ] = None,
    prompt: Annotated[str | None, typer.Option("--prompt", metavar="TEXT", help="The prompt.")] = None,
    tokens: TokensOption = 16,
    program: Annotated[
        str | None, typer.Option("--program", metavar="NAME", help="Another program, instead of llama-completion.")
    ] = None,
    server: Annotated[bool, typer.Option("--server", help="Ask llama-server, instead of llama-completion.")] = False,
    context: ContextOption = 4096,
    gpu_layers: LayersOption = 99,
    seed: SeedOption = 1,
    flash_attention: AttentionOption = "on",
    arg: ArgOption = None,
    env: EnvOption = None,
    sentinel: SentinelOption = None,
    seconds: SecondsOption = 600,
    tries: TriesOption = 5,
    engine: EngineOption = None,
    image: ImageOption = None,
    again: AgainOption = False,
    json: JsonOption = False,
) -> None:
    """See by counts of the traces that a switch changes the route that it claims to change. The traces themselves are
    switched on for both runs, with --env."""
    from patchstack.gates.kinds.routes import KIND, VERSION, Spec, run, spec_problems
    from patchstack.llama.traces.expectations import read_expectation

    runs, questions = runs_of(
        program,
        model=model,
        prompt=prompt,
        server=server,
        tokens=tokens,
        context=context,
        gpu_layers=gpu_layers,
        seed=seed,
        flash_attention=flash_attention,
        arg=arg,
        env=env,
        sentinel=sentinel,
        seconds=seconds,
        tries=tries,
    )
    spec = Spec(
        program=runs,
        questions=questions,
        on=variables(on, "--on"),
        off=variables(off, "--off"),
        expect=tuple(read_expectation(text) for text in expect),
        expect_off=tuple(read_expectation(text) for text in expect_off or ()),
    )
    usage_problems(spec_problems(spec))
    with stand(bin=bin, kind=KIND, version=VERSION, engine=engine, image=image, again=again) as bench:
        judgement = run(spec, bench)
    raise typer.Exit(int(finish(judgement, kind=KIND, json=json)))
