"""Volumes of one process. Their names contain the owner, so that those of killed processes can be removed."""

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
"""Seconds; no build and no run takes longer. An engine does not report when a volume was last written, so its name
contains its creation time."""


def volume_name(what: str) -> str:
    """Return the name of a new volume of this process, with the prefix `what`."""
    return f"{what}-{_host()}-{tag()}-{int(time.time()):08x}{secrets.token_hex(3)}"


def sweep(engine: Engine, what: str) -> None:
    """Remove the volumes of processes of this machine that have certainly ended. `what` is a pattern for the start of
    their names.

    Volumes of earlier versions, whose names have no time, are not removed; use `docker volume rm`.
    """
    own = re.compile(rf"(?:{what}){_OWNER}")
    for name in engine.volumes():
        found = own.fullmatch(name)
        if found is None or found[1] != _host():
            continue
        silent = time.time() - int(found[4], 16) - _LONGEST if found[4] else 0.0
        if is_gone(int(found[2]), found[3], silent=silent):
            with contextlib.suppress(UsageError):  # its container is still ending
                engine.remove(name)


def _host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
