"""A bench whose programs run in containers: kept files, their sizes, and another build beside it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchstack.evidence.store import Observations
from patchstack.observe.layout import Programs
from patchstack.observe.observer import RunContext
from patchstack.observe.protocol import Invocation, Model
from patchstack.observe.runner import Runner
from tests.support.engines import IMAGE, container_engine, needs_docker
from tests.support.programs import program

pytestmark = needs_docker
CONTEXT = RunContext(kind="t/1")
LARGE = 8 << 20  # bytes: more than an engine sends ahead of a reader


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Runner]:
    """Programs `make`, which keeps a large file, and `say`; a run that hangs is an error after two minutes."""
    program(tmp_path / "bin", "make", f'cat "$2"; head -c {LARGE} /dev/zero >"$1"')
    program(tmp_path / "bin", "say", "echo this build")
    program(tmp_path / "bin", "drop", 'rm "$1"; echo gone')
    program(tmp_path / "other", "say", "echo the other")

    def hangs(*_: object) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(120)
    engine = container_engine()
    try:
        programs = Programs(directory=tmp_path / "bin", platform=engine.about().platform, image=IMAGE)
        observations = Observations(tmp_path / "evidence", tmp_path / "outputs")
        with Runner(engine, programs, observations=observations, memory=tmp_path / "d", context=CONTEXT) as made:
            yield made
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        engine.close()


def test_the_size_of_a_large_kept_file_is_known_and_the_engine_goes_on(bench: Runner, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    kept = f"test-{tmp_path.name}-{id(bench)}.base"
    making = Invocation(
        what="make",
        program="make",
        args=(f"{{kept:{kept}}}", "{model:m}"),
        models=(Model(name="m", path=str(tmp_path / "m.gguf")),),
        keeps=(kept,),
    )
    assert bench.size_of(kept) is None
    made = bench.observe(making, complete=lambda _: None).observation
    assert made is not None
    assert made.stdout == b"GGUF"
    assert [bench.size_of(kept) for _ in range(2)] == [LARGE] * 2
    again = bench.observe(making, complete=lambda _: None).observation
    assert again is not None
    assert again.recalled, "the kept file is there"
    said = bench.observe(Invocation(what="say", program="say"), complete=lambda _: None).observation
    assert said is not None
    assert said.stdout == b"this build\n"
    dropping = Invocation(what="drop", program="drop", args=(f"{{kept:{kept}}}",))
    assert bench.observe(dropping, complete=lambda _: None).observation is not None
    assert not bench.has(kept)


def test_another_build_runs_beside_it(bench: Runner, tmp_path: Path) -> None:
    saying = Invocation(what="say", program="say")
    with bench.beside(str(tmp_path / "other")) as other:
        seen = [one.observe(saying, complete=lambda _: None).observation for one in (bench, other, bench)]
    assert [one.stdout for one in seen if one is not None] == [b"this build\n", b"the other\n", b"this build\n"]
