"""Run a job in a PID namespace with its own `/proc`, so that it sees only its own processes (pid_namespaces(7)).

Every process can read the environment of the same user's other processes, in `/proc/PID/environ`. The environment of
patchstack's parent processes may contain secrets, for example the tokens of a CI runner.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys

from patchstack.errors import PatchstackError
from patchstack.process import run

DEPTH = 2
"""The number of processes above the job's own process: `unshare` and the first process of the namespace."""
NOT_APART = (
    "warning: jobs on this machine can read the environment of the processes that started them: PID",
    "namespaces (unshare --pid) are not available. Keep tokens out of that environment, or use Docker",
)
"""The lines of the warning on a system without PID namespaces."""
_SECONDS = 20.0
_FIRST = 'unset PWD OLDPWD SHLVL; exec 3>&2 2>/dev/null; (exec "$@" 2>&3 3>&-); exit $?'
"""The script of the first process in the namespace.

The first process of a PID namespace ignores signals for which it has no handler, even the signal of its own abort. So
the first process is a shell, and the job is its child. The shell's own messages about signals are discarded.
"""


@functools.cache
def apart() -> tuple[str, ...] | None:
    """Return the command prefix that hides other processes from a job. Return None if the system does not allow it.

    A user namespace is used only if patchstack does not run as root.
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
        # The probe must not see patchstack's process. In a namespace, a different process may have patchstack's pid. So
        # it is also enough if the probe's parent is process 1.
        asked = run([*words, "/bin/sh", "-c", f"test ! -d /proc/{os.getpid()} || test $PPID = 1"], timeout=_SECONDS)
    except PatchstackError:
        return None
    return words if asked.ok else None
