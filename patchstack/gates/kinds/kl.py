"""The gate `kl`: how far a model's distributions over the next token are from those of a base, over a text.

The base is another model on the same build (f16 against the quantised one), the same model on another build, or the
same model with a switch off. Both sides run with the same context and batches. Thresholds are the notebook's (mean
below 1e-3, the same most probable token at 99.5 % of the positions), or drawn from the base against itself.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from patchstack.gates.judgement import Judgement
from patchstack.llama.kl import Comparison, Measured, Side, Statistics, comparison_problem, measure
from patchstack.observe.from_build import read_build
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Attempt, Json, Model
from patchstack.observe.settings import bounded, environment
from patchstack.observe.settings import model as read_model
from patchstack.verdict import Verdict
from patchstack.workspace.mapping import Mapping as Node

KIND = "kl"
VERSION = 1
MEAN, SAME_TOP = 1e-3, 99.5
_RESOLUTION = 1e-6  # nats: what the tool prints of a divergence
_OURS = (
    *("-m", "--model", "-f", "--file", "-p", "--prompt", "-c", "--ctx-size", "-b", "--batch-size", "-ub"),
    *("--ubatch-size", "--chunks", "--ppl-stride", "--ppl-output-type", "--kl-divergence", "--kl-divergence-base"),
    *("--save-all-logits", "-v", "--verbose", "-lv", "--verbosity", "--log-verbosity", "--log-disable", "--log-file"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What holds: a mean divergence below `mean` (nats), and the same most probable token at no less than `same_top`
    percent of the positions."""

    mean: float = MEAN
    same_top: float = SAME_TOP


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What is compared, and what must hold. With `calibrate`, the limits are that many times the noise of the base
    against itself, and `limits` say how much noise is too much to judge by. `base_build` makes the base, where it is
    not the build that is judged (see `observe.other_build`)."""

    comparison: Comparison
    limits: Limits = Limits()
    calibrate: float | None = None
    base_build: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One comparison, judged. `noise` is the base against itself, where the limits were drawn from that."""

    measured: Measured
    verdict: Verdict
    reason: str
    limits: Limits
    noise: Measured | None = None

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Every try of it."""
        return (*(self.noise.attempts if self.noise is not None else ()), *self.measured.attempts)


def read(node: Node, models: Mapping[str, Model]) -> Spec:
    """`base` and `model` (names of models), `text` (a file), `context`, `chunks`, `batch`, `ubatch`, `args`, `env`,
    `base_args`, `base_env`, `base_build` (where the base is made otherwise), `mean`, `same_top`, `calibrate`,
    `seconds`, `tries`."""
    context = read_context(node)
    spec = read_spec(node, models, context=context)
    complain_of_shape(node, spec)
    node.finish()
    return spec


def read_context(node: Node) -> int:
    """`context`, in tokens."""
    return bounded(node, "context", default=512, least=8, most=1 << 20)


def complain_of_shape(node: Node, spec: Spec) -> None:
    """Complain about a context, batches and chunks that do not go together."""
    one = spec.comparison
    if problem := comparison_problem(one.context, one.batch, one.ubatch, one.chunks):
        node.complain(None, problem)


def read_spec(node: Node, models: Mapping[str, Model], *, context: int) -> Spec:
    """What this kind and `drift` have in common."""
    args, env = node.texts("args") or (), environment(node)
    base_args, base_env = node.texts("base_args"), environment(node, "base_env")
    for key, given in (("args", args), ("base_args", base_args or ())):
        if problem := args_problem(given):
            node.complain(key, problem)
    base = Side(
        model=read_model(node, models, "base"),
        args=args if base_args is None else base_args,
        env=base_env if "base_env" in node.node else env,
    )
    spec = read_measure(node, base, Side(model=read_model(node, models), args=args, env=env), context=context)
    return replace(spec, base_build=read_build(node, "base_build"))


def read_measure(node: Node, base: Side, test: Side, *, context: int) -> Spec:
    """How two sides are compared: `text`, `chunks`, `batch`, `ubatch`, `mean`, `same_top`, `calibrate`, `seconds`,
    `tries`."""
    chunks = bounded(node, "chunks", default=1, least=1, most=10**6)
    batch = bounded(node, "batch", default=512, least=1, most=1 << 20)
    comparison = Comparison(
        base=base,
        test=test,
        text=_read_text(node),
        context=context,
        batch=batch,
        ubatch=bounded(node, "ubatch", default=batch, least=1, most=1 << 20),
        chunks=chunks if "chunks" in node.node else None,
        seconds=bounded(node, "seconds", default=3600, least=1, most=7 * 86_400),
        tries=bounded(node, "tries", default=5, least=1, most=20),
    )
    limits = Limits(
        mean=_number(node, "mean", default=MEAN, most=1e3),
        same_top=_number(node, "same_top", default=SAME_TOP, most=100),
    )
    factor = _number(node, "calibrate", default=3, most=1e6)
    return Spec(comparison=comparison, limits=limits, calibrate=factor if "calibrate" in node.node else None)


def args_problem(args: tuple[str, ...]) -> str | None:
    """Why arguments cannot be added to those of the gate; None where they can."""
    own = [text for text in args if text.partition("=")[0] in _OURS]
    return f"{', '.join(own)}: the gate sets it" if own else None


def run(spec: Spec, runner: Observer, base_runner: Observer | None = None) -> Judgement:
    """Make the base where it is not kept, compare, and judge. `base_runner` has the programs that make the base, where
    those are another build's. Raises `MissingError` where that build is not there."""
    with base_of(spec, runner, base_runner) as made_by:
        checked = check(spec, runner, made_by)
    return judgement_of(spec, checked)


