"""Judge the comparisons that `accept:` requires.

Find them on this machine, check that they compare the two builds, and judge them again. A verdict in a file is not
trusted. A comparison counts only with its plan, its pairs and its runs, and only if its sides are the builds of the
candidate and of the commit before it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from patchstack.bench.bundle import pack, read_builds, unpack
from patchstack.bench.judge import Demand, Outcome
from patchstack.bench.pairs import A, B, recorded_pairs
from patchstack.bench.plan import Plan, read_plan
from patchstack.bench.terms import BenchTerm, Tied, term_problem, tie_problem
from patchstack.builds.inputs.plan import Plan as BuildPlan
from patchstack.builds.record.store import Store, Stored
from patchstack.causes import ComparisonDamaged
from patchstack.errors import PatchstackError
from patchstack.evidence.outputs import Outputs
from patchstack.evidence.store import Observations
from patchstack.files.places import cache_places
from patchstack.observe.from_build import programs_of
from patchstack.tasks import task
from patchstack.verdict import Verdict
from patchstack.workflow.bench import Progress, comparisons_in, progress_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The result of one required comparison, for a step of the acceptance.

    `detail` is the explanation of the verdict. `evidence` is JSON.
    """

    name: str
    verdict: Verdict
    detail: str
    evidence: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A comparison that matches the requirement.

    `verdict` is PASS if the comparison meets the demand, INVALID if it is undecided or cannot be judged, and FAIL in
    all other cases.
    """

    directory: Path
    progress: Progress
    verdict: Verdict

    @property
    def words(self) -> str:
        """The outcome and its reason, as text."""
        judged = self.progress.judged
        return f"comparison {self.progress.plan.comparison}: {judged.outcome}, {judged.reason}"


def measured(
    term: BenchTerm, built: Sequence[Stored], trees: tuple[str, str], kept: Outputs, planned: BuildPlan | None
) -> Measured:
    """Return the result of one required comparison.

    Every matching comparison of the two builds counts. The verdict is FAIL if any comparison fails the demand.
    Otherwise, the verdict is PASS if at least one comparison meets the demand, and INVALID if none does. `built`
    contains the build before the candidate, then the candidate's build. `trees` contains their trees. The chosen
    comparison is stored in `kept`. `planned` is the build plan of the term's variant. It is None if the term names no
    variant.
    """
    keys = (built[0].key, built[1].key)
    tied = Tied(trees=trees, keys=keys if term.variant is None else None)
    name = f"bench {term.name}"
    places = cache_places()
    observations = Observations(places.observations, places.outputs)
    with task(name, key=name, announced=True):
        drawn, other = _drawn(term, tied, built, observations, planned)
    chosen = next((one for want in (Verdict.FAIL, Verdict.PASS) for one in drawn if one.verdict is want), None)
    chosen = chosen or next(iter(drawn), None)
    if chosen is None:
        why = "; ".join(other[:3]) or "this machine has none of this workload"
        detail = f"no comparison of {_pair(term, keys, trees)} on {term.name}: {why}; {_how(term, keys)}"
        return Measured(name=name, verdict=Verdict.INVALID, detail=detail, evidence={"bench": term.name})
    more = f" ({len(drawn)} comparisons count)" if len(drawn) > 1 else ""
    builds = _inputs(chosen.directory, built)
    content = pack(chosen.directory, observations, builds)
    return Measured(
        name=name,
        verdict=chosen.verdict,
        detail=f"{_demand_words(term, chosen.verdict)}: {chosen.words}{more}",
        evidence={
            "bench": term.name,
            "demand": str(term.demand),
            "env": dict(term.env),
            "variant": term.variant,
            "comparison": chosen.progress.plan.comparison,
            "bundle": {"sha256": kept.keep(content), "size": len(content)},
        },
    )


def drawn_again(
    content: bytes,
    demand: Demand,
    trees: tuple[str, str],
    keys: tuple[str, str] | None,
    files: tuple[Mapping[str, str], Mapping[str, str]],
) -> tuple[Verdict, str]:
    """Judge a comparison from its file, as `accept` does. Return the verdict and its explanation.

    The verdict says whether the comparison meets `demand`. `trees` and `keys` identify the two builds. `keys` is None
    if the builds are of a different variant. `files` contains the digests of the files of both builds, by name.

    Raises `PatchstackError` for a file that is damaged or belongs to other builds.
    """
    with tempfile.TemporaryDirectory(prefix="patchstack-") as place:
        root = Path(place)
        observations = Observations(root / "observations", root / "outputs")
        directory = unpack(content, root / "comparisons", observations)
        plan = read_plan(directory)
        if problem := tie_problem(plan, Tied(trees=trees, keys=keys), read_builds(directory)):
            raise ComparisonDamaged(f"comparison {plan.comparison} cannot be used: {problem}")
        one = _outcome(directory, plan, demand, observations)
        if keys is not None and (problem := programs_problem(one.progress, observations, files)):
            raise ComparisonDamaged(f"comparison {plan.comparison} cannot be used: {problem}")
        return one.verdict, one.words


def programs_problem(
    progress: Progress, observations: Observations, files: tuple[Mapping[str, str], Mapping[str, str]]
) -> str | None:
    """Return the problem if a run loaded a file from outside its build, or None if no run did.

    `files` contains the digests of all files of the builds of A and B, by name.
    """
    for pair in progress.pairs:
        for run in pair.record.runs:
            kept = observations.find(run.key) if run.slot in (A, B) else None
            loaded = kept.ingredients.get("programs") if kept is not None else None
            of_build = files[0] if run.slot == A else files[1]
            if isinstance(loaded, Mapping) and any(of_build.get(name) != digest for name, digest in loaded.items()):
                return f"run {run.slot} of pair {pair.record.number} used other programs than those of its build"
    return None


def variant_problem(inputs: Mapping[str, Any], plan: BuildPlan) -> str | None:
    """Return how the inputs of a build differ from the variant, or None if they do not differ."""
    wanted = {
        "platform": plan.platform.value,
        "architecture": plan.arch.cmake if plan.arch else None,
        "cmake": {name: setting.value for name, setting in plan.cmake.items()},
        "compile": {name: setting.value for name, setting in plan.compile.items()},
        "targets": sorted(set(plan.targets.value)),
    }
    differ = [name for name, value in wanted.items() if inputs.get(name) != value]
    return f"its builds are not of variant {plan.variant}: they differ in {', '.join(differ)}" if differ else None


def _drawn(
    term: BenchTerm,
    tied: Tied,
    built: Sequence[Stored],
    observations: Observations,
    planned: BuildPlan | None,
) -> tuple[list[Drawn], list[str]]:
    """Return the matching comparisons, newest first.

    Also return the reasons why other comparisons of the workload do not match.
    """
    found: list[Drawn] = []
    other: list[str] = []
    files = (_files(built[0]), _files(built[1]))
    for directory in comparisons_in(cache_places().comparisons):
        try:
            plan = read_plan(directory)
            if plan.workload.name != term.name:
                continue
            inputs = _inputs(directory, built, plan)
            problem = tie_problem(plan, tied, inputs) or term_problem(plan, term)
            if problem is None and planned is not None:
                problem = variant_problem(inputs[plan.b.key or ""], planned)
            if problem is not None:
                other.append(f"{plan.comparison}: {problem}")
                continue
            one = _outcome(directory, plan, term.demand, observations)
            if tied.keys is not None and (problem := programs_problem(one.progress, observations, files)):
                other.append(f"{plan.comparison}: {problem}")
                continue
            found.append(one)
        except PatchstackError as error:
            other.append(f"{directory.name}: {error.message}")
    return found, other


def _outcome(directory: Path, plan: Plan, demand: Demand, observations: Observations) -> Drawn:
    """Judge a comparison again under a demand. Raises the errors of `recorded_pairs`."""
    asked = msgspec.structs.replace(plan, demand=str(demand))
    progress = progress_of(asked, directory, recorded_pairs(plan, directory, observations))
    judged = progress.judged
    if judged.demand_met:
        verdict = Verdict.PASS
    elif judged.outcome in (Outcome.INVALID, Outcome.UNDECIDED):
        verdict = Verdict.INVALID
    else:
        verdict = Verdict.FAIL
    return Drawn(directory=directory, progress=progress, verdict=verdict)


def _inputs(directory: Path, built: Sequence[Stored], plan: Plan | None = None) -> dict[str, dict[str, Any]]:
    """Return the inputs of builds, by key.

    The inputs come from the builds in `built`, from the store, and from the comparison itself.
    """
    found = read_builds(directory)
    for one in built:
        found[one.key] = dict(one.record.inputs)
    store = Store(cache_places().builds)
    for side in (plan.a, plan.b) if plan is not None else ():
        if side.key is not None and side.key not in found and (stored := store.find(side.key)) is not None:
            found[side.key] = dict(stored.record.inputs)
    return found


def _files(stored: Stored) -> Mapping[str, str]:
    """Return the digests of a build's files, by name."""
    return programs_of(stored, isolated=False).loaded().all()


def _demand_words(term: BenchTerm, verdict: Verdict) -> str:
    match verdict:
        case Verdict.PASS:
            return f"the demand {term.demand} is met"
        case Verdict.FAIL:
            return f"the demand {term.demand} is not met"
        case _:
            return f"the demand {term.demand} cannot be judged"


def _pair(term: BenchTerm, keys: tuple[str, str], trees: tuple[str, str]) -> str:
    if term.variant is None:
        return f"build {keys[0][:12]} with build {keys[1][:12]}"
    return f"two builds of variant {term.variant}, of trees {trees[0][:12]} and {trees[1][:12]}"


def _how(term: BenchTerm, keys: tuple[str, str]) -> str:
    a, b = ("KEY", "KEY") if term.variant is not None else (keys[0][:12], keys[1][:12])
    env = "".join(f" --env {name}={value}" for name, value in sorted(term.env.items()))
    return f"patchstack bench ab --a {a} --b {b} -w {term.name}{env} makes one"
