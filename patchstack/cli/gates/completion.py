"""`patchstack gate completion`: does a build still write the same transcript?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.cli.gates.standing import (
    AgainOption,
    BinOption,
    ImageOption,
    JsonOption,
    ModelOption,
    a_model,
    finish,
    stand,
)
from patchstack.cli.gates.variables import EngineOption, EnvOption, usage_problems, variables

if TYPE_CHECKING:
    from patchstack.gates.completion import Spec

PromptOption = Annotated[str, typer.Option("--prompt", metavar="TEXT", help="The prompt.")]
TokensOption = Annotated[int, typer.Option("--tokens", metavar="N", help="How many tokens are written.")]
ContextOption = Annotated[int, typer.Option("--context", metavar="N", help="The context's size, in tokens.")]
LayersOption = Annotated[int, typer.Option("--gpu-layers", metavar="N", help="How many layers are on a GPU.")]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", help="The sampler's seed.")]
ArgOption = Annotated[
    list[str] | None, typer.Option("--arg", metavar="TEXT", help="One more argument for the program (repeat).")
]
SecondsOption = Annotated[int, typer.Option("--seconds", metavar="N", help="How long one run may take.")]
TriesOption = Annotated[
    int, typer.Option("--tries", metavar="N", help="How often a run that cannot be judged is tried.")
]
SentinelOption = Annotated[
    str | None, typer.Option("--sentinel", metavar="REGEX", help="The line that shows that no output was lost.")
]
AttentionOption = Annotated[str, typer.Option("--flash-attention", metavar="on|off|auto", help="What -fa gets.")]


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
    from patchstack.gates.completion import KIND, VERSION, Spec, State, run
    from patchstack.gates.prompting import Prompting
    from patchstack.gates.sentinel import GRAPHS_REUSED

    prompting = Prompting(
        model=a_model(model),
        prompt=prompt,
        tokens=tokens,
        context=context,
        gpu_layers=gpu_layers,
        seed=seed,
        flash_attention=flash_attention,
        args=tuple(arg or ()),
        env=variables(env),
        sentinel=sentinel or GRAPHS_REUSED,
        seconds=seconds,
        tries=tries,
    )
    reference = expect.lower() if expect is not None else None
    states: tuple[State, ...] = (State(expect=reference),)
    if switch:
        on = variables(switch, "--switch")
        states = (State(name="off", expect=reference), State(name="on", env=on, same_as="off"))
    spec = Spec(prompting=prompting, states=states, runs=runs, parallel=parallel)
    _refuse(spec)
    with stand(bin=bin, kind=KIND, version=VERSION, engine=engine, image=image, again=again) as bench:
        judgement = run(spec, bench)
    raise typer.Exit(int(finish(judgement, kind=KIND, json=json)))


def _refuse(spec: Spec) -> None:
    """Raise `UsageError` for settings that cannot be used."""
    from patchstack.gates.completion import spec_problems
    from patchstack.gates.prompting import prompting_problems

    usage_problems([*prompting_problems(spec.prompting), *spec_problems(spec)])
    usage_problems(
        [
            (name, f"{value} is less than 1")
            for name, value in (
                ("runs", spec.runs),
                ("tries", spec.prompting.tries),
                ("seconds", spec.prompting.seconds),
            )
            if value < 1
        ]
    )
