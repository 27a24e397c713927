"""Determine the status of a series.

The status includes the pin, fork, mirror, lock, lint result, numbers, surface, and the next step.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from patchstack.errors import Exit, NotHeldError, PatchstackError
from patchstack.git.objects import Commit, Objects, parse_commit
from patchstack.git.remote import Cache, shown_url
from patchstack.series.files.directory import Series, load_series
from patchstack.series.files.order import has_patches
from patchstack.series.lint.summary import LintState, lint_state
from patchstack.series.lock import Lock, read_lock
from patchstack.series.sources import Sources, open_sources
from patchstack.series.status.metadata import PatchMetadata, read_metadata
from patchstack.series.status.next_step import LockWord, MirrorWord, Situation, next_step
from patchstack.series.status.surface import Surface, measure_surface
from patchstack.series.verify.prefix_trees import Link
from patchstack.series.verify.states import Row, State, Verification
from patchstack.series.verify.verify import Expectation, verify_links
from patchstack.tasks import task
from patchstack.workspace import SeriesConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A configured series that was opened and verified as by `patchstack verify`.

    Errors of fork and lock are stored, not raised. `verification` is None for a series that has no patches because it
    was never exported. `links` contains the results of applying the patches.
    """

    config: SeriesConfig
    series: Series
    sources: Sources
    fork_error: PatchstackError | None
    lock: Lock | None
    lock_error: PatchstackError | None
    verification: Verification | None
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """The pin, with its commit time and its age in whole days."""

    oid: str
    subject: str
    committed: datetime
    age_days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkState:
    """The fork's branch.

    `head` and `subject` are empty if unknown. `count` is the number of commits since the pin. `from_lock` is true if
    these values come from the lock because the fork was not read. `problem` is the reason why the fork cannot be used.
    """

    repository: str
    ref: str
    head: str
    subject: str
    count: int | None
    from_lock: bool
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """The result of verify.

    `behind` is the number of fork commits that the series lacks. `ahead` is the number of patches that the fork lacks.
    `problem` is the first problem found.
    """

    word: MirrorWord
    applied_count: int
    applied_tree: str
    expected_from: str | None
    behind: int
    ahead: int
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockState:
    """The state of the series' lock.

    `pristine` is true if the patches are exactly those that the last export wrote.
    """

    word: LockWord
    pin: str | None
    pristine: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The patch numbers of a series.

    `gaps` lists the numbers below the highest that are neither used nor retired. It is empty if the numbers are far
    apart, for example if they are dates. `unnumbered` is the number of files without a number.
    """

    used: tuple[int, ...]
    gaps: tuple[int, ...]
    retired: tuple[int, ...]
    unnumbered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesStatus:
    """The full status of one series.

    `exit_code` is the exit status of verify. `patches` is None unless requested. `states` maps each file to its state
    in verify.
    """

    series: str
    directory: Path
    pin: Pin
    fork: ForkState | None
    mirror: Mirror
    lock: LockState
    lint: LintState
    patch_count: int
    patches: tuple[PatchMetadata, ...] | None
    states: Mapping[str, State]
    numbers: Numbers
    surface: Surface
    next_step: str
    exit_code: Exit
    warnings: tuple[str, ...]


def examine(config: SeriesConfig, cache: Cache, *, keep_going: bool = False) -> Examined:
    """Open a series and verify it. Writes nothing.

    Raises the errors of `load_series`, except for a series that has a fork and no patches yet. Raises the errors of
    `open_sources` for upstream. Raises `MissingObject` if a file's content is not available.
    """
    series = _loaded(config)
    lock, lock_error = _lock(config.patches)
    sources, fork_error = _opened(config, cache, series)
    sources.objects.remember()  # lint and surface read the pin's files again
    verification, links = None, tuple[Link, ...]()
    if series.patches:
        expectation = Expectation(fork=sources.fork, lock=lock if config.expect == "lock" else None)
        verification, links = verify_links(sources.objects, series, sources.base, expectation, keep_going=keep_going)
    return Examined(
        config=config,
        series=series,
        sources=sources,
        fork_error=fork_error,
        lock=lock,
        lock_error=lock_error,
        verification=verification,
        links=links,
    )


@task("reading the status")
def read_status(config: SeriesConfig, cache: Cache, *, now: datetime, patches: bool = False) -> SeriesStatus:
    """Return the status of one series.

    With `patches`, the metadata of the patches is included. Raises the errors of `examine`.
    """
    found = examine(config, cache)
    checked, base = found.verification, found.sources.base
    mirror = _mirror(found)
    lock = _lock_state(found)
    linted = lint_state(config, found.sources.objects, found.series, base, found.links)
    prefixes = [(_label(row), row.tree) for row in checked.rows if row.tree is not None] if checked else []
    return SeriesStatus(
        series=config.name,
        directory=config.patches,
        pin=_pin(base, found.sources.objects, now),
        fork=_fork_state(found),
        mirror=mirror,
        lock=lock,
        lint=linted,
        patch_count=len(found.series.patches),
        patches=read_metadata(found.series) if patches else None,
        states={row.file: row.state for row in checked.rows if row.file} if checked else {},
        numbers=_numbers(found.series, found.lock),
        surface=measure_surface(found.sources.objects, base.tree, prefixes),
        next_step=next_step(_situation(found, mirror, lock, linted)),
        exit_code=_exit_code(found, mirror),
        warnings=checked.warnings if checked else (),
    )


def _loaded(config: SeriesConfig) -> Series:
    """Return the series. It is empty if there is a fork and there are no patches yet."""
    directory = config.patches
    empty = not directory.exists() or (directory.is_dir() and not has_patches(directory))
    if config.fork is not None and empty:
        return Series(name=config.name, directory=directory, patches=())
    return load_series(directory, config.name)


def _opened(config: SeriesConfig, cache: Cache, series: Series) -> tuple[Sources, PatchstackError | None]:
    """Return the sources.

    If only the fork cannot be opened, return the sources without the fork, and the error.
    """
    if config.expect != "fork":
        return open_sources(cache, upstream=config.upstream, pin=config.pin, series=series), None
    try:
        opened = open_sources(
            cache,
            upstream=config.upstream,
            pin=config.pin,
            fork=config.fork,
            fork_ref=config.fork_ref,
            series=series,
            recreate=config.name if config.listed else None,
        )
    except PatchstackError as error:
        return open_sources(cache, upstream=config.upstream, pin=config.pin, series=series), error
    return opened, None


def _lock(directory: Path) -> tuple[Lock | None, PatchstackError | None]:
    try:
        return read_lock(directory), None
    except PatchstackError as error:
        return None, error


_COMMITTED = re.compile(rb"^committer .*> (-?\d{1,12}) [+-]\d{4}$", re.MULTILINE)


def _pin(base: Commit, objects: Objects, now: datetime) -> Pin:
    found = _COMMITTED.search(objects.read(base.oid)[1].partition(b"\n\n")[0])
    try:
        committed = datetime.fromtimestamp(int(found.group(1)) if found else 0, UTC)
    except (ValueError, OverflowError, OSError):
        committed = datetime.fromtimestamp(0, UTC)
    return Pin(oid=base.oid, subject=base.subject, committed=committed, age_days=(now - committed).days)


def _fork_state(found: Examined) -> ForkState | None:
    config, history, lock = found.config, found.sources.fork, found.lock
    if config.fork is None or config.fork_ref is None:
        return None
    head = subject = ""
    count = None
    if history is not None:
        head, subject, count = history.head.oid, history.head.subject, len(history.commits)
    elif config.expect == "lock" and lock is not None:
        last = lock.patches[-1]
        raw = last.object if last.commit == lock.head else b""
        head, subject = lock.head, parse_commit(lock.head, raw).subject if raw else ""
    return ForkState(
        repository=shown_url(config.fork),
        ref=config.fork_ref,
        head=head,
        subject=subject,
        count=count,
        from_lock=config.expect == "lock",
        problem=_line(found.fork_error.message) if found.fork_error else None,
    )


def _mirror(found: Examined) -> Mirror:
    checked, history = found.verification, found.sources.fork
    problem: str | None = "there are no patches yet"
    if checked is None:
        behind = len(history.commits) if history is not None else 0
        return Mirror(
            word=MirrorWord.DIFFERS if history is not None else MirrorWord.NOT_COMPARED,
            applied_count=0,
            applied_tree=found.sources.base.tree,
            expected_from=None,
            behind=behind,
            ahead=0,
            problem=problem,
        )
    word = {True: MirrorWord.HOLDS, False: MirrorWord.DIFFERS, None: MirrorWord.NOT_COMPARED}[checked.holds]
    problem = checked.first_problem
    error = found.fork_error or (found.lock_error if found.config.expect == "lock" else None)
    if error is not None and problem is None:
        problem = error.message
        word = MirrorWord.DIFFERS if isinstance(error, NotHeldError) else word
    compared = checked.expected_tree is not None and not (history is not None and history.merges)
    return Mirror(
        word=word,
        applied_count=checked.applied_count,
        applied_tree=checked.applied_tree,
        expected_from=checked.expected_from,
        behind=sum(row.state is State.UNMIRRORED for row in checked.rows),
        ahead=sum(row.file is not None and row.fork_commit is None for row in checked.rows) if compared else 0,
        problem=_line(problem) if problem else None,
    )


def _lock_state(found: Examined) -> LockState:
    lock, history = found.lock, found.sources.fork
    if lock is None:
        error = found.lock_error
        word = LockWord.UNUSABLE if error else LockWord.ABSENT
        detail = _line("; ".join([error.message, *error.problems[:1]])) if error else ""
        return LockState(word=word, pin=None, pristine=False, detail=detail)
    changed = _not_as_locked(found.series, lock)
    word, detail = LockWord.CURRENT, ""
    if lock.base_commit != found.sources.base.oid:
        word = LockWord.OTHER_PIN
    elif history is not None and lock.head != history.head.oid:
        word, detail = LockWord.STALE, f"it was written for fork commit {lock.head[:12]}"
    elif changed:
        word, detail = LockWord.STALE, changed
    return LockState(word=word, pin=lock.base_commit, pristine=not changed, detail=detail)


def _not_as_locked(series: Series, lock: Lock) -> str:
    """Return a complaint about the first patch that differs from the last export.

    Return an empty string if all patches are unchanged.
    """
    locked = {patch.file: patch.sha256 for patch in lock.patches}
    for patch in series.patches:
        digest = locked.pop(patch.file, None)
        if digest is None:
            return f"{patch.file} is not in it"
        if hashlib.sha256(patch.data or b"").hexdigest() != digest:
            return f"{patch.file} was changed after the export"
    return f"{next(iter(locked))} is gone" if locked else ""


def _numbers(series: Series, lock: Lock | None) -> Numbers:
    used = tuple(sorted(patch.number for patch in series.patches if patch.number is not None))
    retired = lock.retired if lock else ()
    taken = {*used, *retired}
    # Numbers may be dates, with many gaps. List gaps only if there are few in comparison to the numbers.
    span = range(1, used[-1] if used and used[-1] <= 10 * len(used) + 1000 else 1)
    return Numbers(
        used=used,
        gaps=tuple(number for number in span if number not in taken),
        retired=retired,
        unnumbered=len(series.patches) - len(used),
    )


def _label(row: Row) -> str:
    return f"{row.number:04d}" if row.number is not None else row.label


def _line(text: str) -> str:
    return " ".join(text.split())


def _exit_code(found: Examined, mirror: Mirror) -> Exit:
    """Return the exit status of verify.

    It is 0 if the series holds, 1 if not, and 3 if the series was not compared. After an error, it is the exit status
    of that error.
    """
    if mirror.word is MirrorWord.HOLDS:
        return Exit.HOLDS
    if mirror.word is MirrorWord.DIFFERS:
        return Exit.DOES_NOT_HOLD
    if found.fork_error is not None:
        return found.fork_error.exit_code
    if found.config.expect == "lock" and found.lock_error is not None:
        return found.lock_error.exit_code
    return Exit.MISSING


def _situation(found: Examined, mirror: Mirror, lock: LockState, linted: LintState) -> Situation:
    checked, error = found.verification, found.fork_error
    return Situation(
        series=found.config.name,
        pin=found.sources.base.oid,
        fork=shown_url(found.config.fork) if found.config.fork else None,
        fork_ref=found.config.fork_ref or "",
        way_out=_line(error.hint or f"{error.message}; set fork in patchstack.yaml to an existing repository")
        if error
        else None,
        off_pin=isinstance(error, NotHeldError),
        merges=found.sources.fork is not None and bool(found.sources.fork.merges),
        patches=len(found.series.patches),
        applies=checked is None or checked.applies,
        holds={MirrorWord.HOLDS: True, MirrorWord.DIFFERS: False, MirrorWord.NOT_COMPARED: None}[mirror.word],
        drift=frozenset(checked.drift.kinds) if checked and checked.drift else frozenset(),
        dropped=_dropped(checked),
        lock=lock.word,
        lock_pin=lock.pin,
        pristine=lock.pristine,
        lint_clean=not linted.count and linted.problem is None,
    )


def _dropped(checked: Verification | None) -> tuple[str, ...]:
    """Return the labels of the patches that were dropped from the fork: the patches without a commit.

    Return an empty result if a commit of the fork has no patch, because that commit may belong to one of these patches.
    """
    if checked is None or checked.drift is None or any(row.state is State.UNMIRRORED for row in checked.rows):
        return ()
    return tuple(_label(row) for row in checked.rows if row.file is not None and row.fork_commit is None)
