"""A machine that is reachable only through a Docker engine: probing it, and locking its GPU, from inside containers."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchstack.engine.choose import open_engine
from patchstack.engine.protocol import Engine, Volume
from patchstack.machine.ask import Ask, Place, here, through
from patchstack.machine.gpu.lock import GpuTaken, Standing, gpu_lock, look
from patchstack.machine.gpu.preflight import Wanted, preflight
from patchstack.machine.hardware import hardware
from patchstack.verdict import Verdict
from tests.support.toy import IMAGE, need_docker

PLACES = (Place(path="/lock"),)


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Ask]:
    need_docker()
    volume = f"patchstack-test-lock-{secrets.token_hex(4)}"

    def opened() -> Engine:
        return open_engine("docker", root=tmp_path / "engine")

    yield through(opened, image=IMAGE, gpus=False, volumes=(Volume(name=volume, target="/lock"),))
    with contextlib.closing(opened()) as engine:
        engine.remove(volume)


def test_a_container_tells_the_machine_it_is_on_and_what_it_cannot_see(ask: Ask) -> None:
    inside = hardware(ask)
    assert inside.contained is not None
    assert inside.identity() == hardware(here()).identity()
    flight = preflight(ask, Wanted(gpu=False, settle=0.0), places=PLACES)
    (containers,) = [check for check in flight.checks if check.name == "containers"]
    assert containers.verdict is Verdict.INVALID
    assert containers.words.startswith("other containers are not visible from inside a container (")


def test_the_lock_in_a_volume_holds_between_containers(ask: Ask) -> None:
    assert look(ask, PLACES)[0].standing is Standing.FREE
    with gpu_lock(ask, "far away", places=PLACES, beat=0.5) as held:
        assert look(ask, PLACES)[0].standing is Standing.LIVE
        with pytest.raises(GpuTaken, match=r"\(far away\) has the GPU"), gpu_lock(ask, "me", places=PLACES):
            pass
        held.check()
    assert look(ask, PLACES)[0].standing is Standing.FREE
