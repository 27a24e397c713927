"""Run a job where it sees no process but its own: in a PID namespace, with a `/proc` of its own (pid_namespaces(7)).

The environment of a process can be read by every process of the same user, in `/proc/PID/environ`. That of our
ancestors may hold what a job must not see: in CI, the tokens of the runner.
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
"""The first process of a namespace ignores signals that it did not ask for, also its own abort: so it is a shell, and
the job its child. What the shell says of signals is not the job's, and goes nowhere."""


@functools.cache
def apart() -> tuple[str, ...] | None:
    """Return the words to put before a job's, so that it sees no other processes; None if the system does not let us.

    A user namespace is only used where one is needed: without it the job has our rights, and no more of them.
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
        # Two processes: itself and the shell. Ours is not among them.
        asked = run([*words, "/bin/sh", "-c", f"test ! -d /proc/{os.getpid()} || test $PPID = 1"], timeout=_SECONDS)
    except PatchstackError:
        return None
    return words if asked.ok else None
