"""Work volumes that killed builds left are removed by the next build; those of running builds are not."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import subprocess
import time
from types import SimpleNamespace
from typing import Any

import pytest

from patchstack.builds.run import session
from patchstack.engine import leftovers
from patchstack.errors import UsageError
from patchstack.files import processes

KEY: Any = SimpleNamespace(short="0123456789ab")
HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
DAY = 86400


class Volumes:
    """An engine that has volumes, some of them in use."""

    def __init__(self, *names: str, used: tuple[str, ...] = ()) -> None:
        self.names = list(names)
        self.used = used

    def volumes(self) -> tuple[str, ...]:
        return tuple(self.names)

    def remove(self, name: str) -> None:
        if name in self.used:
            raise UsageError(f"the volume {name} is in use")
        self.names.remove(name)


def swept(*names: str, used: tuple[str, ...] = ()) -> list[str]:
    """Return the volumes that are removed."""
    engine: Any = Volumes(*names, used=used)
    leftovers.sweep(engine, session._WORK_VOLUMES)
    return [name for name in names if name not in engine.names]


def volume(pid: int, place: str, *, days: float = 0.0, host: str = HOST) -> str:
    made = int(time.time() - days * DAY)
    return f"patchstack-work-0123456789ab-{host}-{pid}-{place}-{made:08x}abcdef"


@pytest.fixture
def dead() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def test_the_volume_of_a_process_killed_here_is_removed_at_once(dead: int) -> None:
    name = session.work_name(KEY, "work").replace(f"-{os.getpid()}-", f"-{dead}-")
    assert swept(name) == [name]


def test_the_volume_of_a_process_that_runs_stays() -> None:
    assert swept(session.work_name(KEY, "work"), volume(os.getpid(), processes.here(), days=100)) == []


@pytest.mark.parametrize(("days", "gone"), [(1, False), (6, False), (8, True)])
def test_the_volume_of_another_container_or_an_earlier_start_stays_for_a_week(
    dead: int, days: float, gone: bool
) -> None:
    name = volume(dead, "0123abcd", days=days)
    assert swept(name) == ([name] if gone else [])


def test_volumes_of_other_machines_and_kept_ones_stay(dead: int) -> None:
    kept = session.work_name(KEY, "kept").replace(f"-{os.getpid()}-", f"-{dead}-")
    assert swept(kept, volume(dead, "0123abcd", days=100, host="0" * 8), "patchstack-kept", "mine") == []


def test_a_volume_named_by_an_earlier_version_stays_for_its_age_is_not_known(dead: int) -> None:
    assert swept(f"patchstack-work-0123456789ab-{HOST}-{dead}-abcdef") == []


def test_a_volume_that_a_dying_container_still_uses_is_left_to_the_next_build(dead: int) -> None:
    used, free = volume(dead, processes.here()), volume(dead, processes.here(), days=1)
    assert swept(used, free, used=(used,)) == [free]


def test_the_name_says_who_made_the_volume_and_when() -> None:
    found = re.fullmatch(
        rf"patchstack-work-0123456789ab-{HOST}-{processes.tag()}-([0-9a-f]{{8}})[0-9a-f]{{6}}",
        session.work_name(KEY, "work"),
    )
    assert found is not None
    assert abs(int(found[1], 16) - time.time()) < 60
