"""Gate kind `kl`: measure how far a model's next-token distributions on a text diverge from those of a base.

The base is another model on the same build (for example f16 against the quantised model), the same model on another
build, or the same model with a switch off. Both sides run with the same context and batches. By default, the mean
divergence must be below 1e-3, and the most probable token must be the same in at least 99.5 % of the positions. These
limits can also be calibrated by a comparison of the base with itself.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from patchstack.gates.judgement import Judgement
from patchstack.gates.kind import Kind
from patchstack.llama.kl import PROGRAM, Comparison, Measured, Side, Statistics, comparison_problem, measure
from patchstack.llama.settings import ENV, MODEL, SECONDS, TRIES
from patchstack.observe.declared import (
    NO_MODEL,
    BuildDirectory,
    FileContent,
    ModelName,
    Setting,
    Texts,
    Values,
    Variables,
    Whole,
    positive,
)
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Attempt, Json, Model
from patchstack.observe.settings import Environment
from patchstack.verdict import Verdict

MEAN, SAME_TOP = 1e-3, 99.5
_RESOLUTION = 1e-6  # nats: the precision of the tool's output
_OURS = (
    *("-m", "--model", "-f", "--file", "-p", "--prompt", "-c", "--ctx-size", "-b", "--batch-size", "-ub"),
    *("--ubatch-size", "--chunks", "--ppl-stride", "--ppl-output-type", "--kl-divergence", "--kl-divergence-base"),
    *("--save-all-logits", "-v", "--verbose", "-lv", "--verbosity", "--log-verbosity", "--log-disable", "--log-file"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a comparison.

    The mean divergence must be below `mean`, in nats. The most probable token must be the same in at least `same_top`
    percent of the positions.
    """

    mean: float = MEAN
    same_top: float = SAME_TOP


@dataclass(frozen=True, slots=True, kw_only=True)
class KlSettings:
    """The comparison and its limits.

    If `calibrate` is set, the limits of the comparison are the noise multiplied by `calibrate`. The noise is measured
    by comparing the base with itself. If the noise exceeds `limits`, the gate is INVALID. `base_build` is the build
    that runs the base (see `observe.from_build`). If it is None, the judged build runs the base.
    """

    comparison: Comparison
    limits: Limits = Limits()
    calibrate: float | None = None
    base_build: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One judged comparison. `noise` is the comparison of the base with itself, if the limits were calibrated."""

    measured: Measured
    verdict: Verdict
    reason: str
    limits: Limits
    noise: Measured | None = None

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The attempts of the noise comparison, if it exists, followed by those of the judged comparison."""
        return (*(self.noise.attempts if self.noise is not None else ()), *self.measured.attempts)


