"""`patchstack gate tokens`: does a build still choose the same tokens?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.cli.gates.prompts import (
    ArgOption,
    AttentionOption,
    ContextOption,
    LayersOption,
    PromptOption,
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
    finish,
    stand,
)
from patchstack.cli.gates.variables import EngineOption, EnvOption, usage_problems, variables
from patchstack.errors import UsageError

if TYPE_CHECKING:
    from patchstack.gates.reference.tokens import Reference

MarginOption = Annotated[
    float,
    typer.Option("--margin", metavar="P", help="Tokens no further apart than this in probability: INVALID, not FAIL."),
]


def tokens_command(
    bin: BinOption,  # noqa: A002  (the option's name)
    model: ModelOption,
    prompt: PromptOption,
    tokens: TokensOption = 48,
    env: EnvOption = None,
    expect: Annotated[
        str | None, typer.Option("--expect", metavar="IDS", help="The token ids, 12,7,99, or the SHA-256 of them.")
    ] = None,
    expect_file: Annotated[
        Path | None, typer.Option("--expect-file", metavar="FILE", help="The token ids: a JSON list.")
    ] = None,
    switch: Annotated[
        list[str] | None,
        typer.Option("--switch", metavar="K=V", help="Also run with this, and want the same tokens (repeat)."),
    ] = None,
    runs: Annotated[
        int, typer.Option("--runs", metavar="N", min=1, help="Ask N servers, one after the other: all must agree.")
    ] = 1,
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="N", min=1, help="Ask each server so often: all answers must agree.")
    ] = 2,
    margin: MarginOption = 0.0,
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
    """Hold the tokens that llama-server chooses greedily against a reference, id by id."""
    from patchstack.gates.kinds.tokens import KIND, VERSION, Spec, State, run, spec_problems

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
    reference = _reference(expect, expect_file)
    states: tuple[State, ...] = (State(reference=reference),)
    if switch:
        on = variables(switch, "--switch")
        states = (State(name="off", reference=reference), State(name="on", env=on, same_as="off"))
    spec = Spec(prompting=prompting, states=states, repeats=repeats, runs=runs, margin=margin)
    usage_problems([*margin_problems(margin), *spec_problems(spec)])
    with stand(bin=bin, kind=KIND, version=VERSION, engine=engine, image=image, again=again) as bench:
        judgement = run(spec, bench)
    raise typer.Exit(int(finish(judgement, kind=KIND, json=json)))


def margin_problems(margin: float) -> list[tuple[str, str]]:
    """What is wrong with a margin, with its option."""
    if 0 <= margin < 1:
        return []
    return [("margin", f"{margin:g} is no difference in probability: from 0 up to 1")]


def _reference(expect: str | None, file: Path | None) -> Reference | None:
    """The reference of `--expect` and `--expect-file`. Raises `UsageError`."""
    from patchstack.gates.reference.tokens import combined, reference_in

    filed = reference_in(file) if file is not None else None
    if isinstance(filed, str):
        raise UsageError(filed, hint="--json prints the ids that came, in details")
    whole = combined(_given(expect) if expect is not None else None, filed)
    if isinstance(whole, str):
        raise UsageError(whole)
    return whole


def _given(text: str) -> Reference:
    """Ids between commas or blanks, or 64 hexadecimal digits. Raises `UsageError`."""
    from patchstack.gates.reference.tokens import reference_of

    words = text.replace(",", " ").split()
    ids = [int(word) for word in words if word.isdecimal() and len(word) < 20]
    found = reference_of(ids if len(ids) == len(words) else text.strip().lower())
    if isinstance(found, str):
        raise UsageError(f"--expect {text[:80]!r} is neither token ids nor their SHA-256", hint="--expect 12,7,99")
    return found
