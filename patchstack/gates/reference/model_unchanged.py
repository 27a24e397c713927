"""Where a transcript changed: is it still the same model? KL divergence, measured by itself.

Another order of additions gives another text of the same model. So a gate that compares transcripts may say how the
model is to be measured where one is not its reference's:

    kl: {text: corpus.txt, context: 512, chunks: 20, build: 4b77161d29e1}

Both sides run the gate's model, on the path and with the switches of the state that changed. The base is made by the
build that the reference is of: `build` (`gate record` writes it), or in `accept` the accepted prefix. That build must
give the reference's transcript, else it is no base. A state that is not as another one is measured against that one, on
the same build. With `base`, a model, and no build, the base is that model: a figure to look at, and no evidence.
The verdict of the gate stays what it is.
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
from patchstack.observe.from_build import read_build, shown
from patchstack.observe.layout import Programs
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Attempt, Json, Model
from patchstack.observe.settings import Environment, merged
from patchstack.observe.settings import model as read_model
from patchstack.verdict import Verdict
from patchstack.workspace.mapping import Mapping as Node

NO_BASE = "there is no build to compare with: kl: has no build, which gate record writes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """How a model is measured: text, shape, limits and arguments as in the gate `kl`; the environments of its sides
    are those of the states. `build` makes the base, `base` is its model, where it is another one."""

    kl: kl.Spec
    build: str | None = None
    base: Model | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A state whose transcript changed, with its whole environment. It was held against the state `other`, or against
    its reference: then `gives` says why a build is not the one that the reference is of (None: it is)."""

    state: str
    env: Environment
    other: str | None = None
    other_env: Environment = ()
    gives: Callable[[Observer], str | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was measured of a state. `against` says in words what the base was; `counts`: it is the reference's build,
    so that a PASS says that the model is still the same."""

    state: str
    against: str
    verdict: Verdict
    reason: str
    counts: bool = False
    details: Mapping[str, Json] | None = None
    attempts: tuple[Attempt, ...] = ()

    def document(self) -> dict[str, Json]:
        """As JSON."""
        own: dict[str, Json] = {
            "state": self.state,
            "against": self.against,
            "verdict": str(self.verdict),
            "reason": self.reason,
            "evidence": self.counts,
        }
        return own | dict(self.details or {})


def read_measure(node: Node, models: Mapping[str, Model], prompting: Prompting) -> Measure | None:
    """`kl` of a gate: what the kind `kl` has, without models and environments; `build`, `base`."""
    child = node.mapping("kl")
    if child is None:
        return None
    args = child.texts("args")
    side = Side(model=prompting.model, args=path_args(prompting) if args is None else args)
    base = read_model(child, models, "base") if "base" in child.node else None
    spec = kl.read_measure(child, side, side, context=kl.read_context(child))
    kl.complain_of_shape(child, spec)
    if problem := kl.args_problem(side.args):
        child.complain("args" if args is not None else None, problem)
    if args is None and prompting.models:
        child.complain(None, "the gate's args name models: say in args what llama-perplexity gets instead")
    measure = Measure(kl=spec, build=read_build(child, "build"), base=base)
    child.finish()
    return measure


def gathered(measure: Measure, changed: Sequence[Changed], runner: Observer) -> tuple[Evidence, ...]:
    """Measure every state that changed. What is missing for it makes it INVALID."""
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
    """A judgement, with what was measured beside it. Its verdict stays."""
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
    """Whether all that does not hold is that transcripts changed, and of each it was shown that the model is the same
    as the one of the build that gives the reference."""
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
    """One environment of several, later ones over earlier ones."""
    return tuple(sorted(merged(*parts).items()))


def _evidence(measure: Measure, one: Changed, runner: Observer) -> Evidence:
    if one.other is not None:
        spec = _spec(measure, one.env, one.other_env, base=None)
        return _measured(
            one, spec, f"state {one.other}" if one.other else "the other state", runner, runner, counts=False
        )
    place = _reference(measure, runner)
    spec = _spec(measure, one.env, one.env, base=measure.base)
    if place is None:
        if measure.base is None:
            return _invalid(one, "nothing", NO_BASE)
        return _measured(one, spec, f"model {measure.base.name} on this build", runner, runner, counts=False)
    against = f"build {shown(place)}"
    with runner.beside(place) as other:
        if other.build_digest() == runner.build_digest():
            return _invalid(one, against, "that is this build: a model would be compared with itself")
        if one.gives is not None and (problem := one.gives(other)) is not None:
            return _invalid(one, against, problem)
        return _measured(one, spec, against, runner, other, counts=True)


def _measured(one: Changed, spec: kl.Spec, against: str, runner: Observer, base: Observer, *, counts: bool) -> Evidence:
    measuring = _measuring(runner)
    checked = kl.check(spec, measuring, measuring if base is runner else _measuring(base))
    return Evidence(
        state=one.state,
        against=against,
        verdict=checked.verdict,
        reason=checked.reason,
        counts=counts,
        details=kl.details(spec, checked),
        attempts=checked.attempts,
    )


def _reference(measure: Measure, runner: Observer) -> str | Programs | None:
    known = runner.context.reference
    return known if known is not None else measure.build


def _spec(measure: Measure, env: Environment, base_env: Environment, *, base: Model | None) -> kl.Spec:
    comparison = measure.kl.comparison
    made_of = replace(comparison.base, env=base_env, model=base or comparison.base.model)
    return replace(measure.kl, comparison=replace(comparison, base=made_of, test=replace(comparison.test, env=env)))


def _invalid(one: Changed, against: str, reason: str) -> Evidence:
    return Evidence(state=one.state, against=against, verdict=Verdict.INVALID, reason=reason)


def _measuring(runner: Observer) -> Observer:
    """What is observed through it is the gate `kl`'s, and known to it."""
    return runner.within(replace(runner.context, kind=f"{kl.KIND}/{kl.VERSION}"))
