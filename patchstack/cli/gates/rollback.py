"""`patchstack gate rollback`: does state that is taken back leave a trace?"""

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
    TokensOption,
    TriesOption,
    prompting_of,
)
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
from patchstack.cli.gates.tokens import MarginOption, margin_problems
from patchstack.cli.gates.variables import EngineOption, EnvOption, usage_problems
from patchstack.errors import UsageError


def rollback_command(
    bin: BinOption,  # noqa: A002  (the option's name)
    model: ModelOption,
    check: Annotated[
        list[str] | None,
        typer.Option(
            "--check",
            metavar="NAME",
            help="program, speculative or reuse (repeat) [default: program, and speculative where one says with what].",
        ),
    ] = None,
    program: Annotated[
        str | None,
        typer.Option("--program", metavar="NAME", help="The test program [default: test-recurrent-state-rollback]."),
    ] = None,
    says: Annotated[
        str | None, typer.Option("--says", metavar="REGEX", help="The line by which it tells of success.")
    ] = None,
    prompt: Annotated[str, typer.Option("--prompt", metavar="TEXT", help="The prompt.")] = "The capital of France is",
    tokens: TokensOption = 48,
    draft: Annotated[
        Path | None, typer.Option("--draft", metavar="FILE", help="The model that drafts, on the engine's machine.")
    ] = None,
    speculative: Annotated[
        list[str] | None,
        typer.Option("--speculative", metavar="TEXT", help="An argument that makes the server speculate (repeat)."),
    ] = None,
    margin: MarginOption = 0.0,
    env: EnvOption = None,
    context: ContextOption = 4096,
    gpu_layers: LayersOption = 99,
    seed: SeedOption = 1,
    flash_attention: AttentionOption = "on",
    arg: ArgOption = None,
    seconds: SecondsOption = 600,
    tries: TriesOption = 5,
    engine: EngineOption = None,
    image: ImageOption = None,
    again: AgainOption = False,
    json: JsonOption = False,
) -> None:
    """Check rollback: by the test program, with and without speculation, and by going back to a prompt."""
    from dataclasses import replace

    from patchstack.gates.kinds.rollback import (
        CHECKS,
        KIND,
        PROGRAM,
        SAYS,
        VERSION,
        Spec,
        rollback_program,
        run,
        spec_problems,
    )
    from patchstack.observe.settings import pattern_problem

    checks = tuple(check or (("program", "speculative") if draft or speculative else ("program",)))
    if unknown := [name for name in checks if name not in CHECKS]:
        raise UsageError(f"--check {', '.join(unknown)}: there is no such check", hint=f"one of {', '.join(CHECKS)}")
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
    )
    tested = rollback_program(program or PROGRAM, prompting.model, prompting)
    tested = replace(tested, env=prompting.env, seconds=seconds, tries=tries)
    speculates = "speculative" in checks
    spec = Spec(
        program=tested if "program" in checks else None,
        says=says or SAYS,
        prompting=prompting if speculates or "reuse" in checks else None,
        speculative=tuple(speculative or ()) if speculates else (),
        draft=a_model(draft, "draft") if draft is not None and speculates else None,
        reuse="reuse" in checks,
        margin=margin,
    )
    wrong = [("says", problem)] if (problem := pattern_problem(spec.says)) else []
    usage_problems([*margin_problems(margin), *wrong, *spec_problems(spec, checks)])
    with stand(bin=bin, kind=KIND, version=VERSION, engine=engine, image=image, again=again) as bench:
        judgement = run(spec, bench)
    raise typer.Exit(int(finish(judgement, kind=KIND, json=json)))
