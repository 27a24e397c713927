"""Open the repositories that are needed to verify a series: upstream with the pin, and the fork.

Each repository is a path or a URL.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchstack.causes import CloneMissing
from patchstack.errors import ConfigError, MissingError, PatchstackError
from patchstack.git.handover import every_path
from patchstack.git.objects import Commit, NoSuchRepository, NotARepository, Objects, Repository
from patchstack.git.overlay import TreeOverlay
from patchstack.git.remote import Cache, Remote, fetch_into_cache, shown_url
from patchstack.series.files.directory import Series
from patchstack.series.history import ForkHistory, read_fork
from patchstack.series.lock import FILE_NAME, Lock, read_lock
from patchstack.tasks import task
from patchstack.workspace import is_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The opened repositories.

    `objects` contains the objects of all repositories. `base` is the pin. `upstream` is upstream's repository; for a
    URL, it is the clone in the cache. `fork` and `fork_repository` are None if no fork was given.
    """

    objects: Objects
    base: Commit
    upstream: Repository
    fork: ForkHistory | None
    fork_repository: Repository | None


@task("opening the repositories")
def open_sources(
    cache: Cache,
    *,
    upstream: str | Remote,
    pin: str,
    fork: str | None = None,
    fork_ref: str | None = None,
    series: Series,
    head_only: bool = False,
    recreate: str | None = None,
    beside: str | None = None,
) -> Sources:
    """Open upstream and fork, and find the pin.

    Missing contents are fetched on demand. The first fetch includes everything that the series needs. With `head_only`,
    only the fork's head is read. The fork's history may then include merges, and does not have to descend from the pin.
    `recreate` is the name of the series in the workspace. It is used in the hint that shows how to recreate a missing
    fork. `beside` is a fork that is used only for hints, because its clone may contain the URL of upstream.

    Raises `NotARepository` for a path that is not a repository. Raises `MissingError` for a missing repository, ref or
    object, and `NotHeldError` for a fork that does not descend from the pin.
    """
    objects = Objects()
    remotes = [Remote.at(upstream, cache)]
    try:
        repository = remotes[0].commit(pin)
    except NoSuchRepository as error:
        raise missing_upstream(remotes[0], fork or beside) from error
    objects.add_directory(repository.object_directory, repository.name)
    base = repository.resolve_commit(pin, "pin", objects)
    history = fork_repository = None
    if fork is not None and fork_ref is not None:
        remotes.append(remote := Remote.at(fork, cache))
        try:
            fork_repository, head = remote.resolve(fork_ref, "fork ref", until=base.oid)
        except (NotARepository, MissingError) as error:
            raise _missing_fork(error, fork, fork_ref, base, series, recreate) from error
        objects.add_directory(fork_repository.object_directory, fork_repository.name)
        history = read_fork(
            fork_repository, head.oid, base, objects, branch=fork_ref, note=remote.note, head_only=head_only
        )
    _fetch_on_demand(objects, cache, remotes, base, series)
    if cache.offline:
        objects.hint = "the clone's remote may have it: run once without --offline"
    return Sources(objects=objects, base=base, upstream=repository, fork=history, fork_repository=fork_repository)


def missing_upstream(upstream: Remote, fork: str | None) -> MissingError:
    """Return the error for an upstream whose path does not exist.

    If the fork's clone contains the URL of upstream, the hint is a command that clones upstream.
    """
    url = None
    if fork is not None and not is_url(fork):
        with contextlib.suppress(PatchstackError):
            url = Remote(fork, upstream.cache).origin("upstream")
    clone = "clone upstream there"
    if url is not None:
        clone = f"run 'git clone {shlex.quote(shown_url(url))} {shlex.quote(upstream.where)}'"
    return CloneMissing(
        f"there is no upstream at {upstream.where}: no such file or directory",
        hint=f"{clone}, or choose a different repository as upstream",
    )


def _missing_fork(
    error: PatchstackError, fork: str, ref: str, base: Commit, series: Series, name: str | None
) -> PatchstackError:
    """Return the error for a fork that could not be opened.

    If its directory or branch does not exist and the lock contains its commits, the hint shows how to recreate the
    fork.
    """
    if is_url(fork):
        return error
    path = Path(fork)
    absent = not path.exists() or (path.is_dir() and not any(path.iterdir()))
    if not absent and isinstance(error, NotARepository):
        return error
    lock = _recreatable(series.directory, base) if name is not None else None
    hint = error.hint
    if lock is not None and name is not None and absent:
        hint = f"run '{_command('checkout', name, fork)}' to recreate the fork from pin, series and lock"
    elif lock is not None and name is not None and lock.branch == ref.removeprefix("refs/heads/"):
        directory = f"{fork.rstrip('/')}-{lock.branch.replace('/', '-')}"
        command = _command("checkout", name, directory, "--worktree-of", fork)
        hint = f"run '{command}' to recreate the branch from pin, series and lock"
    elif absent:
        hint = "clone the fork there, or set fork in patchstack.yaml to its repository"
    return CloneMissing(error.message, hint=hint, problems=error.problems)


def _recreatable(directory: Path, base: Commit) -> Lock | None:
    """Return the lock of a series if it can recreate the fork. Return None otherwise.

    The lock must belong to this pin and contain the commits.
    """
    if not (directory / FILE_NAME).exists():
        return None
    try:
        lock = read_lock(directory)
    except ConfigError:
        return None
    usable = lock is not None and lock.base_commit == base.oid and all(patch.object for patch in lock.patches)
    return lock if usable else None


def _command(*words: str) -> str:
    return shlex.join(["patchstack", *words])


def _fetch_on_demand(objects: Objects, cache: Cache, remotes: Sequence[Remote], base: Commit, series: Series) -> None:
    """Fetch missing objects on demand. The first fetch includes all objects that the series will need."""
    fetch = fetch_into_cache(objects, cache, [remote.source for remote in remotes])
    ahead: list[str] | None = None

    def on_missing(oids: Sequence[str]) -> None:
        nonlocal ahead
        if ahead is None:
            ahead = []
            ahead = objects.missing(_needed(objects, base, series))
            oids = [*oids, *ahead]
        fetch(list(dict.fromkeys(oids)))

    objects.fetch = on_missing


def _needed(objects: Objects, base: Commit, series: Series) -> list[str]:
    """Return the blobs of the pin that the series may touch."""
    tree = TreeOverlay(objects, base.tree)
    paths = {path for patch in series.patches for path in every_path(patch.data or b"")}
    entries = [tree.entry(path) for path in sorted(paths) if tree.obstacle(path) is None]
    return [oid for mode, oid in filter(None, entries) if mode & 0o170000 in (0o100000, 0o120000)]
