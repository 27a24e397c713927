"""A bench whose programs run in containers: kept files, their sizes, and a second build."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchstack.evidence.store import Observations
from patchstack.llama.asking import with_requests
from patchstack.observe.layout import Programs
from patchstack.observe.observer import RunContext
from patchstack.observe.protocol import Invocation, Model, Request
from patchstack.observe.runner import Runner
from patchstack.observe.served import Service
from tests.support.engines import CLIENT, IMAGE, client_image, container_engine, containers_of, needs_docker
from tests.support.programs import program

pytestmark = needs_docker
CONTEXT = RunContext(kind="t/1")
LARGE = 8 << 20  # bytes: more than an engine sends ahead of a reader


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Runner]:
    """Return a bench with the programs `make`, which keeps a large file, and `say`. A hanging run fails after two
    minutes."""
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


SERVER = r"""
exec perl -MIO::Socket::INET -e '
    my %told = @ARGV; $| = 1; $SIG{TERM} = sub { exit 0 };
    if ($ENV{HOW} eq "ends") { print "no model\n"; exit 5 }
    my $s = IO::Socket::INET->new(LocalHost => $told{"--host"}, LocalPort => $told{"--port"},
        Listen => 5, ReuseAddr => 1) or die;
    while (my $c = $s->accept) {
        my ($line, $length) = (scalar <$c>, 0);
        while (<$c>) { last if /^\r?$/; $length = $1 if /^content-length: (\d+)/i }
        read $c, my $body, $length;
        kill 9, $$ if $ENV{HOW} eq "dies" && $length;
        my $answer = $length ? $body : -e "/usr/bin/python3" ? "python" : "no python";
        print $c "HTTP/1.1 200 OK\r\nContent-Length: " . length($answer) . "\r\n\r\n$answer"; close $c;
    }
' -- "$@"
"""
ASKED = (Request(path="/completion", body={"prompt": "one"}), Request(path="/has"))


@pytest.mark.parametrize(
    ("how", "service", "code", "bodies"),
    [
        ("answers", Service.ANSWERED, 0, [b'{"prompt":"one"}', b"no python"]),
        ("ends", Service.ENDED_EARLY, 5, [b"", b""]),
        ("dies", Service.ENDED, 137, [b"", b""]),
    ],
)
def test_a_server_without_python_is_asked_from_a_second_container(
    bench: Runner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    service: Service,
    code: int,
    bodies: list[bytes],
) -> None:
    client_image()
    monkeypatch.setattr("patchstack.observe.client_image.IMAGE", CLIENT)
    program(tmp_path / "bin", "llama-server", SERVER)
    asking = with_requests(Invocation(what="ask", program="llama-server", env={"HOW": how}, seconds=60.0), ASKED)
    seen = bench.look(asking)
    assert (seen.files["service"].decode(), seen.code) == (service, code), seen
    assert [reply.body for reply in seen.replies] == bodies
    assert not containers_of(os.getpid())
