"""Adopt a series that other tools made.

This creates a branch with one commit for each patch, and the mirror of that branch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchstack.causes import AlreadyExists, CloneNeeded, PatchesNotConverted
from patchstack.errors import ConfigError, NotHeldError, UsageError
from patchstack.files.atomic import refuse_occupied
from patchstack.git import run as git
from patchstack.git.apply import Applier
from patchstack.git.objects import Commit, Objects, Repository
from patchstack.git.overlay import TreeOverlay
from patchstack.git.patch.damage import find_damage
from patchstack.git.remote import Cache, shown_url
from patchstack.git.scratch import write_object
from patchstack.series.files.directory import Series, load_series
from patchstack.series.history import read_fork
from patchstack.series.lint import paths
from patchstack.series.lock import Lock, read_lock
from patchstack.series.mirror.checkout import WorkTreeOf, added_objects, change, commits_of_mails, refuse_name
from patchstack.series.mirror.export import ExportPlan, ExportPolicy, carry_out, path_complaints, plan_export
from patchstack.series.sources import open_sources
from patchstack.series.verify.other_tools import disagreements
from patchstack.series.verify.prefix_trees import Link, apply_series
from patchstack.tasks import task
from patchstack.workspace import LintPolicy, SeriesConfig, Waiver, is_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """An adopted series.

    `tree` is the tree that the original patches produce. `head` is the head commit of the branch, and `count` is the
    number of the branch's commits since the pin. `plan` describes the mirror that was written. `warnings` are for the
    user.
    """

    config: SeriesConfig
    pin: Commit
    head: str
    count: int
    tree: str
    plan: ExportPlan
    warnings: tuple[str, ...]


@task("adopting the patches")
def adopt(
    cache: Cache,
    *,
    patches: Path,
    clone: str,
    upstream: str | None,
    pin: str,
    name: str,
    branch: str,
    strip: int | None = None,
) -> Adopted:
    """Create a branch in `clone` from a directory of patches, and write its mirror to `patches/NAME`.

    The branch starts at the pin and has one commit for each patch. If a patch does not apply strictly, nothing is
    written. If `upstream` is None, `clone` is also upstream's repository. `strip` is the N of `-pN`.

    The branch and the mirror cannot be written in one step, and the caller writes the workspace afterwards. If a run is
    killed between these steps, a second run with the same arguments continues after the last completed step.

    Raises `UsageError` for a clone, branch or directory that cannot be used. Raises a `NotHeldError` that lists every
    patch that does not apply, is empty, or has no context. Also raises the errors of `load_series` and `open_sources`.
    """
    if is_url(clone):
        raise CloneNeeded(
            "--adopt needs a clone on this machine", hint=f"run 'git clone {shown_url(clone)}', and use that clone"
        )
    refuse_name(branch)
    directory = Path("patches") / name
    begun = _begun(directory)
    if patches.resolve() in directory.resolve().parents:
        raise CloneNeeded(
            f"the mirror would be written to {directory}, which is in {patches}",
            hint="run the command in a different directory",
        )
    repository = Repository.open(clone, Path(clone))
    series = load_series(patches, name)
    sources = open_sources(cache, upstream=upstream or clone, pin=pin, series=series)
    objects, base = sources.objects, sources.base
    series = series.at_depth(TreeOverlay(objects, base.tree), strip)
    with Applier(objects, base.tree) as applier:
        links = apply_series(applier, series)
        try:
            commits = commits_of_mails(objects, links, base)
        except NotHeldError as error:
            if any(link.fuzz for link in links):
                error.hint = (
                    "run 'patchstack refresh DIR' with the same --patches and --pin to write copies that need no fuzz"
                )
            raise
        _refuse(objects, links)
        head = commits[-1][0]
        if begun is not None and (begun.base_commit, begun.branch, begun.head) != (base.oid, branch, head):
            raise _occupied(directory)
        hint = "choose a different name with --fork-ref NAME"
        store = WorkTreeOf(directory=Path(clone), repository=Path(clone), way_out=hint).make(branch, head, base.oid)
        for oid in added_objects(objects, base.tree, [link.after for link in links]):
            write_object(store, oid, *objects.read(oid))
    for oid, raw in commits:
        write_object(store, oid, "commit", raw)
    objects.add_directory(store, repository.name)
    fork = read_fork(repository, head, base, objects, branch=branch)
    waivers = _waivers(objects, base, fork.commits)
    try:
        plan = plan_export(objects, repository, name, directory, base, fork, ExportPolicy(waivers=waivers))
    except NotHeldError as error:
        if begun is None:
            raise
        raise _occupied(directory) from error  # the mirror was edited
    if plan.tree != links[-1].after:
        raise PatchesNotConverted(
            f"the mirror would produce the tree {plan.tree}, but the patches produce {links[-1].after}"
        )
    if begun is not None and not plan.up_to_date:
        raise _occupied(directory)
    if not git.read(Path(clone), "show-ref", "--verify", "--quiet", f"refs/heads/{branch}").ok:
        change(Path(clone), "update-ref", f"refs/heads/{branch}", head, "")
    carry_out(plan)
    config = SeriesConfig(
        name=name,
        patches=directory,
        upstream=upstream or clone,
        pin=base.oid,
        fork=clone,
        fork_ref=branch,
        expect="fork",
        waive=waivers,
    )
    return Adopted(
        config=config,
        pin=base,
        head=head,
        count=len(commits),
        tree=links[-1].after,
        plan=plan,
        warnings=(*series.warnings, *_left_out(series)),
    )


def _begun(directory: Path) -> Lock | None:
    """Return the lock of an existing mirror, which an interrupted run may have written.

    Return None if the directory does not exist or is empty. Raises `UsageError` for a directory that contains anything
    else.
    """
    try:
        refuse_occupied(directory)
    except UsageError as error:
        with contextlib.suppress(ConfigError):
            if directory.is_dir() and (lock := read_lock(directory)) is not None:
                return lock
        raise _occupied(directory) from error
    return None


def _occupied(directory: Path) -> UsageError:
    hint = "choose a different name for the series and its directory with --name NAME"
    return AlreadyExists(f"{directory} already exists", hint=hint)


def _refuse(objects: Objects, links: Sequence[Link]) -> None:
    """Raise `NotHeldError` for patches that cannot become commits with the same meaning."""
    if disagreed := list(disagreements(objects, links)):
        hint = "write the patch again with more context: run 'git diff -U10' with the intended tree"
        raise PatchesNotConverted(
            "the place of these hunks is ambiguous; nothing was written", problems=disagreed, hint=hint
        )
    problems = [f"{link.patch.file}: {text}" for link in links if link.outcome for text in link.outcome.warnings]
    problems += [f"{link.patch.file}: it changes nothing" for link in links if link.before == link.after]
    if problems:
        raise PatchesNotConverted("not every patch can be adopted; nothing was written", problems=problems)


def _left_out(series: Series) -> list[str]:
    """Return a warning for each damaged line of an otherwise applicable patch. git ignores such lines."""
    return [
        f"{patch.file}: line {damage.line}: {damage.what}"
        for patch in series.patches
        for damage in find_damage(patch.data or b"")
        if "git ignores it" in damage.what
    ]


def _waivers(objects: Objects, base: Commit, commits: Sequence[Commit]) -> tuple[Waiver, ...]:
    """Return waivers for adopted patches that touch forbidden paths."""
    places = {place for place, _ in path_complaints(objects, base, commits, LintPolicy())}
    return tuple(Waiver(rule=paths.ID, patch=place + 1, why="adopted unchanged") for place in sorted(places))
