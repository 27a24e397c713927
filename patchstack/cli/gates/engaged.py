"""`patchstack gate engaged`: does a switch do anything?"""

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


def engaged_command(
    bin: BinOption,  # noqa: A002  (the option's name)
    on: Annotated[list[str], typer.Option("--on", metavar="K=V", help="The switch (repeat).")],
    mark: Annotated[str, typer.Option("--mark", metavar="REGEX", help="A line that the switch leaves.")],
    off: Annotated[
        list[str] | None, typer.Option("--off", metavar="K=V", help="Set instead where it is off (repeat).")
    ] = None,
    at_least: Annotated[int, typer.Option("--at-least", metavar="N", help="How many lines it leaves.")] = 1,
    where: Annotated[
        str, typer.Option("--where", metavar="WHERE", help="stderr, stdout, output (both) or file:NAME.")
    ] = "output",
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
    """See that a switch leaves its mark where it is on, and none where it is off."""
    from patchstack.gates.kinds.engaged import KIND, VERSION, Spec, run, spec_problems
    from patchstack.observe.settings import pattern_problem

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
        mark=mark,
        at_least=at_least,
        where=where,
    )
    usage_problems(
        [
            *([("mark", problem)] if (problem := pattern_problem(mark)) else []),
            *([("at_least", "is less than 1")] if at_least < 1 else []),
            *spec_problems(spec),
        ]
    )
    with stand(bin=bin, kind=KIND, version=VERSION, engine=engine, image=image, again=again) as bench:
        judgement = run(spec, bench)
    raise typer.Exit(int(finish(judgement, kind=KIND, json=json)))
