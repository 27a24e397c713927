"""Lock a workspace while a command changes its mirror or its ledger.

Only one process at a time holds the lock. A waiting process shows the owner of the lock.
"""

from __future__ import annotations

import contextlib
import getpass
import os
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from patchstack.files.lock import locked_while

FILE_NAME = ".patchstack.lock"
"""The lock file. It exists only while a process holds the lock."""


@contextlib.contextmanager
def alone_in(root: Path, doing: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of the workspace at `root` while the block runs.

    `doing` is the command. Other processes show it while they wait. If a different process holds the lock, call `tell`
    with a line that names the holder, its user and its command, then wait. Raises `UsageError` if the path of the lock
    is not a lock file, and `MissingError` if the lock file cannot be created.
    """

    def busy(owner: str) -> None:
        tell(f"waiting: {owner} holds the lock of this workspace")

    with locked_while(root.resolve() / FILE_NAME, _owner(doing), busy):
        yield


def _owner(doing: str) -> str:
    since = datetime.now().astimezone().strftime("%H:%M")
    return f"process {os.getpid()} of {_user()} on {os.uname().nodename} ({doing}, since {since})"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container, the user often has no name
        return f"user {os.getuid()}"
