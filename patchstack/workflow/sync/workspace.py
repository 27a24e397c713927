"""Manage the directories of a sync: its state, its lock, and the shared resolutions."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from patchstack.causes import NotWritable, SyncNotReady
from patchstack.checks.run import OpenEngine, no_engine
from patchstack.files.lock import locked_directory
from patchstack.git.remote import Cache
from patchstack.workflow.sync.state import FILE_NAME, SyncState, load_state, save_state
from patchstack.workflow.sync.worktree import SyncTree
from patchstack.workspace import SeriesConfig, Workspace

Talk = Callable[[str], None]
OURS = ".patchstack"
WHO = "patchstack sync"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncWorkspace:
    """The directories of a sync of one series.

    `directory` contains only files of this sync. `shared` contains the resolutions that maintainers share. `engine`
    opens the engine for commands of checks.
    """

    config: SeriesConfig
    workspace: Workspace
    cache: Cache
    talk: Talk
    engine: OpenEngine = no_engine

    @property
    def directory(self) -> Path:
        return self.workspace.root / OURS / "sync" / self.config.name

    @property
    def shared(self) -> Path:
        return self.workspace.root / OURS / "rerere"

    @property
    def stage(self) -> Path:
        return self.directory / "export" / "patches"

    def state(self) -> SyncState | None:
        """Return the state of the sync of this series, or None if none is in progress."""
        return load_state(self.directory)

    def the_state(self) -> SyncState:
        """Return the state of the sync. Raises `UsageError` if none is in progress."""
        state = self.state()
        if state is None:
            raise SyncNotReady(
                f"no sync of {self.config.name} is under way", hint=f"patchstack sync {self.config.name} --to REF"
            )
        return state

    def save(self, state: SyncState) -> SyncState:
        return save_state(self.directory, state)

    def clear(self) -> None:
        """Remove the files of the sync.

        The state is removed first. If the removal is interrupted, the remaining files do not belong to any sync.
        """
        (self.directory / FILE_NAME).unlink(missing_ok=True)
        shutil.rmtree(self.directory, ignore_errors=True)
        above = self.directory.parent
        with contextlib.suppress(OSError):
            if [path.name for path in above.iterdir()] == [".gitignore"]:
                shutil.rmtree(above)
                above.parent.rmdir()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock on the sync of this series. Raises `UsageError` if another process holds the lock."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            ignore = self.directory.parent / ".gitignore"
            if not ignore.is_file():
                ignore.write_text("*\n")
        except OSError as error:
            raise NotWritable(f"{self.directory} cannot be created: {error.strerror}") from error
        with locked_directory(self.directory, WHO):
            try:
                yield
            finally:
                if not (self.directory / FILE_NAME).exists():
                    self.clear()


def tree_of(state: SyncState) -> SyncTree:
    """Return the repository of a sync."""
    return SyncTree(Path(state.worktree), state.branch)
