"""Open what a series is verified against: upstream, pin and fork, from paths or URLs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchstack.git.objects import Commit, Objects, Repository
from patchstack.git.overlay import TreeOverlay
from patchstack.git.patch.diff import named_paths
from patchstack.git.remote import Cache, fetch_into_cache
from patchstack.series.files.directory import Series
from patchstack.series.history import ForkHistory, read_fork
from patchstack.workspace import is_url


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
    upstream: str,
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
    remotes: list[str | Path] = []
    repository = _open(cache, upstream, pin, remotes)
    objects.add_directory(repository.object_directory, repository.name)
    base = repository.resolve_commit(pin, "pin", objects)
    history = fork_repository = None
    if fork is not None and fork_ref is not None:
        if is_url(fork):
            fork_repository, head = cache.history(fork, fork_ref, base.oid)
            remotes.append(fork)
        else:
            fork_repository, head = Repository.open(fork, Path(fork)), fork_ref
            remotes.append(fork_repository.path)
        # A ref is the fork's own: found there, and not by chance among the upstream's objects.
        alone = Objects()
        alone.add_directory(fork_repository.object_directory, fork_repository.name)
        head = fork_repository.resolve_commit(head, "fork ref", alone).oid
        objects.add_directory(fork_repository.object_directory, fork_repository.name)
        note = " as last fetched" if cache.offline and is_url(fork) else ""
        history = read_fork(fork_repository, head, base, objects, branch=fork_ref, note=note, head_only=head_only)
    _fetch_on_demand(objects, cache, remotes, base, series)
    if cache.offline:
        objects.hint = "it may be had from where the clone came from: run once without --offline"
    return Sources(objects=objects, base=base, upstream=repository, fork=history, fork_repository=fork_repository)


def _open(cache: Cache, upstream: str, pin: str, remotes: list[str | Path]) -> Repository:
    if is_url(upstream):
        remotes.append(upstream)
        return cache.commit(upstream, pin)
    repository = Repository.open(upstream, Path(upstream))
    remotes.append(repository.path)
    return repository


def _fetch_on_demand(
    objects: Objects, cache: Cache, remotes: Sequence[str | Path], base: Commit, series: Series
) -> None:
    """Let missing objects be fetched; the first time one is missing, with it all that the series will need."""
    fetch = fetch_into_cache(objects, cache, remotes)
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
