"""The gate `drift`: the KL divergence at several contexts. What is small at 256 tokens can grow with every token that
a state is carried on (the notebook's recurrent states in bf16 passed short and failed long)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds import kl
from patchstack.llama.kl import comparison_problem
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Json, Model
from patchstack.verdict import Verdict
from patchstack.workspace.mapping import Mapping as Node

KIND = "drift"
VERSION = 1
CONTEXTS = (256, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The comparison, whose own context does not count, and the contexts in tokens, ascending."""

    kl: kl.Spec
    contexts: tuple[int, ...] = CONTEXTS


def read(node: Node, models: Mapping[str, Model]) -> Spec:
    """`contexts` (a list of whole numbers), and what `kl` has, but for `context`."""
    node.used.append("contexts")
    given = node.node.get("contexts", list(CONTEXTS))
    contexts = CONTEXTS
    if not isinstance(given, list) or not given or not all(type(one) is int for one in given):
        node.complain("contexts", "not a list of whole numbers")
    else:
        contexts = tuple(given)
    spec = Spec(kl=kl.read_spec(node, models, context=contexts[0]), contexts=contexts)
    for problem in spec_problems(spec):
        node.complain("contexts" if "contexts" in node.node else None, problem)
    node.finish()
    return spec


def spec_problems(spec: Spec) -> list[str]:
    """What is wrong with the contexts."""
    comparison = spec.kl.comparison
    found = [
        comparison_problem(context, comparison.batch, comparison.ubatch, comparison.chunks) for context in spec.contexts
    ]
    if list(spec.contexts) != sorted(set(spec.contexts)):
        found.append(f"{', '.join(map(str, spec.contexts))} do not ascend")
    return [problem for problem in found if problem is not None]


def run(spec: Spec, runner: Observer, base_runner: Observer | None = None) -> Judgement:
    """Compare at every context, also after one that fails, and judge."""
    specs = [replace(spec.kl, comparison=replace(spec.kl.comparison, context=context)) for context in spec.contexts]
    with kl.base_of(spec.kl, runner, base_runner) as made_by:
        checked = [kl.check(one, runner, made_by) for one in specs]
    return judged(specs, checked)


def judged(specs: Sequence[kl.Spec], checked: Sequence[kl.Checked]) -> Judgement:
    """FAIL where any context is, else INVALID where any is."""
    verdicts = [one.verdict for one in checked]
    verdict = next((one for one in (Verdict.FAIL, Verdict.INVALID) if one in verdicts), Verdict.PASS)
    told = [f"at {one.measured.context}: {one.reason}" for one in checked if one.verdict is not Verdict.PASS]
    if not told:
        told = [f"{checked[-1].reason} at {checked[-1].measured.context}, and no worse than allowed at any context"]
    grows = growth(checked)
    means = [(one.measured.context, one.measured.statistics) for one in checked]
    rows: list[Json] = [
        {"verdict": str(one.verdict), "reason": one.reason, **kl.details(spec, one)}
        for spec, one in zip(specs, checked, strict=True)
    ]
    return Judgement(
        verdict=verdict,
        reason="; ".join([*told, *([grows] if grows else [])]),
        actual=", ".join(
            f"{context}: {found.mean + 0.0:.2g}" if found else f"{context}: ?" for context, found in means
        ),
        expected=kl.wanted(checked[-1].limits),
        details={"contexts": rows, "grows": grows is not None},
        attempts=tuple(attempt for one in checked for attempt in one.attempts),
    )


def growth(checked: Sequence[kl.Checked]) -> str | None:
    """Words for a mean divergence that grows with every step of the context, by more than its errors in all; None
    where it does not, or was not measured at three contexts or more."""
    found = [(one.measured.context, one.measured.statistics) for one in checked]
    known = [(context, one.mean, one.mean_error) for context, one in found if one is not None and one.finite]
    if len(known) < 3 or any(later[1] <= former[1] for former, later in pairwise(known)):
        return None
    (first, least, error), (last, most, other) = known[0], known[-1]
    if most - least <= 2 * (error**2 + other**2) ** 0.5:
        return None
    return f"the mean grows with the context: {least:.2g} at {first} to {most:.2g} at {last}"


def table_rows(judgement: Judgement) -> list[list[str]]:
    """A row a context: context, verdict, positions, mean, 99.9 % and maximum of the divergences, same top."""
    contexts = judgement.details.get("contexts")
    rows = []
    for one in contexts if isinstance(contexts, list) else ():
        found = one["statistics"]
        figures = ["?"] * 4
        if found is not None:
            figures = [f"{found['mean']} ± {found['mean_error']}", found["percentiles"]["99.9%"], found["maximum"]]
            figures.append(f"{found['same_top']} ± {found['same_top_error']} %")
        rows.append([str(cell) for cell in (one["context"], one["verdict"], one["positions"], *figures)])
    return rows
