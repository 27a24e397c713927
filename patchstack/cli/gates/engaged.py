"""`patchstack gate engaged`: does a switch do anything?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.cli.gates.completion import ArgOption, SecondsOption, SentinelOption, TokensOption, TriesOption
from patchstack.cli.gates.standing import AgainOption, BinOption, ImageOption, JsonOption, a_model, finish, stand
from patchstack.cli.gates.variables import EngineOption, EnvOption, usage_problems, variables
from patchstack.errors import UsageError

if TYPE_CHECKING:
    from patchstack.gates.program import Program


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
    from dataclasses import replace

    from patchstack.gates.engaged import KIND, VERSION, Spec, run, spec_problems
    from patchstack.gates.reading import pattern_problem

    chosen = _chosen(model, prompt, tokens, program, tuple(arg or ()))
    chosen = replace(chosen, env=variables(env), sentinel=sentinel or chosen.sentinel, seconds=seconds, tries=tries)
    spec = Spec(
        program=chosen,
        on=variables(on, "--on"),
        off=variables(off, "--off"),
        mark=mark,
        at_least=at_least,
        where=where,
    )
    usage_problems(
        [
            *([("mark", problem)] if (problem := pattern_problem(mark)) else []),
            *([("sentinel", problem)] if sentinel and (problem := pattern_problem(sentinel)) else []),
            *([("at_least", "is less than 1")] if at_least < 1 else []),
            *spec_problems(spec),
        ]
    )
    with stand(bin=bin, kind=KIND, version=VERSION, engine=engine, image=image, again=again) as bench:
        judgement = run(spec, bench)
    raise typer.Exit(int(finish(judgement, kind=KIND, json=json)))


def _chosen(model: Path | None, prompt: str | None, tokens: int, program: str | None, args: tuple[str, ...]) -> Program:
    """What is run: a program with arguments of its own, or a prompt to a model."""
    from patchstack.gates.program import Program
    from patchstack.gates.prompting import Prompting, prompting_problems
    from patchstack.gates.sentinel import sentinel_of

    if program is not None:
        if prompt is not None:
            raise UsageError("--program and --prompt exclude each other", hint="its arguments are --arg")
        models = (a_model(model),) if model is not None else ()
        return Program(name=program, args=args, models=models, sentinel=sentinel_of(program))
    if model is None or prompt is None:
        raise UsageError("--model and --prompt, or --program", hint="llama-completion wants a model and a prompt")
    prompting = Prompting(model=a_model(model), prompt=prompt, tokens=tokens, args=args)
    usage_problems(prompting_problems(prompting))
    return prompting.completion()
