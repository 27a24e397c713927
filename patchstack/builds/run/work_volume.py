"""The volume of a build under way: its name, and the removal of those that killed builds left."""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
import socket
import time

from patchstack.builds.inputs.key import Key
from patchstack.engine.protocol import Engine
from patchstack.errors import UsageError
from patchstack.files.processes import TAG, is_gone, tag

_NAME = re.compile(rf"patchstack-work-[0-9a-f]{{12}}-([0-9a-f]{{8}})-{TAG}-([0-9a-f]{{8}})?[0-9a-f]{{6}}")
_LONGEST = 5 * 86400.0
"""Seconds: no build takes longer. An engine does not tell when a volume was last written, so its name tells when it was
made."""


def work_name(key: Key, word: str) -> str:
    """Return the name of a new volume of this process."""
    return f"patchstack-{word}-{key.short}-{_host()}-{tag()}-{int(time.time()):08x}{secrets.token_hex(3)}"


def sweep(engine: Engine) -> None:
    """Remove the work volumes of processes of this machine that are surely gone.

    A name of an earlier version tells no age: its volume is left to `docker volume rm`.
    """
    for name in engine.volumes():
        found = _NAME.fullmatch(name)
        if found is None or found[1] != _host():
            continue
        silent = time.time() - int(found[4], 16) - _LONGEST if found[4] else 0.0
        if is_gone(int(found[2]), found[3], silent=silent):
            with contextlib.suppress(UsageError):  # its container is just ending
                engine.remove(name)


def _host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
