"""Run a job in a PID namespace with its own `/proc`, so that it sees only its own processes (pid_namespaces(7)).

The environment of a process can be read by every process of the same user, in `/proc/PID/environ`. The environment of
our ancestors may contain secrets: in CI, the tokens of the runner.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys

from patchstack.errors import PatchstackError
from patchstack.process import run

DEPTH = 2
"""The processes before the job's own: `unshare`, and the first of the namespace. Each has one child."""
_SECONDS = 20.0
_FIRST = 'unset PWD OLDPWD SHLVL; exec 3>&2 2>/dev/null; (exec "$@" 2>&3 3>&-); exit $?'
"""The first process of a namespace ignores signals without a handler, even its own abort. So it is a shell, and the job
is its child. The shell's own messages about signals are discarded."""


@functools.cache
def apart() -> tuple[str, ...] | None:
    """Return the command prefix that hides other processes from a job; None if the system does not allow it.

    A user namespace is used only if needed: without one, the job has exactly our rights.
    """
    if not sys.platform.startswith("linux"):
        return None
    if (program := shutil.which("unshare")) is None:
        return None
    options: tuple[str, ...] = ("--pid", "--fork", "--mount-proc", "--kill-child")
    if os.geteuid() != 0:
        options = ("--user", "--map-current-user", *options)
    words = (program, *options, "--", "/bin/sh", "-c", _FIRST, "sh")
    try:
        # It must see two processes, itself and the shell, and not ours.
        asked = run([*words, "/bin/sh", "-c", f"test ! -d /proc/{os.getpid()} || test $PPID = 1"], timeout=_SECONDS)
    except PatchstackError:
        return None
    return words if asked.ok else None
