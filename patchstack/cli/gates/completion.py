"""`patchstack gate completion`: does a build still write the same transcript?"""

from __future__ import annotations

from typing import Annotated

import typer

from patchstack.cli.gates.prompts import (
    ArgOption,
    AttentionOption,
    ContextOption,
    LayersOption,
    PromptOption,
    SecondsOption,
    SeedOption,
    SentinelOption,
    TokensOption,
    TriesOption,
    prompting_of,
)
from patchstack.cli.gates.standing import AgainOption, BinOption, ImageOption, JsonOption, ModelOption, finish, stand
from patchstack.cli.gates.variables import EngineOption, EnvOption, usage_problems, variables


def completion_command(
    bin: BinOption,  # noqa: A002  (the option's name)
    model: ModelOption,
    prompt: PromptOption,
    tokens: TokensOption = 48,
    env: EnvOption = None,
    expect: Annotated[
        str | None, typer.Option("--expect", metavar="MD5", help="The transcript's digest: MD5 or SHA-256.")
    ] = None,
    switch: Annotated[
        list[str] | None,
        typer.Option("--switch", metavar="K=V", help="Also run with this, and want the same transcript (repeat)."),
    ] = None,
    parallel: Annotated[
        int, typer.Option("--parallel", metavar="N", help="Hold N requests at once against one alone.")
    ] = 0,
    runs: Annotated[int, typer.Option("--runs", metavar="N", help="Run it N times: all must give the same.")] = 1,
    context: ContextOption = 4096,
    gpu_layers: LayersOption = 99,
    seed: SeedOption = 1,
    flash_attention: AttentionOption = "on",
    arg: ArgOption = None,
    sentinel: SentinelOption = None,
    seconds: SecondsOption = 600,
    tries: TriesOption = 5,
    engine: EngineOption = None,
    image: ImageOption = None,
    again: AgainOption = False,
    json: JsonOption = False,
) -> None:
    """Hold a greedy transcript of llama-completion against its reference's digest."""
    from patchstack.gates.kinds.completion import KIND, VERSION, Spec, State, run, spec_problems

    prompting = prompting_of(
        model,
        prompt,
        tokens=tokens,
        context=context,
        gpu_layers=gpu_layers,
        seed=seed,
        flash_attention=flash_attention,
        arg=arg,
        env=env,
        seconds=seconds,
        tries=tries,
        sentinel=sentinel,
    )
    reference = expect.lower() if expect is not None else None
    states: tuple[State, ...] = (State(expect=reference),)
    if switch:
        on = variables(switch, "--switch")
        states = (State(name="off", expect=reference), State(name="on", env=on, same_as="off"))
    spec = Spec(prompting=prompting, states=states, runs=runs, parallel=parallel)
    few = [("runs", f"{runs} is less than 1")] if runs < 1 else []
    usage_problems([*spec_problems(spec), *few])
    with stand(bin=bin, kind=KIND, version=VERSION, engine=engine, image=image, again=again) as bench:
        judgement = run(spec, bench)
    raise typer.Exit(int(finish(judgement, kind=KIND, json=json)))
