"""A build's provenance, put together from its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

from patchstack.builds.inputs.key import Key, Toolchain
from patchstack.builds.inputs.plan import Plan
from patchstack.builds.inputs.source import Source
from patchstack.builds.proofs.files import Binary
from patchstack.builds.record import provenance
from patchstack.builds.record.provenance import Json, Provenance, Resource, Subject
from patchstack.builds.record.store import LOG


def write_provenance(
    directory: Path,
    *,
    key: Key,
    source: Source,
    plan: Plan,
    toolchain: Toolchain,
    binaries: Iterable[Binary],
    started: datetime,
    finished: datetime,
    log_sha256: str,
    ccache: Mapping[str, int] | None,
) -> Path:
    """Write `provenance.json` beside the binaries. Raises what `provenance.render` raises."""
    statement = Provenance(
        key=key.hex,
        subjects=tuple(Subject(name=one.name, sha256=one.sha256) for one in binaries),
        materials=tuple(_materials(source, toolchain)),
        external=_chosen(plan),
        internal={
            "engine": plan.engine.kind,
            "engineVersion": plan.engine.version,
            "isolated": plan.engine.isolated,
            "jobs": plan.jobs.value,
            "memory": plan.memory.value,
            "cpus": plan.cpus.value,
            "seconds": plan.seconds.value,
            "keyInputs": dict(key.inputs),
        },
        started=started,
        finished=finished,
        byproducts=(
            provenance.file(LOG, log_sha256),
            *((Resource(name="ccache", notes=dict(ccache)),) if ccache is not None else ()),
        ),
    )
    path = directory / provenance.FILE
    provenance.write_provenance(path, statement)
    return path


def _materials(source: Source, toolchain: Toolchain) -> Iterable[Resource]:
    if source.base_commit is not None:
        yield provenance.pin(source.base_commit, tree=source.base_tree, upstream=source.upstream)
    yield Resource(name="source", digest={"gitTree": source.tree}, notes={"series": source.verdict})
    for step in source.steps:
        if step.commit is not None:
            yield Resource(name=f"fork/{step.commit}", digest={"gitCommit": step.commit, "gitTree": step.tree})
            continue
        yield provenance.file(f"patches/{step.file}", step.sha256, gitTreeAfter=step.tree)
    if toolchain.image is not None and toolchain.image_digest is not None:
        yield provenance.image(toolchain.image, toolchain.image_digest)
    if toolchain.base_image is not None and toolchain.base_digest is not None:
        yield provenance.image(toolchain.base_image, toolchain.base_digest, name="base image")
    if toolchain.toolkit_digest is not None:
        yield provenance.file("toolkit", toolchain.toolkit_digest.removeprefix("sha256:"))
    yield provenance.file("toolchain", toolchain.digest.removeprefix("sha256:"), versions=dict(toolchain.versions))


def _chosen(plan: Plan) -> Mapping[str, Json]:
    return {
        "variant": plan.variant,
        "arch": plan.arch.cmake if plan.arch else None,
        "platform": plan.platform.value,
        "cmake": {name: setting.value for name, setting in sorted(plan.cmake.items())},
        "compile": {name: setting.value for name, setting in sorted(plan.compile.items())},
        "targets": list(plan.targets.value),
        "ccache": plan.ccache.value,
    }
