"""`patchstack.build/1`: the record of a build, as it is stored and as `patchstack build` prints it."""

from __future__ import annotations

from typing import Any

import msgspec

from patchstack.builds.record.record import BUILT
from patchstack.builds.record.store import LOG, Stored
from patchstack.document import Document, Part
from patchstack.errors import ConfigError
from patchstack.verdict import Verdict


class EngineEntry(Part, frozen=True, kw_only=True):
    """Where it was built."""

    spec: str
    kind: str
    endpoint: str
    version: str
    platform: str


class StepEntry(Part, frozen=True, kw_only=True):
    """A patch that was applied: the sha256 of its file, and the tree after it."""

    file: str
    sha256: str
    tree: str


class SourceEntry(Part, frozen=True, kw_only=True):
    """What was built: the tree, the pin and the patches it came from; `series` is the verdict of a verification."""

    label: str
    tree: str
    pin: str | None
    upstream: str | None
    series: str
    patches: tuple[StepEntry, ...]
    absent: tuple[str, ...]


class OptionEntry(Part, frozen=True, kw_only=True):
    """A resolved option: its value, where that came from, and the digest of an image or a toolkit."""

    value: Any
    origin: Any = msgspec.field(name="from")
    digest: str | msgspec.UnsetType | None = msgspec.UNSET


class OptionsEntry(Part, frozen=True, kw_only=True):
    """Every resolved option. `arch`, `image` and `toolkit` are there only if the build has one."""

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
    """What ccache had, in files."""

    hits: int
    misses: int


class BinaryEntry(Part, frozen=True, kw_only=True):
    """A program or library: its size in bytes."""

    name: str
    sha256: str
    size: int


class ProofEntry(Part, frozen=True, kw_only=True):
    """Something that was proven of the binaries, or not."""

    id: str
    verdict: Verdict
    detail: str


class RejectionEntry(Part, frozen=True, kw_only=True):
    """Why the source does not compile: the first real error, its place, and the patch that wrote that line (null: it is
    upstream's, or could not be told). `block` are lines of the log."""

    kind: str
    message: str
    file: str | None
    line: int | None
    patch: str | None
    origin: str | None
    block: tuple[str, ...]


class BuildDocument(Document, frozen=True, kw_only=True, tag="patchstack.build/1"):
    """A build. Times are RFC 3339 in UTC, `seconds` is the wall time of each part.

    `hit` (nothing was compiled), `out_dir` and `log` are there when it is printed, not in the file beside the binaries.
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
    binaries: tuple[BinaryEntry, ...]
    proofs: tuple[ProofEntry, ...]
    rejection: RejectionEntry | None
    hit: bool | msgspec.UnsetType = msgspec.UNSET
    out_dir: str | msgspec.UnsetType = msgspec.UNSET
    log: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def built(self) -> bool:
        """Whether it compiled."""
        return self.status == BUILT


def build_document(stored: Stored, *, hit: bool) -> BuildDocument:
    """Return the document of a stored build. `hit` says that it was there already.

    Raises `ConfigError` for a record that is not what its schema says.
    """
    record = {**stored.record, "hit": hit, "out_dir": str(stored.directory), "log": str(stored.directory / LOG)}
    try:
        return msgspec.convert(record, BuildDocument)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"the record of build {stored.key[:12]} is damaged: {error}", hint=f"remove {stored.directory}"
        ) from error
