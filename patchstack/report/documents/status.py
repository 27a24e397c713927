"""`patchstack.status/1`: the state of one series, and the next step."""

from __future__ import annotations

from patchstack.document import Document, Part
from patchstack.git.patch.trailers import METADATA
from patchstack.series.status.metadata import PatchMetadata
from patchstack.series.status.next_step import MirrorWord
from patchstack.series.status.status import ForkState, LockState, Mirror, Numbers, SeriesStatus
from patchstack.series.status.surface import Surface


class PinEntry(Part, frozen=True, kw_only=True):
    """The pin. `committed` is the commit time in ISO 8601 format, and `age_days` is its age in whole days."""

    commit: str
    subject: str
    committed: str
    age_days: int


class ForkEntry(Part, frozen=True, kw_only=True):
    """The fork's branch.

    If `from_lock` is true, the fork was not opened, and the values come from the last export.
    """

    repository: str
    ref: str
    head: str | None
    subject: str | None
    commits: int | None
    from_lock: bool
    problem: str | None


class MirrorEntry(Part, frozen=True, kw_only=True):
    """The result of verify.

    `holds` is null if verify could not judge. `behind` is the number of fork commits that the series lacks. `ahead` is
    the number of patches that the fork lacks.
    """

    state: str
    holds: bool | None
    applied_count: int
    applied_tree: str
    expected_from: str | None
    behind: int
    ahead: int
    first_problem: str | None


class LockEntry(Part, frozen=True, kw_only=True):
    """The lock. `pristine` is true if the patches are exactly those that the last export wrote."""

    state: str
    pin: str | None
    pristine: bool
    detail: str | None


class LintEntry(Part, frozen=True, kw_only=True):
    """The number of lint findings for each rule. `clean` is null if lint could not run."""

    clean: bool | None
    findings: dict[str, int]
    waived: int
    problem: str | None


class PatchEntry(Part, frozen=True, kw_only=True):
    """A patch, and the metadata from its trailers."""

    file: str
    number: int | None
    subject: str
    state: str | None
    metadata: dict[str, tuple[str, ...]]


class NumbersEntry(Part, frozen=True, kw_only=True):
    """The patch numbers of a series.

    `gaps` contains the numbers below the highest number that are neither used nor retired.
    """

    used: tuple[int, ...]
    gaps: tuple[int, ...]
    retired: tuple[int, ...]
    unnumbered: int


class UpstreamFileEntry(Part, frozen=True, kw_only=True):
    """An upstream file that the series changes. All counts are 0 for a binary file."""

    path: str
    patches: tuple[str, ...]
    hunks: int
    inserted: int
    changed: int
    removed: bool
    binary: bool


class OwnFileEntry(Part, frozen=True, kw_only=True):
    """A file that upstream does not have."""

    path: str
    patches: tuple[str, ...]
    lines: int
    binary: bool


class SurfaceEntry(Part, frozen=True, kw_only=True):
    """The changes that the series makes to upstream files, and the files that it adds."""

    hunks: int
    inserted: int
    changed: int
    own_lines: int
    upstream: tuple[UpstreamFileEntry, ...]
    own: tuple[OwnFileEntry, ...]


class StatusDocument(Document, frozen=True, kw_only=True, tag="patchstack.status/1"):
    """The state of a series.

    `patches` is null unless requested. `exit_code` is the exit status of `verify`.
    """

    series: str
    directory: str
    pin: PinEntry
    fork: ForkEntry | None
    mirror: MirrorEntry
    lock: LockEntry
    lint: LintEntry
    patch_count: int
    patches: tuple[PatchEntry, ...] | None
    numbers: NumbersEntry
    surface: SurfaceEntry
    next: str
    exit_code: int
    warnings: tuple[str, ...]


def status_document(status: SeriesStatus) -> StatusDocument:
    """Convert the state of a series to its JSON document."""
    pin, lint = status.pin, status.lint
    return StatusDocument(
        series=status.series,
        directory=str(status.directory),
        pin=PinEntry(commit=pin.oid, subject=pin.subject, committed=pin.committed.isoformat(), age_days=pin.age_days),
        fork=_fork(status.fork) if status.fork is not None else None,
        mirror=_mirror(status.mirror),
        lock=_lock(status.lock),
        lint=LintEntry(
            clean=None if lint.problem else not lint.findings,
            findings=dict(lint.findings),
            waived=lint.waived,
            problem=lint.problem,
        ),
        patch_count=status.patch_count,
        patches=None if status.patches is None else tuple(_patch(patch, status) for patch in status.patches),
        numbers=_numbers(status.numbers),
        surface=_surface(status.surface),
        next=status.next_step,
        exit_code=int(status.exit_code),
        warnings=tuple(status.warnings),
    )


def _fork(fork: ForkState) -> ForkEntry:
    return ForkEntry(
        repository=fork.repository,
        ref=fork.ref,
        head=fork.head or None,
        subject=fork.subject or None,
        commits=fork.count,
        from_lock=fork.from_lock,
        problem=fork.problem,
    )


def _mirror(mirror: Mirror) -> MirrorEntry:
    return MirrorEntry(
        state=mirror.word.value,
        holds={MirrorWord.HOLDS: True, MirrorWord.DIFFERS: False}.get(mirror.word),
        applied_count=mirror.applied_count,
        applied_tree=mirror.applied_tree,
        expected_from=mirror.expected_from,
        behind=mirror.behind,
        ahead=mirror.ahead,
        first_problem=mirror.problem,
    )


def _lock(lock: LockState) -> LockEntry:
    return LockEntry(state=lock.word.value, pin=lock.pin, pristine=lock.pristine, detail=lock.detail or None)


def _patch(patch: PatchMetadata, status: SeriesStatus) -> PatchEntry:
    return PatchEntry(
        file=patch.file,
        number=patch.number,
        subject=patch.subject,
        state=status.states.get(patch.file),
        metadata={name: tuple(patch.values.get(name, ())) for name in METADATA},
    )


def _numbers(numbers: Numbers) -> NumbersEntry:
    return NumbersEntry(used=numbers.used, gaps=numbers.gaps, retired=numbers.retired, unnumbered=numbers.unnumbered)


def _surface(surface: Surface) -> SurfaceEntry:
    return SurfaceEntry(
        hunks=surface.hunks,
        inserted=surface.inserted,
        changed=surface.changed,
        own_lines=surface.own_lines,
        upstream=tuple(
            UpstreamFileEntry(
                path=file.path,
                patches=file.patches,
                hunks=file.hunks,
                inserted=file.inserted,
                changed=file.changed,
                removed=file.removed,
                binary=file.binary,
            )
            for file in surface.upstream
        ),
        own=tuple(
            OwnFileEntry(path=file.path, patches=file.patches, lines=file.lines, binary=file.binary)
            for file in surface.own
        ),
    )
