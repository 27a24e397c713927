"""Export fork commits to patch files, one file for each commit, and write the lock.

Only this module writes the files of a series.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from patchstack.causes import ExportRefused, LockUnusable, NoPatches, NotAMirror, NotDescended
from patchstack.files.journal import replace_files, sweep_leftover
from patchstack.files.regular import read_regular
from patchstack.git.apply import Applier
from patchstack.git.format import FormattedCommit, formatting, patch_ids
from patchstack.git.objects import Commit, Objects, Repository
from patchstack.git.overlay import TreeOverlay
from patchstack.git.patch.mail import read_mail
from patchstack.git.trees import compare_trees
from patchstack.series.files.directory import PatchFile, Series, load_series
from patchstack.series.files.names import make_name, number_of
from patchstack.series.files.order import has_patches
from patchstack.series.files.quilt import FILE_NAME as QUILT
from patchstack.series.history import ForkHistory
from patchstack.series.lint import paths
from patchstack.series.lock import FILE_NAME, Lock, LockedPatch, ParkedPatch, read_lock, render_lock
from patchstack.series.mirror.format_cache import FormatMemory
from patchstack.series.mirror.number import Coming, Known, assign_numbers, identify
from patchstack.series.verify.prefix_trees import apply_in_turn
from patchstack.series.verify.states import State
from patchstack.series.verify.verify import Expectation, verify
from patchstack.tasks import task
from patchstack.workspace import LintPolicy, SeriesConfig, Waiver


class Change(StrEnum):
    """The effect of an export on one file."""

    ADDED = "added"
    CHANGED = "changed"
    RENAMED = "renamed"
    UNCHANGED = "unchanged"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """One file of the series after the export, or a file that the export removes.

    `was` is the earlier name of the patch with the same number.
    """

    file: str
    change: Change
    subject: str
    was: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPlan:
    """The planned writes of an export.

    `writes` maps the name of each file to its new content, or to None if the file is removed. `projected` is the new
    series. `tree` is its tree, which was proven equal to the tree of the fork head. `made_from` is the `lock_digest`
    before the export.
    """

    series: str
    directory: Path
    files: tuple[PlannedFile, ...]
    retired: tuple[int, ...]
    tree: str
    writes: Mapping[str, bytes | None]
    projected: Series = field(repr=False, compare=False)
    made_from: str

    @property
    def up_to_date(self) -> bool:
        return not self.writes


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPolicy:
    """The settings for writing a series: lines of context, the form, and the lint rules with their waivers."""

    context: int = 3
    anchored: bool = False
    lint: LintPolicy | None = None
    waivers: tuple[Waiver, ...] = ()

    @classmethod
    def of(cls, config: SeriesConfig) -> ExportPolicy:
        """Return the policy of a configured series."""
        return cls(context=config.context, anchored=config.anchored, lint=config.lint, waivers=tuple(config.waive))


@task("making the series from the fork")
def plan_export(
    objects: Objects,
    repository: Repository,
    name: str,
    directory: Path,
    base: Commit,
    fork: ForkHistory,
    policy: ExportPolicy,
    *,
    renumber: bool = False,
    discard_edits: bool = False,
    same: Mapping[int, str] | None = None,
    parking: Mapping[int, str] | None = None,
    memory: FormatMemory | None = None,
) -> ExportPlan:
    """Plan the series of a fork branch, and prove that it produces the tree of the fork.

    `memory` records the patches that git does not have to format again. `parking` contains the patches to park: their
    numbers, each with a reason. A parked patch stays parked unless the branch contains it again. `same` maps patch
    numbers to commit ids, as in `identify`. With `renumber`, every patch gets a new number. With `discard_edits`, edits
    of patch files are overwritten.

    Nothing is written. Raises a `NotHeldError` that lists all problems of one kind: merges and empty commits, edited
    patches whose edits would be lost, commits that match several patches, too few free numbers, forbidden paths, or
    commits that the series could not recreate.
    """
    _refuse_commits(fork, base)
    made_from = lock_digest(directory)
    old_lock = read_lock(directory)
    old = _existing(directory, name)
    edited = _edited(old, old_lock) if old_lock else _not_of_the_fork(objects, old, base, fork)
    if edited and not discard_edits:
        raise ExportRefused(
            "the patches have changes that the fork lacks, and an export would lose them",
            problems=edited,
            hint="commit them to the fork first; or use --discard-edits",
        )
    with formatting(
        repository,
        objects.directories,
        base.oid,
        fork.commits,
        context=policy.context,
        anchored=policy.anchored,
        known=memory.recall(fork.commits, old) if memory else None,
    ) as patches:
        # While git writes the patches, do the work that does not need them. Then process each patch as soon as it is
        # ready.
        complaints = path_complaints(objects, base, fork.commits, policy.lint or LintPolicy())
        unproven = _unproven(objects, base, patches.written(), anchored=policy.anchored)
        formatted = tuple(patches.written())
    if memory:
        memory.keep(formatted)
    known = _known(old, old_lock)
    parked_before = old_lock.parked if old_lock else ()
    stand = {number: one for one in parked_before if (number := number_of(one.file)) is not None}
    coming = [
        Coming(commit=f.commit.oid, patch_id=f.patch_id, subject=f.commit.subject, data=f.data) for f in formatted
    ]
    identity = identify(known, coming, same)
    if identity.ambiguous and not renumber:
        raise ExportRefused(
            "it is unclear which commit belongs to which patch",
            problems=identity.ambiguous,
            hint="name the pair with --same N=COMMIT, or give every patch a new number with --renumber",
        )
    numbers, retired = tuple(range(1, len(formatted) + 1)), tuple[int, ...]()
    if not renumber:
        numbers, retired = assign_numbers(known, identity.known_of, old_lock.retired if old_lock else ())
    parked = _parked(old, old_lock, {**dict.fromkeys(stand, ""), **(parking or {})}, numbers)
    retired = tuple(number for number in retired if number not in {number_of(one.file) for one in parked})
    _refuse_paths(complaints, fork.commits, numbers, policy.waivers)
    if unproven:
        raise ExportRefused("the series would not recreate the fork; nothing was written", problems=unproven)
    files = tuple(
        PatchFile(
            file=make_name(number, one.slug, anchored=policy.anchored),
            number=number,
            subject=one.commit.subject,
            commit=None,
            data=one.data,
        )
        for number, one in zip(numbers, formatted, strict=True)
    )
    series = Series(name=name, directory=directory, patches=files)
    ids = _stable_ids(known, identity.known_of, old_lock, formatted)
    lock = _lock(objects, directory, base, fork, files, formatted, ids, retired, parked)
    return _plan(name, directory, old, series, lock, made_from)


@task("writing the series")
def carry_out(plan: ExportPlan, decided: Callable[[], None] = lambda: None) -> None:
    """Write a planned export atomically.

    `decided` is called just before the write. Raises `NotHeldError` if the lock was changed since the plan was made.
    Also raises the errors of `replace_files`.
    """

    def ready() -> None:
        check_unchanged(plan.directory, plan.made_from)
        decided()

    if plan.writes:
        replace_files(plan.directory, plan.writes, ready=ready)
    else:
        ready()
        sweep_leftover(plan.directory)


def lock_digest(directory: Path) -> str:
    """Return the SHA-256 of a series' lock file. Return an empty string if the series has no lock."""
    try:
        return hashlib.sha256(read_regular(directory / FILE_NAME)).hexdigest()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise LockUnusable(f"{directory / FILE_NAME} cannot be read: {error.strerror}") from error


