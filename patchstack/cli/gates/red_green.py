"""`patchstack gate red-green`: does a test fail without the code that it covers, and pass with it?"""

from __future__ import annotations

from typing import Annotated

import typer

from patchstack.cli.gates.command import OptionalModelOption, ProgramOption
from patchstack.cli.gates.prompts import ArgOption, SecondsOption, TriesOption, program_of
from patchstack.cli.gates.standing import AgainOption, BinOption, ImageOption, JsonOption, finish, stand
from patchstack.cli.gates.variables import EngineOption, EnvOption, usage_problems


def red_green_command(
    bin: BinOption,  # noqa: A002  (the option's name)
    without: Annotated[
        str,
        typer.Option(
            "--without", metavar="BUILD", help="The build without the code: its key, or the directory of its programs."
        ),
    ],
    program: ProgramOption,
    red: Annotated[str, typer.Option("--red", metavar="REGEX", help="A line of a test that fails.")],
    green: Annotated[
        str,
        typer.Option("--green", metavar="REGEX", help="A line of a test that passes; a group is the number of tests."),
    ],
    red_exit: Annotated[
        int | None, typer.Option("--red-exit", metavar="N", help="The exit code of a test that fails [default: any].")
    ] = None,
    arg: ArgOption = None,
    model: OptionalModelOption = None,
    env: EnvOption = None,
    seconds: SecondsOption = 600,
    tries: TriesOption = 5,
    engine: EngineOption = None,
    image: ImageOption = None,
    again: AgainOption = False,
    json: JsonOption = False,
) -> None:
    """Run a test from a build without the code that it covers, and from one with it."""
    from patchstack.gates.kinds.red_green import KIND, VERSION, Spec, run
    from patchstack.llama.program import NONE
    from patchstack.observe.settings import pattern_problem

    spec = Spec(
        program=program_of(program, model=model, arg=arg, env=env, sentinel=NONE, seconds=seconds, tries=tries),
        without=without,
        red=red,
        green=green,
        red_exit=red_exit,
    )
    patterns = (("red", red), ("green", green))
    usage_problems([(key, problem) for key, text in patterns if (problem := pattern_problem(text))])
    usage_problems([("red_exit", "is 1 to 255")] if red_exit is not None and not 1 <= red_exit <= 255 else [])
    with stand(bin=bin, kind=KIND, version=VERSION, engine=engine, image=image, again=again) as bench:
        judgement = run(spec, bench)
    raise typer.Exit(int(finish(judgement, kind=KIND, json=json)))
