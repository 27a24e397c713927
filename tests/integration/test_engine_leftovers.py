"""A patchstack that is killed while its volumes exist: the next one removes them, and no others."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchstack.engine.host.engine import HostEngine
from patchstack.engine.protocol import Engine
from patchstack.observe.layout import remove_leftovers
from tests.support.engines import IMAGE, SPEC, client, container_engine, eventually, needs_docker

# Its job has the volume of a run, as a server has, and the volume of a client exists as well.
RUNS = """
from pathlib import Path
from patchstack.engine.archive import pack
from patchstack.engine.choose import open_engine
from patchstack.engine.leftovers import volume_name
from patchstack.engine.protocol import Job, Volume
import sys
engine = open_engine("SPEC", root=Path("ROOT"))
run, client = volume_name("patchstack-gate"), volume_name("patchstack-client")
for name in (run, client):
    engine.put(name, pack(()), image="IMAGE")
print(run, client, flush=True)
job = Job(what="test", argv=("sleep", "600"), image="IMAGE", volumes=(Volume(name=run, target="/v"),))
engine.run(job, lambda _: None)
"""


@pytest.fixture(params=["host", pytest.param("docker", marks=needs_docker)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    engine: Engine = container_engine() if request.param == "docker" else HostEngine(tmp_path)
    yield engine
    engine.close()


def test_the_volumes_of_a_killed_process_are_removed_by_the_next(engine: Engine, tmp_path: Path) -> None:
    spec = SPEC if engine.about().isolated else "host"
    script = RUNS.replace("SPEC", spec).replace("ROOT", str(tmp_path)).replace("IMAGE", IMAGE)
    with client(script) as killed, client(script) as running:
        for one in (killed, running):
            one.wait_for(b"\n", seconds=60)
        left, used = killed.said.decode().split(), running.said.decode().split()
        assert {*left, *used} <= set(engine.volumes())
        killed.end(signal.SIGKILL)

        def swept() -> bool:
            engine.close()  # a new connection removes containers that were never started
            remove_leftovers(engine)  # a container that is ending still uses one of them
            return not set(left) & set(engine.volumes())

        eventually(swept, "volumes are left", seconds=30)
        assert set(used) <= set(engine.volumes())
        running.end(signal.SIGKILL)
    left = used
    eventually(swept, "volumes are left", seconds=30)