BASE = Setting[Model](
    name="base",
    form=ModelName(),
    default=NO_MODEL,
    required=True,
    flag="--base-model",
    metavar="FILE",
    help="The model to compare with, on the engine's machine.",
)
COMPARED = replace(MODEL, option_required=False, help="The model to judge [default: the base model].")
BASE_BUILD = Setting[str | None](
    name="base_build",
    form=BuildDirectory(),
    default=None,
    flag="--base-bin",
    metavar="DIR",
    help="The build that runs the base, if it is not the judged build.",
)
TEXT = Setting[bytes](
    name="text",
    form=FileContent(),
    default=b"",
    required=True,
    metavar="FILE",
    help="A file with the text. The text needs at least two contexts of tokens.",
)
CONTEXT = Setting[int](
    name="context",
    form=Whole(8, 1 << 20),
    default=512,
    unit="tokens",
    metavar="N",
    help="The context length, in tokens.",
)
CHUNKS = Setting[int | None](
    name="chunks",
    form=Whole(1, 10**6),
    default=None,
    metavar="N",
    help="The number of contexts of the text to use [default: all].",
)
BATCH = Setting[int](
    name="batch",
    form=Whole(1, 1 << 20),
    default=512,
    unit="tokens",
    metavar="N",
    help="The batch size of both sides, in tokens.",
)
UBATCH = Setting[int | None](
    name="ubatch",
    form=Whole(1, 1 << 20),
    default=None,
    unit="tokens",
    metavar="N",
    help="The physical batch size of both sides, in tokens [default: the batch size].",
)
ARGS = Setting[tuple[str, ...]](
    name="args",
    form=Texts(),
    default=(),
    flag="--arg",
    metavar="ARG",
    help="An additional argument for both sides (repeat).",
)
BASE_ARGS = Setting[tuple[str, ...]](
    name="base_args",
    form=Texts(),
    default=(),
    on_command_line=False,
    help="The arguments for the base. They replace args.",
)
BASE_ENV = Setting[Environment](
    name="base_env",
    form=Variables(),
    default=(),
    metavar="K=V",
    help="An environment variable for the base. These variables replace --env (repeat).",
)
MEAN_LIMIT = Setting[float](
    name="mean",
    form=positive(1e3),
    default=MEAN,
    unit="nats",
    metavar="NATS",
    help="The mean divergence must be below this limit, in nats.",
)
SAME_TOP_LIMIT = Setting[float](
    name="same_top",
    form=positive(100),
    default=SAME_TOP,
    unit="percent",
    metavar="PERCENT",
    help="The minimum share of positions with the same most probable token, in percent.",
)
CALIBRATE = Setting[float | None](
    name="calibrate",
    form=positive(1e6),
    default=None,
    metavar="FACTOR",
    help="Set the limits to this multiple of the noise, which is measured by comparing the base with itself.",
)
RUN_SECONDS = replace(SECONDS, form=Whole(1, 7 * 86_400), default=3600, help="The time limit of one run.")
SHAPE = (CHUNKS, BATCH, UBATCH)
LIMITS = (MEAN_LIMIT, SAME_TOP_LIMIT, CALIBRATE, RUN_SECONDS, TRIES)


def settings_of(values: Values) -> KlSettings:
    """Return the settings from values."""
    settings = compared(values, context=values[CONTEXT])
    complain_of_shape(values, settings)
    complain_of_equal_sides(values, settings)
    return settings


def complain_of_equal_sides(values: Values, settings: KlSettings) -> None:
    """Report an error if the two sides are identical, because then the comparison could not fail."""
    base, test = settings.comparison.base, settings.comparison.test
    if base.model == NO_MODEL or settings.base_build is not None:
        return
    if base.same_run(test):
        told = "base and model do not differ, so a run would be compared with itself"
        ways = [values.written(one.name) for one in (COMPARED, BASE_ENV, BASE_BUILD)]
        values.complain(BASE_ENV.name, f"{told}; set one of {', '.join(ways)}")


def complain_of_shape(values: Values, settings: KlSettings) -> None:
    """Report an invalid combination of context, batches and chunks."""
    one = settings.comparison
    if problem := comparison_problem(one.context, one.batch, one.ubatch, one.chunks):
        values.complain("", problem)


def compared(values: Values, *, context: int) -> KlSettings:
    """Return the settings that this kind and `drift` share."""
    args, env = values[ARGS], values[ENV]
    base_args = values[BASE_ARGS] if values.chosen(BASE_ARGS) else args
    for setting, given in ((ARGS, args), (BASE_ARGS, base_args if values.chosen(BASE_ARGS) else ())):
        if problem := args_problem(given):
            values.complain(setting.name, problem)
    base = Side(model=values[BASE], args=base_args, env=values[BASE_ENV] if values.chosen(BASE_ENV) else env)
    test = Side(model=values[COMPARED] if values.chosen(COMPARED) else values[BASE], args=args, env=env)
    return replace(measured_by(values, base, test, context=context), base_build=values[BASE_BUILD])


def measured_by(values: Values, base: Side, test: Side, *, context: int) -> KlSettings:
    """Return the settings for a comparison of two sides, from `TEXT`, `SHAPE` and `LIMITS`."""
    batch = values[BATCH]
    ubatch = values[UBATCH]
    comparison = Comparison(
        base=base,
        test=test,
        text=values[TEXT],
        context=context,
        batch=batch,
        ubatch=batch if ubatch is None else ubatch,
        chunks=values[CHUNKS],
        seconds=values[RUN_SECONDS],
        tries=values[TRIES],
    )
    limits = Limits(mean=values[MEAN_LIMIT], same_top=values[SAME_TOP_LIMIT])
    return KlSettings(comparison=comparison, limits=limits, calibrate=values[CALIBRATE])


