"""Comparisons without real runs: plans, pairs and records as `bench ab` writes them, with figures from the test."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from ruamel.yaml import YAML

from patchstack.bench.declare import read_workloads
from patchstack.bench.judge import ALPHA
from patchstack.bench.pairs import PairRecord, RunRecord, order, pair_file, salt
from patchstack.bench.plan import Plan, PlanRow, PlanSide, named, write_plan
from patchstack.bench.workload import Workload
from patchstack.builds.record.store import Stored
from patchstack.evidence.key import key_of
from patchstack.evidence.store import Observations, Record
from patchstack.files.atomic import replace_file
from patchstack.files.places import cache_places
from patchstack.observe.from_build import programs_of
from patchstack.workspace import Workspace
from patchstack.workspace.node import Node

MACHINE = "linux/amd64; a processor; no gpu"
WORKLOADS = """\
workloads:
  quick: {kind: command, program: speed, figures: {rate: "^rate: ([0-9.]+)$"}, demand: keep}
"""


def quick(**changes: Any) -> Workload:
    """Return the workload `quick`, as `patchstack.yaml` declares it."""

    document = YAML().load(WORKLOADS)
    node = Node(document["workloads"], Path("patchstack.yaml"), "workloads.", [])
    workspace = Workspace(path=Path("patchstack.yaml"), series=(), workloads=node)
    return msgspec.structs.replace(read_workloads(workspace)["quick"].workload, **changes)


def observations() -> Observations:
    """Return the store of runs."""
    return Observations(cache_places().observations, cache_places().outputs)


def a_comparison(
    a: Stored,
    b: Stored,
    ratio: float = 1.05,
    *,
    pairs: int = 12,
    env: Mapping[str, str] | None = None,
    directories: bool = False,
    seed: int = 7,
    workload: Workload | None = None,
    rows: Sequence[PlanRow] = (PlanRow(name="rate", primary=True, margin=0.01, guard_margin=0.03),),
    alpha: float = ALPHA,
) -> Path:
    """Write a comparison of two builds, in which B is `ratio` times as fast, and return its directory."""
    sides = [_side(one, dict(env or {}), directories) for one in (a, b)]
    plan = a_plan(sides[0], sides[1], workload=workload or quick(), rows=rows, alpha=alpha, seed=seed)
    directory = write_plan(plan, cache_places().comparisons)
    for number in range(1, pairs + 1):
        coin = plan.coin(number)
        runs = []
        for slot in order(plan, coin):
            stored, side = (a, plan.a) if slot == "a" else (b, plan.b)
            rate = (1000 + number % 3) * (ratio if slot == "b" else 1)
            kept = _kept(plan, stored, side, salt(plan, number, slot), f"rate: {rate:.3f}\n".encode())
            output = hashlib.sha256(kept.blobs["stdout"] + b"\0" + kept.blobs["stderr"]).hexdigest()
            runs.append(RunRecord(slot=slot, key=kept.key, output=output, watched=None))
        pair = PairRecord(
            comparison=plan.comparison,
            number=number,
            coin=coin,
            began=plan.made,
            usual_clock=None,
            runs=tuple(runs),
        )
        replace_file(directory / pair_file(number), pair.indented)
    return directory


def a_plan(
    a: PlanSide,
    b: PlanSide,
    *,
    workload: Workload,
    rows: Sequence[PlanRow],
    alpha: float = ALPHA,
    seed: int = 7,
) -> Plan:
    """Return a plan without reference runs and without a demand."""
    return named(
        Plan(
            comparison="",
            made=f"2026-01-02T03:04:{seed % 60:02}+00:00",
            machine=MACHINE,
            engine="host",
            image=None,
            kind="bench command/1",
            workload=workload,
            a=a,
            b=b,
            reference=None,
            reference_workload=None,
            reference_within=0.1,
            rows=tuple(rows),
            alpha=alpha,
            most=48,
            demand=None,
            seed=seed,
            noise=False,
            unplanned="",
        )
    )


def _side(stored: Stored, env: dict[str, str], directories: bool) -> PlanSide:
    programs = programs_of(stored, isolated=False)
    return PlanSide(
        label=programs.name,
        key=None if directories else stored.key,
        directory=str(programs.directory),
        programs=programs.digest(),
        env=env,
    )


def _kept(plan: Plan, stored: Stored, side: PlanSide, salt_of_run: str, stdout: bytes) -> Record:
    ingredients = {
        "schema": "patchstack.observation-key/2",
        "programs": dict(programs_of(stored, isolated=False).loaded().all()),
        "program": plan.workload.program,
        "args": [*plan.workload.args],
        "env": {**plan.workload.env, **side.env},
        "models": {},
        "inputs": {},
        "keeps": [],
        "brings": [],
        "requests": [],
        "hardware": MACHINE,
        "kind": plan.kind,
        "salt": salt_of_run,
    }
    facts = {"ending": "exited", "code": 0, "seconds": 1.0, "overflowed": False, "replies": [], "made": plan.made}
    record = Record(
        key=key_of(ingredients), ingredients=ingredients, facts=facts, blobs={"stdout": stdout, "stderr": b""}
    )
    observations().keep(record)
    return record
