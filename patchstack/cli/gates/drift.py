"""`patchstack gate drift`: the KL divergence at several contexts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.cli.gates import kl as options
from patchstack.cli.gates.standing import AgainOption, BinOption, ImageOption, JsonOption, finish
from patchstack.cli.gates.variables import EngineOption, EnvOption
from patchstack.errors import UsageError

if TYPE_CHECKING:
    from patchstack.gates.judgement import Judgement


def drift_command(
    bin: BinOption,  # noqa: A002  (the option's name)
    base_model: options.BaseModelOption,
    text: options.TextOption,
    model: options.ComparedOption = None,
    base_bin: options.BaseBinOption = None,
    context: Annotated[
        list[int] | None, typer.Option("--context", metavar="N", help="A context, in tokens (repeat).")
    ] = None,
    chunks: options.ChunksOption = None,
    batch: options.BatchOption = 512,
    ubatch: options.UbatchOption = None,
    arg: options.ArgOption = None,
    env: EnvOption = None,
    base_env: options.BaseEnvOption = None,
    mean: options.MeanOption = 1e-3,
    same_top: options.SameTopOption = 99.5,
    calibrate: options.CalibrateOption = None,
    seconds: options.SecondsOption = 3600,
    tries: options.TriesOption = 5,
    engine: EngineOption = None,
    image: ImageOption = None,
    again: AgainOption = False,
    json: JsonOption = False,
) -> None:
    """Compare a model with a base at contexts of 256 to 4096 tokens, and see whether the two drift apart."""
    from patchstack.gates.kinds import drift

    contexts = tuple(context) if context else drift.CONTEXTS
    spec = drift.Spec(
        kl=options.compared_by(
            base_model=base_model,
            model=model,
            text=text,
            context=contexts[0],
            shape=(chunks, batch, ubatch),
            args=tuple(arg or ()),
            env=env,
            base_env=base_env,
            limits=(mean, same_top, calibrate),
            effort=(seconds, tries),
        ),
        contexts=contexts,
    )
    if problems := drift.spec_problems(spec):
        raise UsageError("the contexts cannot be compared", problems=problems)
    kind = f"{drift.KIND}/{drift.VERSION}"
    with options.benches(bin, base_bin, kind=kind, engine=engine, image=image, again=again) as both:
        judgement = drift.run(spec, *both)
    if not json:
        _print_contexts(judgement)
    raise typer.Exit(int(finish(judgement, kind=drift.KIND, json=json)))


def _print_contexts(judgement: Judgement) -> None:
    """The table: a line a context."""
    from patchstack.gates.kinds.drift import table_rows
    from patchstack.report.streams import VERDICTS
    from patchstack.report.table import Give, Table, print_table

    titles = ("context", "verdict", "positions", "mean KLD", "99.9 %", "maximum", "same top")
    gives = dict.fromkeys(titles[3:], Give.WORDS)
    print_table(Table(titles=titles, rows=table_rows(judgement), styles=VERDICTS, gives=gives))