def args_problem(args: tuple[str, ...]) -> str | None:
    """Return why arguments cannot be added to the gate's own arguments. Return None if they can."""
    own = [text for text in args if text.partition("=")[0] in _OURS]
    return f"the gate itself sets {', '.join(own)}" if own else None


def run(settings: KlSettings, runner: Observer) -> Judgement:
    """Run the base unless its output is stored, compare the model with the base, and judge the result.

    Raises `MissingError` if the build of the base does not exist.
    """
    with base_of(settings, runner) as made_by:
        checked = check(settings, runner, made_by)
    return judgement_of(settings, checked)


@contextlib.contextmanager
def base_of(settings: KlSettings, runner: Observer) -> Iterator[Observer]:
    """Yield the runner for the base.

    If the settings name a build, the yielded runner runs this build. Otherwise, it is the given runner.
    """
    if settings.base_build is None:
        yield runner
        return
    with runner.beside(settings.base_build) as other:
        yield other


def judgement_of(settings: KlSettings, checked: Checked) -> Judgement:
    """Convert a comparison to the judgement of a gate."""
    statistics = checked.measured.statistics
    return Judgement(
        verdict=checked.verdict,
        reason=checked.reason,
        actual=figures(statistics) if statistics is not None else "",
        expected=wanted(checked.limits),
        details=details(settings, checked),
        attempts=checked.attempts,
    )


def check(settings: KlSettings, runner: Observer, base_runner: Observer) -> Checked:
    """Make one comparison. If the limits are calibrated, compare the base with itself first.

    If both sides would do the same run with identical programs, return INVALID without a run.
    """
    noise = None
    limits = settings.limits
    comparison = settings.comparison
    alike = base_runner is not runner and base_runner.build_digest() == runner.build_digest()
    if alike and comparison.base.same_run(comparison.test):
        nothing = Measured(context=comparison.context, statistics=None)
        why = "the programs of the base are these programs, and nothing else differs: a run compared with itself"
        return Checked(measured=nothing, verdict=Verdict.INVALID, reason=why, limits=limits)
    if settings.calibrate is not None:
        itself = replace(comparison, test=comparison.base)
        noise = measure(itself, base_runner, base_runner, salt="A/A")
        if noise.statistics is None:
            verdict = Verdict.FAIL if noise.failed and base_runner is runner else Verdict.INVALID
            reason = f"the base against itself: {noise.fault}"
            return Checked(measured=_nothing(noise), verdict=verdict, reason=reason, limits=limits, noise=noise)
        if told := too_noisy(noise.statistics, limits):
            invalid = Verdict.INVALID
            return Checked(measured=_nothing(noise), verdict=invalid, reason=told, limits=limits, noise=noise)
        limits = calibrated(noise.statistics, settings.calibrate, noise.positions)
    measured = measure(comparison, runner, base_runner)
    verdict, reason = verdict_of_measurement(measured, limits)
    return Checked(measured=measured, verdict=verdict, reason=reason, limits=limits, noise=noise)


def verdict_of_measurement(measured: Measured, limits: Limits) -> tuple[Verdict, str]:
    """Return the verdict of a measurement, and the reason."""
    found = measured.statistics
    if found is None:
        return (Verdict.FAIL if measured.failed else Verdict.INVALID), measured.fault
    if not found.finite:
        return Verdict.FAIL, f"the model gives values that are not numbers: {figures(found)}"
    wrong = []
    if not found.mean < limits.mean:
        wrong.append(
            f"the mean KL divergence is {_shown(found.mean)} ± {_shown(found.mean_error)}, not below {limits.mean:g}"
        )
    if not found.same_top >= limits.same_top:
        wrong.append(
            f"the most probable token is the same at {found.same_top:g} ± {found.same_top_error:g} % of the positions, "
            f"not at {limits.same_top:g} %"
        )
    if wrong:
        return Verdict.FAIL, "; ".join(wrong)
    return Verdict.PASS, f"{figures(found)}, over {measured.positions} positions"