def check_unchanged(directory: Path, digest: str) -> None:
    """Raise `NotHeldError` if the lock file no longer has this digest."""
    if lock_digest(directory) != digest:
        raise ExportRefused(
            f"{directory / FILE_NAME} was changed by another program; nothing was written",
            hint="run this command again",
        )


def _refuse_commits(fork: ForkHistory, base: Commit) -> None:
    if not fork.commits:
        raise NotDescended(
            f"the fork {fork.name} has no commits since the pin {base.oid[:12]}",
            hint="commit the changes to the fork first",
        )
    problems = [f"{commit.oid[:12]} ({commit.subject}) is a merge" for commit in fork.merges]
    before = base.tree
    for commit in fork.commits:
        if commit.tree == before and len(commit.parents) == 1:
            problems.append(f"{commit.oid[:12]} ({commit.subject}) changes nothing")
        before = commit.tree
    if problems:
        raise ExportRefused(
            "some commits of the fork cannot become patches",
            problems=problems,
            hint="rebase the fork onto the pin, without merges and empty commits",
        )


def path_complaints(
    objects: Objects, base: Commit, commits: Sequence[Commit], policy: LintPolicy
) -> list[tuple[int, str]]:
    """Return the position of each commit that touches a forbidden path, and the reason why the policy forbids the
    path."""
    pin = TreeOverlay(objects, base.tree)
    complaints = []
    before = base.tree
    for place, commit in enumerate(commits):
        for change in compare_trees(objects, before, commit.tree):
            upstreams = pin.obstacle(change.path) is None and pin.entry(change.path) is not None
            name = change.path.decode("utf-8", "replace")
            complaint = paths.path_complaint(name, policy, upstreams=upstreams) if change.new else None
            if complaint:
                complaints.append((place, complaint))
        before = commit.tree
    return complaints


