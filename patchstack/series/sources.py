"""Open what a series is verified against: upstream, pin and fork, from paths or URLs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patchstack.git.objects import Commit, Objects, Repository
from patchstack.git.overlay import TreeOverlay
from patchstack.git.patch.diff import named_paths
from patchstack.git.remote import Cache, Remote, fetch_into_cache
from patchstack.series.files.directory import Series
from patchstack.series.history import ForkHistory, read_fork


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The opened sources: objects of all of them, the pin, upstream's repository (of a URL: ours in the cache), and
    where a fork was named its commits and repository."""

    objects: Objects
    base: Commit
    upstream: Repository
    fork: ForkHistory | None
    fork_repository: Repository | None


def open_sources(
    cache: Cache,
    *,
    upstream: str | Remote,
    pin: str,
    fork: str | None = None,
    fork_ref: str | None = None,
    series: Series,
    head_only: bool = False,
) -> Sources:
    """Open upstream and fork, and find the pin. Contents the series needs are fetched ahead where they are missing.

    `head_only` reads the fork's head alone, not its commits since the pin: they may have merges, or no pin below them.

    Raises `NotARepository`, `MissingError` for what is not there, `NotHeldError` for a fork that is not on the pin.
    """
    objects = Objects()
    remotes = [Remote.at(upstream, cache)]
    repository = remotes[0].commit(pin)
    objects.add_directory(repository.object_directory, repository.name)
    base = repository.resolve_commit(pin, "pin", objects)
    history = fork_repository = None
    if fork is not None and fork_ref is not None:
        remotes.append(remote := Remote.at(fork, cache))
        fork_repository, head = remote.resolve(fork_ref, "fork ref", until=base.oid)
        objects.add_directory(fork_repository.object_directory, fork_repository.name)
        history = read_fork(
            fork_repository, head.oid, base, objects, branch=fork_ref, note=remote.note, head_only=head_only
        )
    _fetch_on_demand(objects, cache, remotes, base, series)
    if cache.offline:
        objects.hint = "it may be had from where the clone came from: run once without --offline"
    return Sources(objects=objects, base=base, upstream=repository, fork=history, fork_repository=fork_repository)


def _fetch_on_demand(objects: Objects, cache: Cache, remotes: Sequence[Remote], base: Commit, series: Series) -> None:
    """Let missing objects be fetched; the first time one is missing, with it all that the series will need."""
    fetch = fetch_into_cache(objects, cache, [remote.source for remote in remotes])
    ahead: list[str] | None = None

    def on_missing(oids: Sequence[str]) -> None:
        nonlocal ahead
        if ahead is None:
            ahead = []
            ahead = [oid for oid in _needed(objects, base, series) if not objects.has(oid)]
            oids = [*oids, *ahead]
        fetch(list(dict.fromkeys(oids)))

    objects.fetch = on_missing


def _needed(objects: Objects, base: Commit, series: Series) -> list[str]:
    """The pin's blobs that the series may touch."""
    tree = TreeOverlay(objects, base.tree)
    paths = {path for patch in series.patches for path in named_paths(patch.data or b"")}
    entries = [tree.entry(path) for path in sorted(paths) if tree.obstacle(path) is None]
    return [oid for mode, oid in filter(None, entries) if mode & 0o170000 in (0o100000, 0o120000)]
