"""The volumes that a sweep removes. tests/unit/builds/run/test_work_volume.py tests their owners."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from patchstack.engine.archive import pack
from patchstack.engine.host.engine import HostEngine
from patchstack.engine.leftovers import volume_name
from patchstack.observe.layout import remove_leftovers


def named(what: str, pid: int) -> str:
    return volume_name(what).replace(f"-{os.getpid()}-", f"-{pid}-")


@pytest.fixture
def dead() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def test_what_runs_and_clients_of_killed_processes_left_is_removed(tmp_path: Path, dead: int) -> None:
    engine = HostEngine(tmp_path)
    gone = [named("patchstack-gate", dead), named("patchstack-client", dead)]
    stay = [
        named("patchstack-gate", os.getppid()),
        volume_name("patchstack-client"),
        named("patchstack-work-0123456789ab", dead),
        f"patchstack-gate-{dead}-0123abcd",  # of an earlier version
        "patchstack-kept",
    ]
    for name in (*gone, *stay):
        engine.put(name, pack(()))
    remove_leftovers(engine)
    assert sorted(engine.volumes()) == sorted(stay)