def _refuse_paths(
    complaints: Sequence[tuple[int, str]],
    commits: Sequence[Commit],
    numbers: Sequence[int],
    waivers: Sequence[Waiver],
) -> None:
    """Raise `NotHeldError` for commits that touch forbidden paths without a waiver."""
    waived = {waiver.patch for waiver in waivers if waiver.rule == paths.ID}
    problems = [
        f"{commits[place].oid[:12]} ({commits[place].subject}), patch {numbers[place]:04d}: {complaint}"
        for place, complaint in complaints
        if not waived & {numbers[place], None}
    ]
    if problems:
        raise ExportRefused(
            "commits of the fork touch paths that the policy forbids",
            problems=problems,
            hint="remove the paths from the commits, allow them in lint.paths, or waive the rule paths with a reason",
        )


def _existing(directory: Path, name: str) -> Series:
    """Return the existing series. It is empty if there are no patches yet."""
    if (directory / QUILT).is_file():
        raise NotAMirror(
            f"{directory} has a quilt series file, which export would not preserve",
            hint=f"run 'patchstack init --patches {directory} --adopt CLONE' to create a new fork and mirror",
        )
    if has_patches(directory):
        series = load_series(directory, name)
        if series.shared_numbers:
            raise NotAMirror(
                f"{directory} has patches that share a number",
                problems=[patch.file for patch in series.patches if patch.number in series.shared_numbers],
                hint=f"run 'patchstack init --patches {directory} --adopt CLONE' to create a new fork and mirror",
            )
        return series
    if directory.exists() and not directory.is_dir():
        raise NoPatches(f"{directory} is not a directory")
    return Series(name=name, directory=directory, patches=())


_FOREIGN = {State.DIVERGES, State.STRAY, State.CONFLICT, State.MISSING_FILE, State.MALFORMED, State.UNSAFE}


def _not_of_the_fork(objects: Objects, old: Series, base: Commit, fork: ForkHistory) -> list[str]:
    """Return the patches that differ from the fork, for a series that was never exported."""
    if not old.patches:
        return []
    found = verify(objects, old, base, Expectation(fork=fork), keep_going=True)
    return [f"{row.file}: {row.detail}" for row in found.rows if row.state in _FOREIGN]


def _edited(old: Series, lock: Lock) -> list[str]:
    """Return the files that were changed since the last export."""
    digests = {patch.file: patch.sha256 for patch in lock.patches}
    problems = []
    for patch in old.patches:
        digest = digests.get(patch.file)
        if digest is None:
            problems.append(f"{patch.file}: it was not written by an export")
        elif hashlib.sha256(patch.data or b"").hexdigest() != digest:
            problems.append(f"{patch.file}: it was changed after the export")
    return problems


def _known(old: Series, lock: Lock | None) -> list[Known]:
    """Return the patches of the last export, read from the lock and the files.

    Parked patches are included. A patch whose file is missing keeps its number.
    """
    locked = {patch.file: patch for patch in lock.patches} if lock else {}
    ids = iter(patch_ids([patch.data or b"" for patch in old.patches if patch.file not in locked]))
    known = []
    for patch in old.patches:
        entry = locked.pop(patch.file, None)
        if patch.number is not None:
            known.append(
                Known(
                    number=patch.number,
                    commit=entry.commit if entry else patch.commit or "",
                    patch_id=entry.patch_id if entry else next(ids),
                    subject=patch.subject,
                    data=patch.data or b"",
                )
            )
    for one in lock.parked if lock else ():
        number = number_of(one.file)
        if number is not None:
            subject = read_mail(one.text).subject
            known.append(Known(number=number, commit=one.commit, patch_id=one.patch_id, subject=subject, data=one.text))
    for entry in locked.values():
        number = number_of(entry.file)
        if number is not None:
            known.append(Known(number=number, commit=entry.commit, patch_id=entry.patch_id, subject="", data=b""))
    return sorted(known, key=lambda patch: patch.number)


def _unproven(objects: Objects, base: Commit, written: Iterable[FormattedCommit], *, anchored: bool) -> list[str]:
    """Return the reason for each commit that the series could not recreate.

    The patch of such a commit does not produce the commit's tree, or the commit does not follow the previous one. Each
    patch is checked as soon as it is written.
    """
    problems = []
    parent = base.oid
    with Applier(objects, base.tree) as applier:
        for one in written:
            commit = one.commit
            file = make_name(None, one.slug, anchored=anchored)
            patch = PatchFile(file=file, number=None, subject=commit.subject, commit=None, data=one.data)
            if apply_in_turn(applier, patch).tree != commit.tree:
                problems.append(f"{commit.oid[:12]} ({commit.subject}): its patch does not produce its tree")
                applier.restart(commit.tree)
            if commit.parents != (parent,):
                problems.append(f"{commit.oid[:12]} ({commit.subject}): it does not follow the previous commit")
            parent = commit.oid
    return problems


