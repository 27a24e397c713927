"""Lock a workspace: only one process at a time decides on candidates, and waiting processes name the owner."""

from __future__ import annotations

import contextlib
import getpass
import os
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from patchstack.files.lock import locked_while

FILE_NAME = ".patchstack.lock"
"""The lock file, which exists only while a process holds it."""


@contextlib.contextmanager
def alone_in(root: Path, doing: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of the workspace at `root`. `doing` is the command, for waiting processes. If a different process
    holds it, `tell` gets a line with that process, its user and its command; then this waits for the lock. Raises what
    `locked_while` raises.
    """

    def busy(owner: str) -> None:
        tell(f"waiting: {owner} is at work here")

    with locked_while(root.resolve() / FILE_NAME, _owner(doing), busy):
        yield


def _owner(doing: str) -> str:
    since = datetime.now().astimezone().strftime("%H:%M")
    return f"process {os.getpid()} of {_user()} on {os.uname().nodename} ({doing}, since {since})"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user often has no name
        return f"user {os.getuid()}"
