"""Gate kind `drift`: measure the KL divergence at several context lengths.

A divergence that is small at 256 tokens can grow with every token. For example, recurrent states in bf16 passed at
short contexts and failed at long ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from patchstack.gates.judgement import Judgement
from patchstack.gates.kind import JudgementTable, Kind
from patchstack.gates.kinds import kl
from patchstack.llama.kl import PROGRAM, comparison_problem
from patchstack.observe.declared import Models, Setting, Values
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Json
from patchstack.verdict import Verdict
from patchstack.workspace.node import Node

CONTEXTS = (256, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftSettings:
    """The settings of the gate.

    `contexts` are the context lengths in tokens, in ascending order. The context length in `kl` is not used.
    """

    kl: kl.KlSettings
    contexts: tuple[int, ...] = CONTEXTS


@dataclass(frozen=True, slots=True)
class WholeNumbers:
    """The form of a setting that is a list of whole numbers."""

    written: str = "a list of whole numbers"
    option: Any = list[int]

    def read(self, node: Node, name: str, models: Models) -> tuple[int, ...] | None:
        given = node.node.get(name)
        if isinstance(given, list) and given and all(type(one) is int for one in given):
            return tuple(given)
        node.complain(name, "not a list of whole numbers")
        return None

    def convert(self, given: Sequence[int], name: str, models: Models) -> tuple[int, ...]:
        return tuple(given)


CONTEXTS_SETTING = Setting[tuple[int, ...]](
    name="contexts",
    form=WholeNumbers(),
    default=CONTEXTS,
    flag="--context",
    metavar="N",
    help="A context length, in tokens (repeat).",
)


def settings_of(values: Values) -> DriftSettings:
    """Return the settings from values."""
    contexts = values[CONTEXTS_SETTING]
    settings = DriftSettings(kl=kl.compared(values, context=contexts[0]), contexts=contexts)
    values.complain_all(("contexts", problem) for problem in settings_problems(settings))
    kl.complain_of_equal_sides(values, settings.kl)
    return settings


def settings_problems(settings: DriftSettings) -> list[str]:
    """Return the problems in the context lengths."""
    comparison = settings.kl.comparison
    found = [
        comparison_problem(context, comparison.batch, comparison.ubatch, comparison.chunks)
        for context in settings.contexts
    ]
    if list(settings.contexts) != sorted(set(settings.contexts)):
        found.append(f"{', '.join(map(str, settings.contexts))} are not in ascending order")
    return [problem for problem in found if problem is not None]


def run(settings: DriftSettings, runner: Observer) -> Judgement:
    """Compare at every context length, even after a failure, and judge the comparisons."""
    all_settings = [
        replace(settings.kl, comparison=replace(settings.kl.comparison, context=context))
        for context in settings.contexts
    ]
    with kl.base_of(settings.kl, runner) as made_by:
        checked = [kl.check(one, runner, made_by) for one in all_settings]
    return judgement_of_contexts(all_settings, checked)


def judgement_of_contexts(all_settings: Sequence[kl.KlSettings], checked: Sequence[kl.Checked]) -> Judgement:
    """Return FAIL if any context length fails, otherwise INVALID if any is INVALID, otherwise PASS."""
    verdicts = [one.verdict for one in checked]
    verdict = next((one for one in (Verdict.FAIL, Verdict.INVALID) if one in verdicts), Verdict.PASS)
    told = [f"at {one.measured.context}: {one.reason}" for one in checked if one.verdict is not Verdict.PASS]
    if not told:
        told = [f"{checked[-1].reason} at {checked[-1].measured.context}, and no worse than allowed at any context"]
    grows = growth(checked)
    means = [(one.measured.context, one.measured.statistics) for one in checked]
    rows: list[Json] = [
        {"verdict": str(one.verdict), "reason": one.reason, **kl.details(settings, one)}
        for settings, one in zip(all_settings, checked, strict=True)
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
    """Return a sentence that describes a growing divergence, or None.

    The mean divergence grows if it is larger at each longer context, and if its total growth is larger than twice the
    combined standard error of the first and the last mean. Return None if fewer than three context lengths were
    measured.
    """
    found = [(one.measured.context, one.measured.statistics) for one in checked]
    known = [(context, one.mean, one.mean_error) for context, one in found if one is not None and one.finite]
    if len(known) < 3 or any(later[1] <= former[1] for former, later in pairwise(known)):
        return None
    (first, least, error), (last, most, other) = known[0], known[-1]
    if most - least <= 2 * (error**2 + other**2) ** 0.5:
        return None
    return f"the mean grows with the context: {least:.2g} at {first} to {most:.2g} at {last}"


def table_of(judgement: Judgement) -> JudgementTable:
    """Return a table with one row for each context length.

    The first columns are the context length, the verdict and the number of positions. The next three are the mean, the
    99.9th percentile and the maximum of the divergences. The last one is the share of positions with the same most
    probable token.
    """
    contexts = judgement.details.get("contexts")
    rows = []
    for one in contexts if isinstance(contexts, list) else ():
        found = one["statistics"]
        figures = ["?"] * 4
        if found is not None:
            figures = [f"{found['mean']} ± {found['mean_error']}", found["percentiles"]["99.9%"], found["maximum"]]
            figures.append(f"{found['same_top']} ± {found['same_top_error']} %")
        rows.append([str(cell) for cell in (one["context"], one["verdict"], one["positions"], *figures)])
    titles = ("context", "verdict", "positions", "mean KLD", "99.9 %", "maximum", "same top")
    return JudgementTable(titles=titles, rows=rows, folding=3)


KIND = Kind(
    name="drift",
    version=1,
    about="Compare a model with a base at contexts of 256 to 4096 tokens, and check whether they drift apart.",
    settings=(*kl.SETTINGS_BEFORE_CONTEXT, CONTEXTS_SETTING, *kl.SETTINGS_AFTER_CONTEXT),
    make=settings_of,
    run=run,
    programs=lambda settings: (PROGRAM,),
    table=table_of,
)
