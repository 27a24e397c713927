"""`patchstack gate command`: does a program of the build end as it should, and say what it should?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patchstack.cli.gates.prompts import ArgOption, SecondsOption, SentinelOption, TriesOption, program_of
from patchstack.cli.gates.standing import AgainOption, BinOption, ImageOption, JsonOption, finish, stand
from patchstack.cli.gates.variables import EngineOption, EnvOption, usage_problems

ProgramOption = Annotated[str, typer.Option("--program", metavar="NAME", help="The program, as it is named in bin.")]
OptionalModelOption = Annotated[
    Path | None,
    typer.Option("--model", metavar="FILE", help="A model: {model:model} in --arg stands for its path."),
]


def command_command(
    bin: BinOption,  # noqa: A002  (the option's name)
    program: ProgramOption,
    must: Annotated[list[str], typer.Option("--must", metavar="REGEX", help="What it must print (repeat).")],
    must_not: Annotated[
        list[str] | None, typer.Option("--must-not", metavar="REGEX", help="What it must not print (repeat).")
    ] = None,
    exit_code: Annotated[int, typer.Option("--exit", metavar="N", help="The exit code it should have.")] = 0,
    arg: ArgOption = None,
    model: OptionalModelOption = None,
    env: EnvOption = None,
    sentinel: SentinelOption = None,
    seconds: SecondsOption = 600,
    tries: TriesOption = 5,
    engine: EngineOption = None,
    image: ImageOption = None,
    again: AgainOption = False,
    json: JsonOption = False,
) -> None:
    """Run a program of the build, and hold its exit code and its words against what they should be."""
    from patchstack.gates.kinds.command import KIND, VERSION, Spec, run, spec_problems
    from patchstack.observe.settings import pattern_problem

    spec = Spec(
        program=program_of(program, model=model, arg=arg, env=env, sentinel=sentinel, seconds=seconds, tries=tries),
        must=tuple(must),
        must_not=tuple(must_not or ()),
        exit=exit_code,
    )
    given = [("must", text) for text in must] + [("must_not", text) for text in must_not or ()]
    usage_problems([(key, problem) for key, text in given if (problem := pattern_problem(text))] + spec_problems(spec))
    with stand(bin=bin, kind=KIND, version=VERSION, engine=engine, image=image, again=again) as bench:
        judgement = run(spec, bench)
    raise typer.Exit(int(finish(judgement, kind=KIND, json=json)))