def calibrated(noise: Statistics, factor: float, positions: int) -> Limits:
    """Return limits that allow the noise, multiplied by `factor`.

    The noise of the mean is the larger of the mean and its standard error. Noise below the resolution of the tool
    counts as the resolution: one unit of the last digit of the mean, and one of the `positions`.
    """
    mean = max(noise.mean, noise.mean_error, _RESOLUTION) * factor
    others = max(100 - noise.same_top, 100 / positions) * factor
    return Limits(mean=mean, same_top=max(0.0, 100 - others))


def too_noisy(noise: Statistics, limits: Limits) -> str | None:
    """Return why a comparison on this machine would prove nothing. Return None if the noise is small enough."""
    if noise.finite and noise.mean < limits.mean and noise.same_top >= limits.same_top:
        return None
    return f"the base differs from itself by as much as the limits allow: {figures(noise)}"


def figures(found: Statistics) -> str:
    """Return the mean divergence and the share of positions with the same most probable token as a short text."""
    return (
        f"mean KLD {_shown(found.mean)} ± {_shown(found.mean_error)}, "
        f"same top {found.same_top:g} ± {found.same_top_error:g} %"
    )


def wanted(limits: Limits) -> str:
    """Return the limits as a short text."""
    return f"mean KLD < {limits.mean:g}, same top ≥ {limits.same_top:g} %"


def details(settings: KlSettings, checked: Checked) -> dict[str, Json]:
    """Return the details of one comparison as JSON."""
    measured, comparison = checked.measured, settings.comparison
    found: dict[str, Json] = {
        "context": measured.context,
        "chunks": measured.log.chunks if measured.log is not None else None,
        "batch": comparison.batch,
        "ubatch": comparison.ubatch,
        "positions": measured.positions,
        "base": {"model": comparison.base.model.name, "kept": measured.kept, "bytes": measured.size or None},
        "model": comparison.test.model.name,
        "limits": {"mean": checked.limits.mean, "same_top": checked.limits.same_top},
        "statistics": _document(measured.statistics),
    }
    if measured.log is not None and measured.log.trained is not None:
        found["trained_context"] = measured.log.trained
    if checked.noise is not None:
        found["noise"] = {"factor": settings.calibrate, "statistics": _document(checked.noise.statistics)}
    return found


def _document(found: Statistics | None) -> Json:
    """Return statistics as JSON. Values that JSON lacks, such as NaN, become texts."""
    if found is None:
        return None
    values = asdict(found)
    document: dict[str, Json] = {name: _plain(value) for name, value in values.items() if name != "percentiles"}
    document["percentiles"] = {name: _plain(value) for name, value in found.percentiles.items()}
    return document


def _plain(value: float) -> Json:
    return value if math.isfinite(value) else str(value)


def _shown(value: float) -> str:
    return f"{value + 0.0:.2g}"  # avoid -0.0


def _nothing(noise: Measured) -> Measured:
    """Return the result of a comparison that was not run, because the noise is unknown or too large."""
    return Measured(context=noise.context, statistics=None, fault=noise.fault, failed=noise.failed, kept=noise.kept)


SETTINGS_BEFORE_CONTEXT = (BASE, TEXT, COMPARED, BASE_BUILD)
SETTINGS_AFTER_CONTEXT = (*SHAPE, ARGS, BASE_ARGS, ENV, BASE_ENV, *LIMITS)
KIND = Kind(
    name="kl",
    version=1,
    about="Compare a model's next-token distributions with those of a base, by KL divergence.",
    settings=(*SETTINGS_BEFORE_CONTEXT, CONTEXT, *SETTINGS_AFTER_CONTEXT),
    make=settings_of,
    run=run,
    programs=lambda settings: (PROGRAM,),
)
