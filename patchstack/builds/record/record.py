"""The record of a build (`patchstack.build/1`): its inputs, commands, results and proofs.

It is the file `build.json` next to the binaries, and `patchstack build --json` prints it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from patchstack.builds.inputs.key import Key, Toolchain
from patchstack.builds.inputs.plan import Plan
from patchstack.builds.inputs.source import Source
from patchstack.builds.inputs.variant import Setting
from patchstack.builds.proofs.claim import Proof
from patchstack.builds.proofs.files import Binary
from patchstack.document import Document, Part

BUILT, REJECTED = "built", "rejected"


class EngineEntry(Part, frozen=True, kw_only=True):
    """The engine on which the build was made."""

    spec: str
    kind: str
    endpoint: str
    version: str
    platform: str


class StepEntry(Part, frozen=True, kw_only=True):
    """An applied patch: its file, the SHA-256 of the file, and the tree after the patch."""

    file: str
    sha256: str
    tree: str


class SourceEntry(Part, frozen=True, kw_only=True):
    """The source: the tree, and the pin and patches that it was made from.

    `series` is the result of verify. `absent` contains the paths of omitted files.
    """

    label: str
    tree: str
    pin: str | None
    upstream: str | None
    series: str
    patches: tuple[StepEntry, ...]
    absent: tuple[str, ...]


class OptionEntry(Part, frozen=True, kw_only=True):
    """A resolved option: its value and its origin. `digest` is the digest of an image or a toolkit."""

    value: Any
    origin: Any = msgspec.field(name="from")
    digest: str | msgspec.UnsetType | None = msgspec.UNSET


class OptionsEntry(Part, frozen=True, kw_only=True):
    """Every resolved option. `optional_targets`, `arch`, `image` and `toolkit` are omitted if the build has none."""

    optional_targets: OptionEntry | msgspec.UnsetType = msgspec.UNSET
    variant: OptionEntry
    engine: OptionEntry
    platform: OptionEntry
    targets: OptionEntry
    jobs: OptionEntry
    memory: OptionEntry
    cpus: OptionEntry
    time: OptionEntry
    ccache: OptionEntry
    toolchain: OptionEntry
    arch: OptionEntry | msgspec.UnsetType = msgspec.UNSET
    image: OptionEntry | msgspec.UnsetType = msgspec.UNSET
    toolkit: OptionEntry | msgspec.UnsetType = msgspec.UNSET
    cmake: dict[str, OptionEntry]
    compile: dict[str, OptionEntry]


class CcacheEntry(Part, frozen=True, kw_only=True):
    """How many compilations had a hit in ccache, and how many had a miss."""

    hits: int
    misses: int


class Rejection(Part, frozen=True, kw_only=True):
    """The reason why the source does not compile: the first real error and its place.

    `patch` is the patch that added the line. For a line of upstream, `patch` is the patch that added the code from
    which the line was reached. `patch` is null if there is no such code, or if the origin is unknown. `origin`
    describes the origin of the line. `block` contains the lines of the log to show.
    """

    kind: str
    message: str
    file: str | None
    line: int | None
    patch: str | None
    origin: str | None
    block: tuple[str, ...]


class BuildDocument(Document, frozen=True, kw_only=True, tag="patchstack.build/1"):
    """A build. Times are RFC 3339 in UTC. `seconds` contains the wall time of each part.

    `hit`, `out_dir` and `log` are only in the printed document, not in the file. `hit` is true if nothing was compiled.
    """

    key: str
    status: str
    engine: EngineEntry
    variant: str
    platform: str
    arch: str | None
    source: SourceEntry
    options: OptionsEntry
    inputs: dict[str, Any]
    notes: tuple[str, ...]
    started: str
    finished: str
    wall_s: float
    seconds: dict[str, float]
    ccache: CcacheEntry | None
    binaries: tuple[Binary, ...]
    proofs: tuple[Proof, ...]
    rejection: Rejection | None
    hit: bool | msgspec.UnsetType = msgspec.UNSET
    out_dir: str | msgspec.UnsetType = msgspec.UNSET
    log: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def built(self) -> bool:
        """Whether the source compiled."""
        return self.status == BUILT


def options(plan: Plan, toolchain: Toolchain) -> OptionsEntry:
    """Return every resolved option with its value and its origin."""

    def one(value: Any, origin: str, digest: str | msgspec.UnsetType | None = msgspec.UNSET) -> OptionEntry:
        return OptionEntry(value=value, origin=origin, digest=digest)

    def each(settings: Mapping[str, Setting[str]]) -> dict[str, OptionEntry]:
        return {name: one(setting.value, setting.origin) for name, setting in sorted(settings.items())}

    optional, arch, image, toolkit = plan.optional_targets, plan.arch_setting, plan.image, plan.toolkit
    return OptionsEntry(
        variant=one(plan.variant, plan.why),
        engine=one(plan.engine.endpoint, plan.engine.spec),
        platform=one(plan.platform.value, plan.platform.origin),
        targets=one(plan.targets.value, plan.targets.origin),
        optional_targets=one(optional.value, optional.origin) if optional is not None else msgspec.UNSET,
        jobs=one(plan.jobs.value, plan.jobs.origin),
        memory=one(plan.memory.value, plan.memory.origin),
        cpus=one(plan.cpus.value, plan.cpus.origin),
        time=one(plan.seconds.value, plan.seconds.origin),
        ccache=one(plan.ccache.value, plan.ccache.origin),
        toolchain=one(dict(toolchain.versions), toolchain.digest),
        arch=one(plan.arch.cmake, arch.origin) if arch is not None and plan.arch is not None else msgspec.UNSET,
        image=one(image.value, image.origin, toolchain.image_digest) if image is not None else msgspec.UNSET,
        toolkit=one(toolkit.value, toolkit.origin, toolchain.toolkit_digest)
        if toolkit is not None and plan.cuda
        else msgspec.UNSET,
        cmake=each(plan.cmake),
        compile=each(plan.compile),
    )


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
) -> BuildDocument:
    """Return the record to store. Times are RFC 3339 in UTC. `seconds` contains the wall time of each part."""
    return BuildDocument(
        key=key.hex,
        status=REJECTED if rejection is not None else BUILT,
        engine=EngineEntry(
            spec=plan.engine.spec,
            kind=plan.engine.kind,
            endpoint=plan.engine.endpoint,
            version=plan.engine.version,
            platform=plan.engine.platform,
        ),
        variant=plan.variant,
        platform=plan.platform.value,
        arch=plan.arch.cmake if plan.arch else None,
        source=SourceEntry(
            label=source.label,
            tree=source.tree,
            pin=source.base_commit,
            upstream=source.upstream,
            series=source.verdict,
            patches=tuple(StepEntry(file=step.file, sha256=step.sha256, tree=step.tree) for step in source.steps),
            absent=tuple(source.absent),
        ),
        options=options(plan, toolchain),
        inputs=dict(key.inputs),
        notes=(*source.notes, *plan.notes),
        started=started,
        finished=finished,
        wall_s=round(sum(seconds.values()), 3),
        seconds=dict(seconds),
        ccache=CcacheEntry(hits=ccache["hits"], misses=ccache["misses"]) if ccache is not None else None,
        binaries=tuple(binaries),
        proofs=tuple(proofs),
        rejection=rejection,
    )
