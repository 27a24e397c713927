"""Run processes in a separate PID namespace, like those of a different container."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.checkout import ROOT

_UNSHARE = ("unshare", "--pid", "--fork", "--kill-child")
# The number of the process in the namespace must be unused outside, because /proc shows the outside.
_BEGIN = """
import os, sys
while os.path.exists(f"/proc/{os.getpid()}"):
    if os.fork():
        os.wait()
        os._exit(0)
"""


def need_namespaces() -> None:
    """Skip if no PID namespace can be made."""
    try:
        done = subprocess.run([*_UNSHARE, "true"], capture_output=True)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if done.returncode:
        pytest.skip("only root may make a PID namespace")


@contextlib.contextmanager
def in_another(script: str, *arguments: str | Path) -> Iterator[int]:
    """Run a Python script in a different PID namespace, and kill it when the block ends. Yields its number in there.
    The script calls `ready()`, which waits."""
    ready = "\ndef ready():\n    print(os.getpid(), flush=True)\n    sys.stdin.read()\n"
    child = subprocess.Popen(
        [*_UNSHARE, sys.executable, "-c", _BEGIN + ready + script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        try:
            said = child.stdout.readline()
            assert said, "the script ended before it was ready"
            yield int(said)
        finally:
            child.kill()
            child.stdout.read()  # until no process is left that could continue
