"""The record of a build, `build.json`, and what `--json` prints: what was built from what, how, what was proven."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchstack.builds.inputs.key import Key, Toolchain
from patchstack.builds.inputs.plan import Plan
from patchstack.builds.inputs.source import Source
from patchstack.builds.proofs.claim import Proof
from patchstack.builds.proofs.files import Binary
from patchstack.builds.record.store import Stored
from patchstack.verdict import Verdict

SCHEMA = "patchstack.build/1"
BUILT, REJECTED = "built", "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Why the source does not compile: the first real error, and the patch that wrote the line it is at (None: the
    upstream did, or it could not be told). `origin` says so in words; `block` are the lines of the log to show."""

    kind: str
    message: str
    file: str | None
    line: int | None
    patch: str | None
    origin: str
    block: tuple[str, ...]


def options(plan: Plan, toolchain: Toolchain) -> dict[str, Any]:
    """Every resolved option with its value and where it came from."""

    def one(value: Any, origin: str) -> dict[str, Any]:
        return {"value": value, "from": origin}

    found: dict[str, Any] = {
        "variant": one(plan.variant, plan.why),
        "engine": one(plan.engine.endpoint, plan.engine.spec),
        "platform": one(plan.platform.value, plan.platform.origin),
        "targets": one(list(plan.targets.value), plan.targets.origin),
        "jobs": one(plan.jobs.value, plan.jobs.origin),
        "memory": one(plan.memory.value, plan.memory.origin),
        "cpus": one(plan.cpus.value, plan.cpus.origin),
        "time": one(plan.seconds.value, plan.seconds.origin),
        "ccache": one(plan.ccache.value, plan.ccache.origin),
        "toolchain": one(dict(toolchain.versions), toolchain.digest),
    }
    if plan.optional_targets is not None:
        found["optional_targets"] = one(list(plan.optional_targets.value), plan.optional_targets.origin)
    if plan.arch_setting is not None and plan.arch is not None:
        found["arch"] = one(plan.arch.cmake, plan.arch_setting.origin)
    if plan.image is not None:
        found["image"] = {**one(plan.image.value, plan.image.origin), "digest": toolchain.image_digest}
    if plan.toolkit is not None and plan.cuda:
        found["toolkit"] = {**one(plan.toolkit.value, plan.toolkit.origin), "digest": toolchain.toolkit_digest}
    for kind, settings in (("cmake", plan.cmake), ("compile", plan.compile)):
        found[kind] = {name: one(setting.value, setting.origin) for name, setting in sorted(settings.items())}
    return found


def make_record(
    *,
    key: Key,
    source: Source,
    plan: Plan,
    toolchain: Toolchain,
    started: str,
    finished: str,
    seconds: Mapping[str, float],
    ccache: Mapping[str, int] | None,
    binaries: Iterable[Binary],
    proofs: Iterable[Proof],
    rejection: Rejection | None,
) -> dict[str, Any]:
    """The record as it is stored. Times are RFC 3339 in UTC, `seconds` wall time of each part."""
    return {
        "schema": SCHEMA,
        "key": key.hex,
        "status": REJECTED if rejection is not None else BUILT,
        "engine": {
            "spec": plan.engine.spec,
            "kind": plan.engine.kind,
            "endpoint": plan.engine.endpoint,
            "version": plan.engine.version,
            "platform": plan.engine.platform,
        },
        "variant": plan.variant,
        "platform": plan.platform.value,
        "arch": plan.arch.cmake if plan.arch else None,
        "source": {
            "label": source.label,
            "tree": source.tree,
            "pin": source.base_commit,
            "upstream": source.upstream,
            "series": source.verdict,
            "patches": [{"file": step.file, "sha256": step.sha256, "tree": step.tree} for step in source.steps],
            "absent": list(source.absent),
        },
        "options": options(plan, toolchain),
        "inputs": dict(key.inputs),
        "notes": [*source.notes, *plan.notes],
        "started": started,
        "finished": finished,
        "wall_s": round(sum(seconds.values()), 3),
        "seconds": dict(seconds),
        "ccache": dict(ccache) if ccache is not None else None,
        "binaries": [{"name": one.name, "sha256": one.sha256, "size": one.size} for one in binaries],
        "proofs": [{"id": one.id, "verdict": str(one.verdict), "detail": one.detail} for one in proofs],
        "rejection": None
        if rejection is None
        else {
            "kind": rejection.kind,
            "message": rejection.message,
            "file": rejection.file,
            "line": rejection.line,
            "patch": rejection.patch,
            "origin": rejection.origin,
            "block": list(rejection.block),
        },
    }


def proofs_of(record: Mapping[str, Any]) -> tuple[Proof, ...]:
    """The proofs of a record."""
    return tuple(
        Proof(id=str(one["id"]), verdict=Verdict(one["verdict"]), detail=str(one["detail"]))
        for one in record.get("proofs", ())
    )


def binaries_of(record: Mapping[str, Any]) -> tuple[Binary, ...]:
    """The binaries of a record."""
    return tuple(
        Binary(name=str(one["name"]), sha256=str(one["sha256"]), size=int(one["size"]))
        for one in record.get("binaries", ())
    )


def bin_directory(stored: Stored) -> Path:
    """Where the programs of a build are."""
    return stored.directory / "bin"