def _stable_ids(
    known: Sequence[Known],
    known_of: Sequence[int | None],
    lock: Lock | None,
    formatted: Sequence[FormattedCommit],
) -> list[str]:
    """Return the stable id of every patch.

    It is the id from the lock. A new patch gets an id that is made from its first commit.
    """
    by_number = {number_of(entry.file): entry.id for entry in (*lock.patches, *lock.parked)} if lock else {}
    ids = []
    for old, one in zip(known_of, formatted, strict=True):
        kept = by_number.get(known[old].number, "") if old is not None else ""
        ids.append(kept or hashlib.sha256(one.commit.oid.encode()).hexdigest()[:16])
    return ids


def _lock(
    objects: Objects,
    directory: Path,
    base: Commit,
    fork: ForkHistory,
    files: Sequence[PatchFile],
    formatted: Sequence[FormattedCommit],
    ids: Sequence[str],
    retired: Sequence[int],
    parked: Sequence[ParkedPatch],
) -> Lock:
    patches = tuple(
        LockedPatch(
            file=file.file,
            sha256=hashlib.sha256(one.data).hexdigest(),
            commit=one.commit.oid,
            tree=one.commit.tree,
            patch_id=one.patch_id,
            id=stable,
            object=objects.read(one.commit.oid)[1],
        )
        for file, one, stable in zip(files, formatted, ids, strict=True)
    )
    return Lock(
        path=directory / FILE_NAME,
        base_commit=base.oid,
        base_tree=base.tree,
        branch=fork.branch,
        head=fork.head.oid,
        tree=fork.head.tree,
        retired=tuple(retired),
        patches=patches,
        parked=tuple(parked),
    )


def _parked(
    old: Series, lock: Lock | None, reasons: Mapping[int, str], numbers: Sequence[int]
) -> tuple[ParkedPatch, ...]:
    """Return the patches that are parked after the export, by number.

    These are the patches that are already parked and the patches to park now, except patches that the new series
    contains. Raises `NotHeldError` for a patch that is not in the lock.
    """
    if lock is None or not reasons:
        return ()
    texts = {patch.file: patch.data or b"" for patch in old.patches}
    kept = {number_of(one.file): one for one in lock.parked}
    found = []
    for number in sorted(one for one in reasons if one not in numbers):
        entry = next((one for one in lock.patches if number_of(one.file) == number), None)
        if entry is not None:
            fields = {name: getattr(entry, name) for name in LockedPatch.__slots__}
            found.append(ParkedPatch(**fields, reason=reasons[number], text=texts[entry.file]))
        elif number in kept:
            found.append(kept[number])
        else:
            raise ExportRefused(
                f"patch {number:04d} cannot be parked: it is not in the lock", hint="run 'patchstack export' first"
            )
    return tuple(found)


def _plan(name: str, directory: Path, old: Series, series: Series, lock: Lock, made_from: str) -> ExportPlan:
    before = {patch.file: patch for patch in old.patches}
    by_number = {patch.number: patch.file for patch in old.patches}
    files: list[PlannedFile] = []
    writes: dict[str, bytes | None] = {}
    for patch in series.patches:
        was = by_number.get(patch.number)
        if patch.file in before:
            same = before[patch.file].data == patch.data
            change = Change.UNCHANGED if same else Change.CHANGED
        else:
            change = Change.RENAMED if was else Change.ADDED
        files.append(PlannedFile(file=patch.file, change=change, subject=patch.subject, was=was))
        if change is not Change.UNCHANGED:
            writes[patch.file] = patch.data
    kept = {patch.file for patch in series.patches}
    renamed = {file.was for file in files if file.change is Change.RENAMED}
    for gone in old.patches:
        if gone.file not in kept:
            writes[gone.file] = None
            if gone.file not in renamed:
                files.append(PlannedFile(file=gone.file, change=Change.REMOVED, subject=gone.subject))
    text = render_lock(lock)
    lock_path = directory / FILE_NAME
    if not lock_path.is_file() or lock_path.read_bytes() != text:
        writes[FILE_NAME] = text
    return ExportPlan(
        series=name,
        directory=directory,
        files=tuple(sorted(files, key=lambda file: file.file)),
        retired=lock.retired,
        tree=lock.tree,
        writes=writes,
        projected=series,
        made_from=made_from,
    )
