"""Find the settings of a new workspace from a fork or a directory of patches."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from patchstack.causes import CloneNeeded, NoCommonHistory, NotDescended
from patchstack.git import run as git
from patchstack.git.objects import Commit, Objects, Repository
from patchstack.git.remote import Cache, shown_url
from patchstack.git.scratch import bare_repository
from patchstack.process import Finished
from patchstack.series.files.directory import Series, load_series
from patchstack.series.sources import open_sources
from patchstack.tasks import task
from patchstack.workspace import SeriesConfig, is_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The settings of a series.

    `pin_from` describes how the pin was found. `count` is the number of the fork's commits since the pin, or the number
    of patches.
    """

    config: SeriesConfig
    pin: Commit
    count: int
    pin_from: str


@task("reading the fork")
def from_fork(
    cache: Cache,
    *,
    fork: str,
    fork_ref: str,
    upstream: str | None,
    pin: str | None,
    name: str | None,
    patches: Path | None,
) -> Found:
    """Return the settings of a series from a fork branch.

    The default pin is the merge base with upstream's HEAD. If no upstream is given, it is the merge base with a
    remote-tracking branch of the fork's clone, such as `upstream/HEAD` or `origin/master`. Raises `UsageError` if the
    pin cannot be found. Also raises the errors of `open_sources`.
    """
    if is_url(fork):
        raise CloneNeeded(
            "init needs a fork on this machine", hint=f"run 'git clone {shown_url(fork)}', and use that clone"
        )
    repository = Repository.open(fork, Path(fork))
    pin_from = "--pin"
    if pin is None:
        pin, pin_from = _merge_base(repository, fork_ref, upstream)
    name = name or series_name(fork_ref)
    series = Series(name=name, directory=Path(), patches=())
    sources = open_sources(cache, upstream=upstream or fork, pin=pin, fork=fork, fork_ref=fork_ref, series=series)
    assert sources.fork is not None
    if not sources.fork.commits:
        raise NotDescended(f"{fork} {fork_ref} has no commits after the pin {sources.base.oid[:12]}")
    config = SeriesConfig(
        name=name,
        patches=patches or Path("patches") / name,
        upstream=upstream or fork,
        pin=sources.base.oid,
        fork=fork,
        fork_ref=fork_ref,
        expect="fork",
    )
    return Found(config=config, pin=sources.base, count=len(sources.fork.commits), pin_from=pin_from)


@task("reading the patches")
def from_patches(cache: Cache, *, patches: Path, upstream: str, pin: str, name: str | None) -> Found:
    """Return the settings of a series from a directory of patch files.

    Raises the errors of `load_series` and `open_sources`.
    """
    series = load_series(patches, name or series_name(patches.resolve().name))
    sources = open_sources(cache, upstream=upstream, pin=pin, series=series)
    config = SeriesConfig(
        name=series.name,
        patches=patches,
        upstream=upstream,
        pin=sources.base.oid,
        fork=None,
        fork_ref=None,
        expect="lock",
    )
    return Found(config=config, pin=sources.base, count=len(series.patches), pin_from="--pin")


def series_name(text: str) -> str:
    """Convert the name of a branch or directory to a name for the series."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text.rsplit("/", 1)[-1]).strip("-.")
    return name or "series"


def _merge_base(fork: Repository, ref: str, upstream: str | None) -> tuple[str, str]:
    """Return the commit at which the fork diverges from upstream, and a phrase that describes how it was found."""
    objects = Objects()
    objects.add_directory(fork.object_directory, fork.name)
    head = fork.resolve_commit(ref, "fork ref", objects)
    if upstream is None:
        known = [
            (name, done.stdout.decode("ascii").strip())
            for name in (
                "upstream/HEAD",
                "upstream/master",
                "upstream/main",
                "origin/HEAD",
                "origin/master",
                "origin/main",
            )
            if (done := git.read(fork.path, "rev-parse", "--verify", "--quiet", f"refs/remotes/{name}^{{commit}}")).ok
        ]
        known = [(name, oid) for name, oid in known if oid != head.oid]
        if not known:
            raise CloneNeeded(
                f"{fork.name} has no upstream branch from which to find the pin",
                hint="use --upstream REPO or --pin SHA",
            )
        name, other = known[0]
        bases = git.read(fork.path, "merge-base", head.oid, other)
        words = f"the merge base with {name}"
    else:
        if is_url(upstream):
            raise CloneNeeded("the pin cannot be found from a URL", hint="use --pin SHA, or set --upstream to a clone")
        theirs = Repository.open(upstream, Path(upstream))
        objects.add_directory(theirs.object_directory, upstream)
        other = theirs.resolve_commit("HEAD", "upstream's HEAD", objects).oid
        bases = _merge_base_over(fork, theirs, head.oid, other)
        words = f"the merge base with {upstream} HEAD"
    found = bases.stdout.decode("ascii").split()
    if not bases.ok or not found:
        raise NoCommonHistory(
            f"{fork.name} {ref} and its upstream have no common ancestor", hint="choose the pin with --pin SHA"
        )
    return found[0], words


def _merge_base_over(one: Repository, other: Repository, head: str, their_head: str) -> Finished:
    """Run `git merge-base` on commits of two repositories.

    git runs in a temporary repository that borrows the objects of both. Neither repository is changed.
    """
    with bare_repository((one.object_directory, other.object_directory)) as root:
        return git.read(root, "merge-base", head, their_head)