@contextlib.contextmanager
def base_of(spec: Spec, runner: Observer, given: Observer | None = None) -> Iterator[Observer]:
    """The runner that makes the base: the one given, that of the build named, or the one at hand."""
    if given is not None or spec.base_build is None:
        yield given or runner
        return
    with runner.beside(spec.base_build) as other:
        yield other


def judgement_of(spec: Spec, checked: Checked) -> Judgement:
    """A comparison as the judgement of a gate."""
    statistics = checked.measured.statistics
    return Judgement(
        verdict=checked.verdict,
        reason=checked.reason,
        actual=figures(statistics) if statistics is not None else "",
        expected=wanted(checked.limits),
        details=details(spec, checked),
        attempts=checked.attempts,
    )


def check(spec: Spec, runner: Observer, base_runner: Observer) -> Checked:
    """One comparison, and where it is asked for the base against itself before it."""
    noise = None
    limits = spec.limits
    comparison = spec.comparison
    if spec.calibrate is not None:
        itself = replace(comparison, test=comparison.base)
        noise = measure(itself, base_runner, base_runner, salt="A/A")
        if noise.statistics is None:
            verdict = Verdict.FAIL if noise.failed and base_runner is runner else Verdict.INVALID
            reason = f"the base against itself: {noise.fault}"
            return Checked(measured=_nothing(noise), verdict=verdict, reason=reason, limits=limits, noise=noise)
        if told := too_noisy(noise.statistics, limits):
            invalid = Verdict.INVALID
            return Checked(measured=_nothing(noise), verdict=invalid, reason=told, limits=limits, noise=noise)
        limits = calibrated(noise.statistics, spec.calibrate, noise.positions)
    measured = measure(comparison, runner, base_runner)
    verdict, reason = judged(measured, limits)
    return Checked(measured=measured, verdict=verdict, reason=reason, limits=limits, noise=noise)


def judged(measured: Measured, limits: Limits) -> tuple[Verdict, str]:
    """The verdict over a measurement, and why."""
    found = measured.statistics
    if found is None:
        return (Verdict.FAIL if measured.failed else Verdict.INVALID), measured.fault
    if not found.finite:
        return Verdict.FAIL, f"the model gives values that are no numbers: {figures(found)}"
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
    """Limits at a multiple of the noise. No noise at all counts as the least that could have been seen: one unit of
    the mean's last digit, one position."""
    mean = max(noise.mean, noise.mean_error, _RESOLUTION) * factor
    others = max(100 - noise.same_top, 100 / positions) * factor
    return Limits(mean=mean, same_top=max(0.0, 100 - others))


def too_noisy(noise: Statistics, limits: Limits) -> str | None:
    """Why nothing can be told from a comparison on this machine; None where it can."""
    if noise.finite and noise.mean < limits.mean and noise.same_top >= limits.same_top:
        return None
    return f"the base differs from itself by as much as is asked about: {figures(noise)}"


def figures(found: Statistics) -> str:
    """A measurement in short."""
    return (
        f"mean KLD {_shown(found.mean)} ± {_shown(found.mean_error)}, "
        f"same top {found.same_top:g} ± {found.same_top_error:g} %"
    )


def wanted(limits: Limits) -> str:
    """Limits in short."""
    return f"mean KLD < {limits.mean:g}, same top ≥ {limits.same_top:g} %"


def details(spec: Spec, checked: Checked) -> dict[str, Json]:
    """What a document should hold of one comparison."""
    measured, comparison = checked.measured, spec.comparison
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
        found["noise"] = {"factor": spec.calibrate, "statistics": _document(checked.noise.statistics)}
    return found


def _document(found: Statistics | None) -> Json:
    """Statistics as JSON, which has no words for what is no number: those are texts."""
    if found is None:
        return None
    values = asdict(found)
    document: dict[str, Json] = {name: _plain(value) for name, value in values.items() if name != "percentiles"}
    document["percentiles"] = {name: _plain(value) for name, value in found.percentiles.items()}
    return document


def _plain(value: float) -> Json:
    return value if math.isfinite(value) else str(value)


def _shown(value: float) -> str:
    return f"{value + 0.0:.2g}"  # no minus zero


def _nothing(noise: Measured) -> Measured:
    """A comparison that was not made."""
    return Measured(context=noise.context, statistics=None, fault=noise.fault, failed=noise.failed, kept=noise.kept)


def _read_text(node: Node) -> bytes:
    name = node.text("text", required=True)
    if name is None:
        return b""
    try:
        return (node.path.parent / name).expanduser().read_bytes()
    except OSError as error:
        node.complain("text", f"{name} cannot be read: {error.strerror}")
        return b""


def _number(node: Node, key: str, *, default: float, most: float) -> float:
    """A number above zero."""
    node.used.append(key)
    value = node.node.get(key, default)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= most:
        return float(value)
    node.complain(key, f"{value!r} is not a number above 0, up to {most:g}")
    return default
