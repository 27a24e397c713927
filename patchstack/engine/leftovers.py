"""Volumes of one process: their names say whose they are, so that those of killed processes can be removed."""

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
"""Seconds: no build and no run takes longer. An engine does not tell when a volume was last written, so its name tells
when it was made."""


def volume_name(what: str) -> str:
    """Return the name of a new volume of this process; `what` begins it."""
    return f"{what}-{_host()}-{tag()}-{int(time.time()):08x}{secrets.token_hex(3)}"


def sweep(engine: Engine, what: str) -> None:
    """Remove the volumes of processes of this machine that are surely gone. `what` is a pattern of how their names
    begin.

    A name of an earlier version that tells no age is left to `docker volume rm`.
    """
    own = re.compile(rf"(?:{what}){_OWNER}")
    for name in engine.volumes():
        found = own.fullmatch(name)
        if found is None or found[1] != _host():
            continue
        silent = time.time() - int(found[4], 16) - _LONGEST if found[4] else 0.0
        if is_gone(int(found[2]), found[3], silent=silent):
            with contextlib.suppress(UsageError):  # its container is just ending
                engine.remove(name)


def _host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
