"""Plan the cache of the objects that the action fetches, and decide which runs may write it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchstack import __version__
from patchstack.cli.ci.inputs import Command, Event

_FETCHING = (Command.VERIFY, Command.LINT, Command.CANARY)
_TRUSTED = ("push", "schedule", "workflow_dispatch")


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePlan:
    """The plan for a cache: whether to read and write it, and its key.

    `prefix` is the common start of the keys, which also matches older caches.
    """

    read: bool
    write: bool
    key: str
    prefix: str


def cache_plan(command: Command, event: Event, *, wanted: bool, content: Iterable[bytes], platform: str) -> CachePlan:
    """Return the plan for a cache.

    The cache contains git directories, and git obeys the configuration in them. So whoever writes the cache controls
    what git does in other jobs. Therefore, only runs on the default branch may write, and only for events that people
    without write access to the repository cannot trigger. A pull request only reads. A release (a tag) neither reads
    nor writes, because it must not depend on earlier jobs.
    """
    digest = hashlib.sha256()
    for part in content:
        digest.update(hashlib.sha256(part).digest())
    prefix = f"patchstack-{__version__}-{platform}-"
    usable = wanted and command in _FETCHING and not event.ref.startswith("refs/tags/")
    return CachePlan(
        read=usable,
        write=usable and event.on_default_branch and event.name in _TRUSTED,
        key=f"{prefix}{digest.hexdigest()[:32]}",
        prefix=prefix,
    )


def cache_inputs(workspace: Path, directories: Mapping[str, Path]) -> list[bytes]:
    """Return the contents that determine which objects are fetched: the workspace file and every patch.

    Unreadable files are skipped, because a later command reports them.
    """
    found = []
    for path in (workspace, *(path for one in directories.values() for path in sorted(one.glob("[0-9]*")))):
        try:
            found.append(path.read_bytes())
        except OSError:
            continue
    return found
