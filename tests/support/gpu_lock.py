"""The directory of a GPU's lock, and processes that want it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from patchstack.machine.ask import Place
from tests.support.checkout import ROOT
from tests.support.toy import wait_for

CHILD = """
import os, signal, sys, time
from patchstack.machine.ask import Place, here
from patchstack.machine.gpu.lock import gpu_lock
signal.signal(signal.SIGTERM, signal.default_int_handler)
place, wait, hold, log, times = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4], int(sys.argv[5])
def note(what):
    with open(log, "a") as stream:
        stream.write(f"{what} {os.getpid()}\\n")
for _ in range(times):
    with gpu_lock(here(), "a child", places=(Place(path=place),), wait=wait, beat=0.3) as held:
        note("in")
        end = time.monotonic() + hold
        while time.monotonic() < end and not os.path.exists(log + ".go"):
            time.sleep(0.02)
        held.check()
        note("out")
"""


class Directory:
    """A lock's directory, its contents, and processes that want the lock."""

    def __init__(self, root: Path) -> None:
        self.path = root / "gpu.lock"
        self.places = (Place(path=str(self.path)),)
        self.owner = self.path / "owner"
        self.log = root / "log"

    def child(self, *, wait: float = 60.0, hold: float = 60.0, times: int = 1) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", CHILD, str(self.path), str(wait), str(hold), str(self.log), str(times)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            text=True,
        )

    def written(self, text: str | bytes, age: float = 0.0) -> None:
        self.path.mkdir(exist_ok=True)
        self.owner.write_bytes(text if isinstance(text, bytes) else text.encode())
        then = time.time() - age
        os.utime(self.owner, (then, then))

    def holding(self) -> subprocess.Popen[str]:
        """Return a child process that holds the lock."""
        child = self.child()
        assert wait_for(lambda: self.log.exists() and f"in {child.pid}" in self.log.read_text()), child
        return child
