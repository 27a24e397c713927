"""Read the comparisons that `accept:` requires of a candidate, and check a comparison against them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from patchstack.bench.declare import Declared, read_workloads
from patchstack.bench.judge import ALPHA, Demand
from patchstack.bench.plan import Plan, PlanRow, PlanSide
from patchstack.bench.workload import Workload
from patchstack.causes import SettingsUnusable
from patchstack.observe.settings import variable_problem
from patchstack.workspace import Workspace

_VARIANT = ("absent", "tree")
"""The build inputs that may differ between the two sides of a required comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchTerm:
    """A comparison that a candidate needs.

    `name` is the name of the workload. `env` contains the environment variables of both sides. `variant` is the variant
    of the builds; None means the variant that the gates use.
    """

    name: str
    declared: Declared
    demand: Demand
    env: Mapping[str, str]
    variant: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tied:
    """The required sides of a comparison: side A is before the candidate, side B is the candidate.

    `trees` contains the source tree of each side. `keys` contains the build key of each side. If `keys` is None, any
    two builds that differ only in the source tree are accepted.
    """

    trees: tuple[str, str]
    keys: tuple[str, str] | None


def read_terms(workspace: Workspace) -> tuple[BenchTerm, ...]:
    """Return the comparisons that every candidate needs. Raises a `ConfigError` that lists every problem with its
    line."""
    if workspace.accept is None:
        return ()
    problems: list[str] = []
    node = workspace.accept.complaining_to(problems)
    declared = read_workloads(workspace)
    found = []
    for one in node.items("bench"):
        name, demand, variant = one.text("workload", required=True), one.text("demand"), one.text("variant")
        env = dict(one.settings("env"))
        for variable in env:
            if problem := variable_problem(variable):
                one.complain("env", f"{variable}: {problem}")
        one.finish()
        if name is None:
            continue
        if name not in declared:
            near = difflib.get_close_matches(name, declared, 1)
            there = f"perhaps you meant {near[0]}" if near else f"there are {', '.join(declared) or 'none'}"
            one.complain("workload", f"`workloads:` has no {name}; {there}")
            continue
        asked = demand or declared[name].demand
        if asked is None or asked not in list(Demand):
            one.complain("demand", f"{asked!r} is neither {' nor '.join(Demand)}" if asked else "it is missing")
            continue
        found.append(
            BenchTerm(name=name, declared=declared[name], demand=Demand(asked), env=env, variant=variant or None)
        )
    node.finish()
    if problems:
        raise SettingsUnusable(f"{workspace.path.name} cannot be used", problems=problems)
    return tuple(found)


def tie_problem(plan: Plan, tied: Tied, builds: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return the reason why a comparison does not compare the required builds. Return None if it compares them.

    The required builds are the build before the candidate and the candidate's build. `builds` contains the inputs of
    builds, by key. A key is computed from the inputs, so the inputs cannot belong to a different build.
    """
    sides = (("A", plan.a, "the build before the candidate"), ("B", plan.b, "the candidate's build"))
    inputs = []
    for number, (letter, side, what) in enumerate(sides):
        if side.key is None:
            return f"side {letter} is a directory of programs, not a build"
        if tied.keys is not None and side.key != tied.keys[number]:
            return f"side {letter} is build {side.key[:12]}, not {what}, {tied.keys[number][:12]}"
        made = builds.get(side.key)
        if made is None:
            return f"side {letter} is build {side.key[:12]}, whose inputs are not recorded on this machine"
        if made.get("tree") != tied.trees[number]:
            return f"side {letter} is build {side.key[:12]}, whose source is not that of {what}"
        inputs.append({name: value for name, value in made.items() if name not in _VARIANT})
    if inputs[0] != inputs[1]:
        differ = sorted(
            name for name in inputs[0].keys() | inputs[1].keys() if inputs[0].get(name) != inputs[1].get(name)
        )
        return f"the builds differ in more than the source: {', '.join(differ)}"
    return None


def term_problem(plan: Plan, term: BenchTerm) -> str | None:
    """Return the reason why a planned comparison does not meet the requirement. Return None if it does."""
    for letter, side in (("A", plan.a), ("B", plan.b)):
        if side.env != dict(term.env):
            return f"side {letter} ran with {_words(side)}, not {_of(term.env)}"
    if plan.noise:
        return "it measures a side against itself"
    if plan.unplanned:
        return f"it was not judged as planned: {plan.unplanned}"
    if plan.alpha > ALPHA:
        return f"its error rate alpha is {100 * plan.alpha:g}%, more than {100 * ALPHA:g}%"
    if not same_workload(plan.workload, term.declared.workload):
        return f"its workload is not {term.name} as declared in patchstack.yaml"
    wanted = tuple(
        PlanRow(name=row.name, primary=row.primary, margin=row.margin, guard_margin=row.guard_margin)
        for row in term.declared.rows
    )
    if plan.rows != wanted:
        return f"its rows or margins are not those of workload {term.name}"
    return None


def same_workload(ran: Workload, declared: Workload) -> bool:
    """Return whether the workload of a comparison is the declared workload.

    Models are compared by name and digest, not by path. A model that is declared without a digest is compared only by
    name.
    """
    if len(ran.models) != len(declared.models):
        return False
    for one, other in zip(ran.models, declared.models, strict=True):
        if one.name != other.name or other.sha256 not in (None, one.sha256):
            return False
    return msgspec.structs.replace(ran, models=()) == msgspec.structs.replace(declared, models=())


def _words(side: PlanSide) -> str:
    return _of(side.env)


def _of(env: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(env.items())) or "no variables"
