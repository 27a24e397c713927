"""Name the volumes of a process, and remove the volumes of killed processes. A volume's name contains its owner."""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
import socket
import time

from patchstack.engine.protocol import Engine
from patchstack.errors import UsageError
from patchstack.files.processes import TAG, is_gone, tag

_OWNER = rf"-([0-9a-f]{{8}})-{TAG}-([0-9a-f]{{8}})?[0-9a-f]{{6}}"
_LONGEST = 5 * 86400.0
"""The longest time, in seconds, for which a build or run may use a volume.

The creation time is in the volume's name, because an engine does not report when a volume was last written.
"""


def volume_name(what: str) -> str:
    """Return a new name for a volume of this process. The name begins with `what`."""
    return f"{what}-{_host()}-{tag()}-{int(time.time()):08x}{secrets.token_hex(3)}"


def sweep(engine: Engine, what: str) -> None:
    """Remove the volumes of processes on this machine that have certainly ended.

    `what` is a regular expression for the beginning of the volumes' names.

    If it is unknown whether the process of a volume has ended, the volume is removed after five days. Such a
    volume of an earlier version is kept, because its name contains no time. To remove it, use `docker volume rm`.
    """
    own = re.compile(rf"(?:{what}){_OWNER}")
    for name in engine.volumes():
        found = own.fullmatch(name)
        if found is None or found[1] != _host():
            continue
        silent = time.time() - int(found[4], 16) - _LONGEST if found[4] else 0.0
        if is_gone(int(found[2]), found[3], silent=silent):
            with contextlib.suppress(UsageError):  # a container that has not ended yet may use the volume
                engine.remove(name)


def _host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
