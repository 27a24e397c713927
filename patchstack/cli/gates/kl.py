"""`patchstack gate kl`: how far one model's distributions are from another's, over a text."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.cli.gates.standing import AgainOption, BinOption, ImageOption, JsonOption, a_model, finish, stand
from patchstack.cli.gates.variables import EngineOption, EnvOption, variables
from patchstack.errors import MissingError, UsageError

if TYPE_CHECKING:
    from patchstack.gates.kinds.kl import Spec
    from patchstack.observe.runner import Runner

BaseBinOption = Annotated[
    Path | None,
    typer.Option("--base-bin", metavar="DIR", help="The programs that make the base, where they are another build's."),
]
BaseModelOption = Annotated[
    Path, typer.Option("--base-model", metavar="FILE", help="The model to compare with, on the engine's machine.")
]
ComparedOption = Annotated[
    Path | None, typer.Option("--model", metavar="FILE", help="The model to judge [default: the base model].")
]
TextOption = Annotated[Path, typer.Option("--text", metavar="FILE", help="The text, at least two contexts of tokens.")]
ChunksOption = Annotated[
    int | None, typer.Option("--chunks", metavar="N", help="How many contexts of the text [default: all].")
]
BatchOption = Annotated[int, typer.Option("--batch", metavar="N", help="The batch of both sides, in tokens.")]
UbatchOption = Annotated[
    int | None, typer.Option("--ubatch", metavar="N", help="The physical batch of both sides [default: the batch].")
]
ArgOption = Annotated[
    list[str] | None, typer.Option("--arg", metavar="ARG", help="One more argument of both sides (repeat).")
]
BaseEnvOption = Annotated[
    list[str] | None,
    typer.Option("--base-env", metavar="K=V", help="The base's variables, instead of --env (repeat)."),
]
MeanOption = Annotated[float, typer.Option("--mean", metavar="NATS", help="What the mean must be below.")]
SameTopOption = Annotated[
    float, typer.Option("--same-top", metavar="PERCENT", help="Where both must find the same token most probable.")
]
CalibrateOption = Annotated[
    float | None,
    typer.Option("--calibrate", metavar="FACTOR", help="Limits of so many times the base against itself."),
]
SecondsOption = Annotated[int, typer.Option("--seconds", metavar="N", min=1, help="How long a run may take.")]
TriesOption = Annotated[
    int, typer.Option("--tries", metavar="N", min=1, max=20, help="How often a run that cannot be judged is tried.")
]


def kl_command(
    bin: BinOption,  # noqa: A002  (the option's name)
    base_model: BaseModelOption,
    text: TextOption,
    model: ComparedOption = None,
    base_bin: BaseBinOption = None,
    context: Annotated[int, typer.Option("--context", metavar="N", help="The context, in tokens.")] = 512,
    chunks: ChunksOption = None,
    batch: BatchOption = 512,
    ubatch: UbatchOption = None,
    arg: ArgOption = None,
    env: EnvOption = None,
    base_env: BaseEnvOption = None,
    mean: MeanOption = 1e-3,
    same_top: SameTopOption = 99.5,
    calibrate: CalibrateOption = None,
    seconds: SecondsOption = 3600,
    tries: TriesOption = 5,
    engine: EngineOption = None,
    image: ImageOption = None,
    again: AgainOption = False,
    json: JsonOption = False,
) -> None:
    """Compare a model's distributions over the next token with a base's, by KL divergence."""
    from patchstack.gates.kinds import kl
    from patchstack.llama.kl import comparison_problem

    spec = compared_by(
        base_model=base_model,
        model=model,
        text=text,
        context=context,
        shape=(chunks, batch, ubatch),
        args=tuple(arg or ()),
        env=env,
        base_env=base_env,
        limits=(mean, same_top, calibrate),
        effort=(seconds, tries),
    )
    if problem := comparison_problem(context, batch, spec.comparison.ubatch, chunks):
        raise UsageError(problem)
    with benches(bin, base_bin, kind=f"{kl.KIND}/{kl.VERSION}", engine=engine, image=image, again=again) as both:
        judgement = kl.run(spec, *both)
    raise typer.Exit(int(finish(judgement, kind=kl.KIND, json=json)))


def compared_by(
    *,
    base_model: Path,
    model: Path | None,
    text: Path,
    context: int,
    shape: tuple[int | None, int, int | None],
    args: tuple[str, ...],
    env: list[str] | None,
    base_env: list[str] | None,
    limits: tuple[float, float, float | None],
    effort: tuple[int, int],
) -> Spec:
    """The settings of a comparison from options: `shape` is chunks, batch and physical batch; `limits` mean, same top
    and calibration; `effort` seconds and tries. Raises `UsageError`, `MissingError` for a text that is not there."""
    from patchstack.gates.kinds.kl import Limits, Spec, args_problem
    from patchstack.llama.kl import Comparison, Side

    (chunks, batch, ubatch), (mean, same_top, calibrate), (seconds, tries) = shape, limits, effort
    if problem := args_problem(args):
        raise UsageError(f"--arg {problem}")
    if not mean > 0 or not 0 < same_top <= 100 or (calibrate is not None and not calibrate > 0):
        raise UsageError("--mean and --calibrate are above 0, --same-top up to 100")
    try:
        content = text.read_bytes()
    except OSError as error:
        raise MissingError(f"the text {text} cannot be read: {error.strerror}", hint="--text FILE") from error
    own = variables(env)
    base = a_model(base_model, "base")
    comparison = Comparison(
        base=Side(model=base, args=args, env=variables(base_env, "--base-env") if base_env is not None else own),
        test=Side(model=a_model(model, "model") if model is not None else base, args=args, env=own),
        text=content,
        context=context,
        batch=batch,
        ubatch=ubatch if ubatch is not None else batch,
        chunks=chunks,
        seconds=seconds,
        tries=tries,
    )
    return Spec(comparison=comparison, limits=Limits(mean=mean, same_top=same_top), calibrate=calibrate)


@contextlib.contextmanager
def benches(
    bin: Path,  # noqa: A002  (the option's name)
    base_bin: Path | None,
    *,
    kind: str,
    engine: str | None,
    image: str | None,
    again: bool,
) -> Iterator[tuple[Runner, Runner]]:
    """The bench of what is judged and that of the base: the same one, unless the base is another build's. `kind` is
    the gate kind with its version."""
    name, _, version = kind.partition("/")
    with contextlib.ExitStack() as stack:

        def standing(directory: Path) -> Runner:
            return stack.enter_context(
                stand(bin=directory, kind=name, version=int(version), engine=engine, image=image, again=again)
            )

        own = standing(bin)
        yield own, standing(base_bin) if base_bin is not None else own
