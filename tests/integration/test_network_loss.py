"""The network fails during a fetch: a clear error, nothing lost, and the next run continues."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Patchstack
from tests.support.builders import numbered
from tests.support.syncing import Moved, kernel, moved
from tests.support.unreliable import Server, needs_daemon, serving

pytestmark = needs_daemon
CUTS = 6  # positions at which the connection breaks, from the first byte to the last
Printed = pytest.CaptureFixture[str]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path / "ws") as found:
        yield found


@pytest.fixture
def far(tmp_path: Path, patchstack: Patchstack, server: Server) -> Moved:
    """Return a series whose upstream is reached over a network, and has new commits."""
    (tmp_path / "ws").mkdir()
    settings = tmp_path / "ws" / "patchstack.yaml"
    found = moved(tmp_path / "ws", lambda *args: patchstack(*args, "--workspace", settings))
    for name in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        found.fork.upstream.git("config", name, "true")
    settings.write_text(settings.read_text().replace("upstream: upstream", f"upstream: {server.url('upstream')}"))
    found.upstream("Elsewhere", {f"src/more{number}.cpp": numbered(60, {7: f"{number}"}) for number in range(8)})
    found.upstream("Nearby (#7)", {"src/kernel.cu": kernel({12: "upstream's"})})
    return found


def places_of(server: Server) -> list[int]:
    """Return where to break the connection of a run that receives that many bytes."""
    whole, server.sent = server.sent, 0
    assert whole > 1000, "it was fetched"
    return [whole * number // CUTS for number in range(CUTS)]


class Runs:
    """Runs patchstack, each time with a new cache or with that of the last run."""

    def __init__(self, root: Path, patchstack: Patchstack, monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
        self._root = root
        self._patchstack = patchstack
        self._environment = monkeypatch
        self._capsys = capsys
        self._caches = 0
        self.told = ""

    def fresh(self) -> None:
        self._caches += 1
        self._environment.setenv("PATCHSTACK_CACHE", str(self._root / f"cache{self._caches}"))

    def run(self, settings: Path, *arguments: str) -> tuple[int, str]:
        """Run it, and return exit code and stdout; the messages are in `told`."""
        self._capsys.readouterr()
        code = self._patchstack(*arguments, "--workspace", settings)
        printed = self._capsys.readouterr()
        self.told = printed.err
        return code, printed.out


@pytest.fixture
def runs(tmp_path: Path, patchstack: Patchstack, monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> Runs:
    return Runs(tmp_path, patchstack, monkeypatch, capsys)


def test_canary_says_what_it_could_not_fetch_and_answers_when_the_network_is_back(
    far: Moved, runs: Runs, server: Server
) -> None:
    asked = ("canary", "--to", "main", "--blame", "--json")
    runs.fresh()
    code, whole = runs.run(far.settings, *asked)
    assert code == 1 and json.loads(whole)["patches"][0]["state"] == "conflict"
    failed = 0
    for place in places_of(server):
        runs.fresh()
        server.left = place
        code, printed = runs.run(far.settings, *asked)
        assert (code, printed) == (3, ""), (place, runs.told)
        assert runs.told.startswith("error") and "127.0.0.1" in runs.told, runs.told
        assert "the network" in runs.told.partition("hint: ")[2], runs.told
        failed += 1
        server.left = None
        assert runs.run(far.settings, *asked) == (1, whole), place
    assert failed == CUTS


def test_a_sync_that_loses_the_network_keeps_its_state_and_goes_on(far: Moved, runs: Runs, server: Server) -> None:
    begin = ("sync", "--to", "main", "--worktree", str(far.work), "--json")
    runs.fresh()
    code, printed = runs.run(far.settings, *begin)
    assert code == 0
    whole = json.loads(printed)
    assert runs.run(far.settings, "sync", "--abort")[0] == 0
    under_way = 0
    for place in places_of(server):
        runs.fresh()
        server.left = place
        code, printed = runs.run(far.settings, *begin)
        assert (code, printed) == (3, ""), (place, runs.told)
        assert "error[" in runs.told and "127.0.0.1" in runs.told, runs.told
        assert "the network" in runs.told.partition("hint: ")[2], runs.told
        state = far.root / ".patchstack" / "sync" / "product" / "state.json"
        again: tuple[str, ...] = begin
        if state.exists():
            under_way += 1
            before = state.read_bytes()
            assert runs.run(far.settings, "sync", "--continue")[0] == 3, "it is still gone"
            assert json.loads(state.read_bytes())["phase"] == json.loads(before)["phase"]
            again = ("sync", "--continue", "--json")
        server.left = None
        code, printed = runs.run(far.settings, *again)
        assert code == 0, (place, runs.told)
        assert json.loads(printed) == whole
        assert runs.run(far.settings, "sync", "--abort")[0] == 0
    assert under_way, "some of it came after the sync had begun"
