"""Check that the packages and programs for an acceptance exist, before anything is compiled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from patchstack.builds.inputs.toolchain import IMAGE_TOOLKIT
from patchstack.builds.proofs.prove import find_cuobjdump
from patchstack.builds.run.build import Inputs, missing_packages
from patchstack.causes import AcceptanceNotReady
from patchstack.engine.protocol import EnginePath, Job
from patchstack.gates.registry import kind_of
from patchstack.gates.suite import Suite
from patchstack.installed import install_hint
from patchstack.tasks import task
from patchstack.workflow.brought_gates import no_sandbox
from patchstack.workflow.candidate.accept import Terms
from patchstack.workflow.candidate.candidate import CandidateRange
from patchstack.workflow.machine import ProvingMachine

DEVICE_PROOFS = frozenset({"cuda-arch", "cuda-ptx", "fp4"})
"""The proofs that need cuobjdump."""


@task("checking the requirements")
def check_ready(way: CandidateRange, terms: Terms, machine: ProvingMachine) -> None:
    """Raise `MissingError` with a list of everything that is missing here.

    A build that is already stored needs nothing. Also raises the errors of `ProvingMachine.inputs`.
    """
    about = machine.connection.engine.about()
    if untrusted := [new.title for new in terms.brings.gates if new.brought is not None and no_sandbox(about)]:
        raise AcceptanceNotReady(
            "the acceptance cannot start: requirements are missing",
            problems=[f"a sandbox for {title}: the engine {about.spec} has none" for title in untrusted],
            hint="use --engine docker, or ask a maintainer to add the gate to the policy in a separate change",
        )
    unknown: list[Inputs] = []
    have: set[str] = set()
    for commit in (way.before, way.head):
        inputs = machine.inputs(way.source(commit))
        found = machine.store.find(inputs.key.hex)
        if found is None:
            unknown.append(inputs)
        else:
            # Also add the links in the directory, because a program may have several names.
            have |= {one.name for one in found.programs.iterdir()} if found.programs.is_dir() else set()
            have |= {Path(one.name).name for one in found.record.binaries}
    missing = list(_missing(unknown, terms, machine, have))
    if missing:
        raise AcceptanceNotReady(
            "the acceptance cannot start: requirements are missing",
            problems=missing,
            hint=f"{install_hint('build')}; run 'patchstack doctor' to see what else is missing",
        )


def _missing(unknown: Sequence[Inputs], terms: Terms, machine: ProvingMachine, have: set[str]) -> Iterator[str]:
    """Yield what is missing for the builds that must be made, and for the suite on them."""
    if not unknown:
        return
    for package in missing_packages():
        yield f"the Python package {package}, which proves and records a build"
    inputs = unknown[-1]
    if not terms.unproven >= DEVICE_PROOFS and inputs.plan.cuda and not _disassembles(inputs, machine):
        yield "cuobjdump, which shows the GPU code of a build: it is neither here nor in the toolkit of the build"
    asked = (
        *(terms.known_gates.gates if terms.known_gates is not None else ()),
        *(one.gate for one in terms.brings.gates),
    )
    if asked:
        targets = {*inputs.plan.targets.value, *_optional(inputs)}
        if "all" not in targets:
            for program, gates in not_built(Suite(name="", what="", gates=asked), targets | have).items():
                yield f"{program}, which {', '.join(gates)} runs: no target of variant {inputs.plan.variant} builds it"


def not_built(suite: Suite, programs: set[str]) -> dict[str, list[str]]:
    """Return the programs that a suite needs and that `programs` lacks.

    Each program is listed with the names of the gates that run it.
    """
    found: dict[str, list[str]] = {}
    for gate in suite.gates:
        for program in kind_of(gate.kind).programs(gate.settings):
            if program not in programs:
                found.setdefault(program, []).append(gate.name)
    return found


def _optional(inputs: Inputs) -> tuple[str, ...]:
    return inputs.plan.optional_targets.value if inputs.plan.optional_targets is not None else ()


def _disassembles(inputs: Inputs, machine: ProvingMachine) -> bool:
    """Return whether cuobjdump exists here or in the toolkit of the build's engine."""
    plan = inputs.plan
    if find_cuobjdump() is not None:
        return True
    if not plan.engine.isolated:
        return plan.toolkit is not None and (Path(plan.toolkit.value) / "bin" / "cuobjdump").is_file()
    job = Job(
        what="cuobjdump",
        argv=("test", "-x", f"{IMAGE_TOOLKIT}/bin/cuobjdump"),
        image=inputs.toolchain.image_digest,
        platform=plan.platform.value,
        paths=(EnginePath(source=plan.toolkit.value, target=IMAGE_TOOLKIT),) if plan.toolkit is not None else (),
    )
    return machine.connection.engine.run(job, lambda _: None).ok
