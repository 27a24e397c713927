"""Check by KL divergence whether the model is still the same after a transcript changed.

The same model may produce a different text if additions run in a different order. So a gate that compares transcripts
may define how to measure the model if a transcript changed:

    kl: {text: corpus.txt, context: 512, chunks: 20, build: 4b77161d29e1}

Both sides run the gate's model, with the compute path and the switches of the changed state. The build of the reference
runs the base. In `accept`, this is the build of the accepted prefix. In other commands, it is `build`, which `gate
record` writes. A build that does not give the reference's transcript cannot run the base. A state that differs from
another state is measured against the other state, on the same build. If `base` names a model and no build is set, the
base is this model, and the result does not count as evidence. The verdict of the gate does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from patchstack.errors import MissingError, NotHeldError
from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds import kl
from patchstack.llama.compute_path import path_args
from patchstack.llama.kl import Side
from patchstack.llama.prompt import Prompting
from patchstack.observe.declared import BuildName, Group, Setting, Values
from patchstack.observe.from_build import shown
from patchstack.observe.layout import Programs
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Attempt, Json, Model
from patchstack.observe.settings import Environment, merged
from patchstack.verdict import Verdict

NO_BASE = "there is no build to compare with: kl: has no build, which gate record writes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """How to measure a model.

    `kl` contains the text, the lengths of contexts and batches, the limits and the arguments. The environments come
    from the states. `build` names the build that runs the base. `base` is the model of the base, if it is a different
    model.
    """

    kl: kl.KlSettings
    build: str | None = None
    base: Model | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A state whose transcript changed, with its complete environment.

    The state was compared with the state `other`, or with its reference. If it was compared with its reference, `gives`
    returns why a build does not produce the reference, or None if the build produces it.
    """

    state: str
    env: Environment
    other: str | None = None
    other_env: Environment = ()
    gives: Callable[[Observer], str | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The measurement of a changed state.

    `against` describes the base. `counts` is true if the build of the reference ran the base. Only then does a PASS
    mean that the model is unchanged.
    """

    state: str
    against: str
    verdict: Verdict
    reason: str
    counts: bool = False
    details: Mapping[str, Json] | None = None
    attempts: tuple[Attempt, ...] = ()

    def document(self) -> dict[str, Json]:
        """Return the evidence as JSON."""
        own: dict[str, Json] = {
            "state": self.state,
            "against": self.against,
            "verdict": str(self.verdict),
            "reason": self.reason,
            "evidence": self.counts,
        }
        return own | dict(self.details or {})


BUILD = Setting[str | None](
    name="build",
    form=BuildName(),
    default=None,
    on_command_line=False,
    help="The build of the reference; `gate record` writes it.",
)
BASE = replace(
    kl.BASE,
    required=False,
    on_command_line=False,
    help="A model to compare with if no build is named. The result is not evidence.",
)
MEASURED = Setting[Values | None](
    name="kl",
    form=Group(settings=(kl.TEXT, kl.CONTEXT, *kl.SHAPE, kl.ARGS, *kl.LIMITS, BUILD, BASE)),
    default=None,
    on_command_line=False,
    help="How to measure the model if the transcript changed.",
)


def measure_of(values: Values, prompting: Prompting) -> Measure | None:
    """Return the measurement from a gate's setting `kl`.

    `kl` contains settings of the kind `kl`, `build` and `base`. The judged model comes from the gate, and so do the
    arguments if `kl` has none. Return None if the gate has no setting `kl`.
    """
    own = values[MEASURED]
    if own is None:
        return None
    said = own.chosen(kl.ARGS)
    side = Side(model=prompting.model, args=own[kl.ARGS] if said else path_args(prompting))
    settings = kl.measured_by(own, side, side, context=own[kl.CONTEXT])
    kl.complain_of_shape(own, settings)
    if problem := kl.args_problem(side.args):
        own.complain("args" if said else "", problem)
    if not said and prompting.models:
        own.complain("", "the gate's args name models, so args for llama-perplexity must be set under kl:")
    return Measure(kl=settings, build=own[BUILD], base=own[BASE] if own.chosen(BASE) else None)


def gathered(measure: Measure, changed: Sequence[Changed], runner: Observer) -> tuple[Evidence, ...]:
    """Measure every changed state. The result of a state is INVALID if its measurement cannot be made."""
    found = []
    for one in changed:
        try:
            found.append(_evidence(measure, one, runner))
        except (MissingError, NotHeldError) as error:
            place = _reference(measure, runner)
            against = f"build {shown(place)}" if place is not None else "nothing"
            found.append(_invalid(one, against, error.message))
    return tuple(found)


def with_evidence(judgement: Judgement, found: Sequence[Evidence]) -> Judgement:
    """Add measurements to a judgement. The verdict does not change."""
    if not found:
        return judgement
    told = [
        f"KL {f'of {one.state} ' if one.state else ''}against {one.against}: {one.verdict}, {one.reason}"
        for one in found
    ]
    return replace(
        judgement,
        reason="; ".join([judgement.reason, *told]),
        details={**judgement.details, "kl": [one.document() for one in found]},
        attempts=(*judgement.attempts, *(attempt for one in found for attempt in one.attempts)),
    )


def still_the_same(judgement: Judgement) -> bool:
    """Return whether the only failures are changed transcripts that are proven harmless.

    A change is proven harmless if the changed state was measured against the build of its reference, with the result
    PASS.
    """
    states, measured = judgement.details.get("states"), judgement.details.get("kl")
    if not isinstance(states, list) or not isinstance(measured, list):
        return False
    shown = {
        one["state"] for one in measured if isinstance(one, dict) and one["evidence"] and one["verdict"] == Verdict.PASS
    }
    bad = {
        one.get("state", one.get("name")) for one in states if isinstance(one, dict) and one["verdict"] != Verdict.PASS
    }
    return judgement.verdict is Verdict.FAIL and bool(bad) and bad <= shown


def as_environment(*parts: Environment) -> Environment:
    """Merge environments. Later values override earlier values."""
    return tuple(sorted(merged(*parts).items()))


def _evidence(measure: Measure, one: Changed, runner: Observer) -> Evidence:
    if one.other is not None:
        settings = _side_settings(measure, one.env, one.other_env, base=None)
        return _measured(
            one, settings, f"state {one.other}" if one.other else "the other state", runner, runner, counts=False
        )
    place = _reference(measure, runner)
    settings = _side_settings(measure, one.env, one.env, base=measure.base)
    if place is None:
        if measure.base is None:
            return _invalid(one, "nothing", NO_BASE)
        return _measured(one, settings, f"model {measure.base.name} on this build", runner, runner, counts=False)
    against = f"build {shown(place)}"
    with runner.beside(place) as other:
        if other.build_digest() == runner.build_digest():
            return _invalid(one, against, "that is this build: a model would be compared with itself")
        if one.gives is not None and (problem := one.gives(other)) is not None:
            return _invalid(one, against, problem)
        return _measured(one, settings, against, runner, other, counts=True)


def _measured(
    one: Changed, settings: kl.KlSettings, against: str, runner: Observer, base: Observer, *, counts: bool
) -> Evidence:
    measuring = _measuring(runner)
    checked = kl.check(settings, measuring, measuring if base is runner else _measuring(base))
    return Evidence(
        state=one.state,
        against=against,
        verdict=checked.verdict,
        reason=checked.reason,
        counts=counts,
        details=kl.details(settings, checked),
        attempts=checked.attempts,
    )


def _reference(measure: Measure, runner: Observer) -> str | Programs | None:
    known = runner.context.reference
    return known if known is not None else measure.build


def _side_settings(measure: Measure, env: Environment, base_env: Environment, *, base: Model | None) -> kl.KlSettings:
    comparison = measure.kl.comparison
    made_of = replace(comparison.base, env=base_env, model=base or comparison.base.model)
    return replace(measure.kl, comparison=replace(comparison, base=made_of, test=replace(comparison.test, env=env)))


def _invalid(one: Changed, against: str, reason: str) -> Evidence:
    return Evidence(state=one.state, against=against, verdict=Verdict.INVALID, reason=reason)


def _measuring(runner: Observer) -> Observer:
    """Return an observer for measurements. It shares its observations with gates of kind `kl`."""
    return runner.within(replace(runner.context, kind=kl.KIND.key))
