"""Options of gate commands that put a prompt to a model, and the prompt they make."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.cli.gates.standing import a_model
from patchstack.cli.gates.variables import as_option, usage_problems, variables
from patchstack.errors import UsageError

if TYPE_CHECKING:
    from patchstack.llama.completions import Question
    from patchstack.llama.program import Program
    from patchstack.llama.prompt import Prompting

PromptOption = Annotated[str, typer.Option("--prompt", metavar="TEXT", help="The prompt.")]
TokensOption = Annotated[int, typer.Option("--tokens", metavar="N", help="How many tokens are written.")]
ContextOption = Annotated[int, typer.Option("--context", metavar="N", help="The context's size, in tokens.")]
LayersOption = Annotated[int, typer.Option("--gpu-layers", metavar="N", help="How many layers are on a GPU.")]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", help="The sampler's seed.")]
AttentionOption = Annotated[str, typer.Option("--flash-attention", metavar="on|off|auto", help="What -fa gets.")]
ArgOption = Annotated[
    list[str] | None, typer.Option("--arg", metavar="TEXT", help="One more argument for the program (repeat).")
]
SecondsOption = Annotated[int, typer.Option("--seconds", metavar="N", help="How long one run may take.")]
TriesOption = Annotated[
    int, typer.Option("--tries", metavar="N", help="How often a run that cannot be judged is tried.")
]
SentinelOption = Annotated[
    str | None,
    typer.Option(
        "--sentinel", metavar="REGEX", help="The line that shows that no output was lost; none: there is none."
    ),
]


def prompting_of(
    model: Path,
    prompt: str,
    *,
    tokens: int,
    context: int,
    gpu_layers: int,
    seed: int,
    flash_attention: str,
    arg: list[str] | None,
    env: list[str] | None,
    seconds: int,
    tries: int,
    sentinel: str | None = None,
) -> Prompting:
    """The prompt that these options are. Raises `UsageError` with all that is wrong with them."""
    from patchstack.llama.program import GRAPHS_REUSED
    from patchstack.llama.prompt import Prompting, prompting_problems

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
    numbers = (("tokens", tokens), ("context", context), ("seconds", seconds), ("tries", tries))
    few = [(name, f"{value} is less than 1") for name, value in numbers if value < 1]
    usage_problems([*prompting_problems(prompting, as_option), *few])
    return prompting


def program_of(
    name: str,
    *,
    model: Path | None,
    arg: list[str] | None,
    env: list[str] | None,
    sentinel: str | None,
    seconds: int,
    tries: int,
) -> Program:
    """The program that these options are, with arguments of its own. Raises `UsageError`."""
    from patchstack.llama.program import NONE, Program, sentinel_of
    from patchstack.observe.settings import pattern_problem

    if sentinel is not None and sentinel != NONE and (problem := pattern_problem(sentinel)):
        usage_problems([("sentinel", problem)])
    return Program(
        name=name,
        args=tuple(arg or ()),
        models=(a_model(model),) if model is not None else (),
        env=variables(env),
        sentinel=None if sentinel == NONE else sentinel or sentinel_of(name),
        seconds=seconds,
        tries=tries,
    )


def runs_of(
    program: str | None,
    *,
    model: Path | None,
    prompt: str | None,
    server: bool,
    tokens: int,
    context: int,
    gpu_layers: int,
    seed: int,
    flash_attention: str,
    arg: list[str] | None,
    env: list[str] | None,
    sentinel: str | None,
    seconds: int,
    tries: int,
) -> tuple[Program, tuple[Question, ...]]:
    """The program that a switch is tried on, and what it is asked if it is a server: one with arguments of its own, or
    one of llama.cpp's with a prompt. Raises `UsageError`."""
    from patchstack.gates.kinds.engaged import chosen, questions_of

    if program is not None:
        if prompt is not None or server:
            words = "--prompt" if prompt is not None else "--server"
            raise UsageError(f"--program and {words} exclude each other", hint="its arguments are --arg")
        runs = program_of(program, model=model, arg=arg, env=env, sentinel=sentinel, seconds=seconds, tries=tries)
        return runs, ()
    if model is None or prompt is None:
        raise UsageError("--model and --prompt, or --program", hint="llama-completion wants a model and a prompt")
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
    return chosen(prompting, server=server), questions_of(prompting) if server else ()
