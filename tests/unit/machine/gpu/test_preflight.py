"""Whether a machine's results can be trusted: the checks, the verdicts, and the waiting time."""

from __future__ import annotations

import os
import re
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from patchstack.errors import UsageError
from patchstack.machine.ask import Place, Reply, here
from patchstack.machine.gpu import preflight as module
from patchstack.machine.gpu.activity import Activity, App, Container, GpuState, read_activity
from patchstack.machine.gpu.lock import Holder, Standing, gpu_lock
from patchstack.machine.gpu.preflight import NAMES, Check, Preflight, Wanted, allowed, preflight, preflight_checks
from patchstack.machine.hardware import Gpu, Hardware
from patchstack.report.documents.gpu import preflight_entry
from patchstack.report.machine import preflight_table
from patchstack.verdict import Verdict
from tests.support import smi

GPU = Gpu(index=0, name="NVIDIA GB10", uuid="GPU-1", driver="580.159.03", capability="12.1")
SPARK = Hardware(
    host="spark",
    platform="linux/arm64",
    kernel="Linux 6.14",
    cpu="Cortex-X925",
    cpus=20,
    memory=1 << 37,
    boot="b",
    contained=None,
    gpus=(GPU,),
)
IDLE = GpuState(index=0, load=0.0, memory=None, temperature=36.0, power=3.5, slowed=())
CALM = Activity(contained=None, cpus=20, gpus=(IDLE,), apps=(), busy=0.2, load=0.1, containers=())
FREE = (Holder(place=Place(path="/l"), standing=Standing.FREE, words="free", digest="none"),)
OURS = Container(id="1", name="patchstack-1", image="sha256:1", owner="me:1:2", job="gate")


def judged(
    activity: Activity = CALM,
    machine: Hardware = SPARK,
    holders: tuple[Holder, ...] = FREE,
    wanted: Wanted | None = None,
) -> dict[str, Check]:
    found = preflight_checks(machine, activity, holders, wanted or Wanted(), own="me:1:2")
    return {check.name: check for check in found}


def a_holder(standing: Standing) -> tuple[Holder, ...]:
    return (replace(FREE[0], standing=standing, words=f"somebody {standing.value}"),)


def test_a_calm_machine_passes_every_check() -> None:
    checks = judged()
    assert set(checks) == set(NAMES)
    assert {check.verdict for check in checks.values()} == {Verdict.PASS}
    flight = Preflight(checks=tuple(checks.values()), hardware=SPARK)
    assert (flight.ok, flight.verdict, flight.reason) == (True, Verdict.PASS, "")


@pytest.mark.parametrize(
    ("name", "verdict", "words", "activity"),
    [
        (
            *("gpu-apps", "FAIL", "1 compute process: python3 (pid 499)"),
            replace(CALM, apps=(App(pid="499", name="python3", memory=874.0),)),
        ),
        (
            *("gpu-apps", "FAIL", "6 compute processes: a (pid 0), a (pid 1), a (pid 2), a (pid 3) and 2 more"),
            replace(CALM, apps=tuple(App(pid=str(n), name="a", memory=None) for n in range(6))),
        ),
        ("gpu-apps", "INVALID", "nvidia-smi does not list the compute processes", replace(CALM, apps=None)),
        (
            *("gpu-apps", "INVALID", "compute processes cannot be seen from inside docker"),
            replace(CALM, contained="docker"),
        ),
        (
            *("gpu-apps", "PASS", "none seen from inside docker, and no memory in use"),
            replace(CALM, contained="docker", gpus=(replace(IDLE, memory=4.0),)),
        ),
        (
            *("gpu-apps", "FAIL", "40000 MiB are in use by processes that are not visible from inside docker"),
            replace(CALM, contained="docker", gpus=(replace(IDLE, memory=40000.0),)),
        ),
        ("gpu-load", "FAIL", "the GPU is 97% busy; the limit is 5%", replace(CALM, gpus=(replace(IDLE, load=97.0),))),
        ("gpu-load", "PASS", "5% busy", replace(CALM, gpus=(replace(IDLE, load=5.0),))),
        (
            *("gpu-load", "INVALID", "the GPU's load cannot be read: nvidia-smi reports none"),
            replace(CALM, gpus=(replace(IDLE, load=None),)),
        ),
        ("gpu-load", "INVALID", "the GPU's load cannot be read: nvidia-smi reports none", replace(CALM, gpus=None)),
        (
            *("throttle", "FAIL", "clocks are reduced (GPU 0: hardware thermal slowdown); 95 °C; 3.5 W"),
            replace(CALM, gpus=(replace(IDLE, temperature=95.0, slowed=("hardware thermal slowdown",)),)),
        ),
        (
            *("throttle", "PASS", "clocks are not reduced; 36 °C; 3.5 W (at its power cap)"),
            replace(CALM, gpus=(replace(IDLE, capped=True),)),
        ),
        (
            *("throttle", "INVALID", "it is unknown whether clocks are reduced; 36 °C; 3.5 W"),
            replace(CALM, gpus=(replace(IDLE, slowed=None),)),
        ),
        ("containers", "PASS", "only patchstack's own", replace(CALM, containers=(OURS,))),
        (
            *("containers", "FAIL", "1 other container runs: patchstack-1 (a patchstack job: gate)"),
            replace(CALM, containers=(replace(OURS, owner="you:1:2"),)),
        ),
        (
            *("containers", "FAIL", "2 other containers run: worker (local-ai:1), x"),
            replace(
                CALM,
                containers=(
                    Container(id="2", name="worker", image="local-ai:1", owner="", job=""),
                    Container(id="3", name="x", image="sha256:2", owner="", job=""),
                ),
            ),
        ),
        ("containers", "INVALID", "no rights", replace(CALM, containers=None, containers_problem="no rights")),
        (
            "cpu-load",
            "FAIL",
            "5.1 of 20 CPUs busy; load average 9; the limit is 5.0",
            replace(CALM, busy=5.1, load=9.0),
        ),
        ("cpu-load", "PASS", "0.3 of 20 CPUs busy; load average 19", replace(CALM, busy=0.3, load=19.0)),
        (
            "cpu-load",
            "FAIL",
            "9.0 of 20 CPUs busy; load average 9; the limit is 5.0",
            replace(CALM, busy=None, load=9.0),
        ),
        ("cpu-load", "INVALID", "the load of the CPUs cannot be read", replace(CALM, busy=None, load=None)),
    ],
)
def test_what_is_seen_decides_each_check(name: str, verdict: str, words: str, activity: Activity) -> None:
    check = judged(activity)[name]
    assert (check.verdict.value, check.words) == (verdict, words)


@pytest.mark.parametrize(
    ("standing", "verdict"),
    [
        (Standing.FREE, Verdict.PASS),
        (Standing.OURS, Verdict.PASS),
        (Standing.DEAD, Verdict.PASS),
        (Standing.LIVE, Verdict.FAIL),
        (Standing.FOREIGN, Verdict.FAIL),
        (Standing.UNREADABLE, Verdict.INVALID),
    ],
)
def test_the_lock_passes_where_nobody_else_has_it(standing: Standing, verdict: Verdict) -> None:
    assert judged(holders=a_holder(standing))["lock"].verdict is verdict
    assert judged(holders=())["lock"].verdict is Verdict.INVALID


def test_a_gpu_that_cannot_be_read_is_invalid_and_none_fails() -> None:
    unread = judged(machine=replace(SPARK, gpus=(), gpu_problem="no driver"))
    assert (unread["gpu"].verdict, unread["gpu"].words) == (Verdict.INVALID, "no driver")
    none = judged(machine=replace(SPARK, gpus=()))
    assert (none["gpu"].verdict, none["gpu"].words) == (Verdict.FAIL, "spark has no NVIDIA GPU")
    assert "gpu-load" not in none


def test_a_mig_gpu_tells_no_load_and_says_why() -> None:
    cut = replace(SPARK, gpus=(replace(GPU, mig_mode=True),))
    check = judged(replace(CALM, gpus=(replace(IDLE, load=None),)), machine=cut)["gpu-load"]
    assert check.words == "the GPU's load cannot be read: a GPU with MIG instances reports no load"


def test_a_run_on_the_cpu_asks_nothing_of_the_gpu() -> None:
    checks = judged(machine=replace(SPARK, gpus=()), holders=(), wanted=Wanted(gpu=False))
    assert set(checks) == {"containers", "cpu-load"}
    assert all(check.ok for check in checks.values())


def test_what_is_allowed_by_name_or_pattern_does_not_stop_a_run() -> None:
    busy = replace(
        CALM,
        busy=20.0,
        apps=(App(pid="7", name="/usr/lib/xorg/Xorg", memory=10.0),),
        containers=(Container(id="2", name="registry", image="registry:2", owner="", job=""),),
    )
    assert {name for name, check in judged(busy).items() if not check.ok} == {"gpu-apps", "containers", "cpu-load"}
    wanted = Wanted(allow=frozenset({"cpu-load"}), apps=("*/Xorg",), containers=("registry:*",))
    checks = judged(busy, wanted=wanted)
    assert all(check.ok for check in checks.values())
    assert (checks["cpu-load"].verdict, checks["cpu-load"].allowed) == (Verdict.FAIL, True)
    assert checks["gpu-apps"].words == "only allowed processes"


def test_a_name_that_is_no_check_is_refused_with_a_guess() -> None:
    with pytest.raises(UsageError, match="'cpu-laod' is not a check of the machine") as raised:
        allowed(("containers", "cpu-laod"))
    assert raised.value.hint == f"perhaps you meant cpu-load; the checks are: {', '.join(NAMES)}"


def test_a_busy_machine_is_invalid_and_never_fail() -> None:
    flight = Preflight(checks=tuple(judged(replace(CALM, busy=20.0)).values()), hardware=SPARK)
    assert (flight.ok, flight.verdict) == (False, Verdict.INVALID)
    assert flight.reason == "cpu-load: 20.0 of 20 CPUs busy; load average 0.1; the limit is 5.0"
    assert not Preflight(checks=(), hardware=SPARK).ok
    entry = preflight_entry(flight)
    assert (entry.verdict, entry.checks[5].verdict) == ("INVALID", "FAIL")
    assert ("cpu-load", "FAIL", flight.checks[5].words) in [tuple(row) for row in preflight_table(flight).rows]


@pytest.mark.parametrize(
    ("mask", "slowed", "capped"),
    [
        ("0x0000000000000000", (), False),
        ("0x0000000000000001", (), False),
        ("0x0000000000000004", (), True),
        ("0x0000000000000028", ("hardware slowdown", "software thermal slowdown"), False),
        ("0x00000000000000C8", ("hardware slowdown", "hardware thermal slowdown", "hardware power brake"), False),
        ("[N/A]", None, False),
        ("Not Active", None, False),
    ],
)
def test_reasons_are_read_from_the_bit_mask(mask: str, slowed: tuple[str, ...] | None, capped: bool) -> None:
    parts = {"state": Reply(code=0, text=smi.H200.state), "reasons": Reply(code=0, text=f"0, {mask}\n")}
    (gpu,) = read_activity(parts).gpus or ()
    assert (gpu.slowed, gpu.capped) == (slowed, capped)


def test_cpus_are_counted_from_two_looks_at_proc_stat() -> None:
    looks = {
        "cpus": Reply(code=0, text="4\n"),
        "stat": Reply(code=0, text="cpu  100 0 100 1000 0 0 0 0 0 0\n"),
        "stat_later": Reply(code=0, text="cpu  150 0 100 1040 10 0 0 0 50 0\n"),
    }
    assert read_activity(looks).busy == pytest.approx(2.0)
    assert read_activity({**looks, "stat_later": looks["stat"]}).busy is None
    assert read_activity({**looks, "stat": Reply(code=1, text="")}).busy is None
    assert read_activity({}).containers == ()


def test_containers_that_cannot_be_listed_are_not_no_containers() -> None:
    denied = {"docker1": Reply(code=1, text="permission denied while trying to connect\n")}
    assert read_activity(denied).containers is None
    assert read_activity(denied).containers_problem == (
        "docker does not list its containers: permission denied while trying to connect"
    )
    inside = read_activity({"contained": Reply(code=0, text="docker\n")})
    assert inside.containers_problem == "other containers are not visible from inside a container (docker)"
    assert read_activity({"podman": Reply(code=0, text="odd\n")}).containers is None
    twice = Reply(code=0, text="id\tme\tgate\timage\tname\n")
    assert read_activity({"docker1": twice, "podman": twice}).containers == (
        Container(id="id", name="name", image="image", owner="me", job="gate"),
    )


def test_a_machine_that_calms_down_is_waited_for_and_says_how_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_POLL", 0.2)
    smi.install(tmp_path / "busy", smi.H200_BUSY)
    smi.install(tmp_path / "idle", smi.H200)
    count = tmp_path / "count"
    count.touch()
    env = smi.program(
        tmp_path / "bin",
        "nvidia-smi",
        f'case "$*" in *compute-apps*) echo x >>{count} ;; esac\n'
        f'if [ "$(wc -l <{count})" -lt 3 ]; then exec {tmp_path}/busy/nvidia-smi "$@"; fi\n'
        f'exec {tmp_path}/idle/nvidia-smi "$@"',
    )
    told: list[str] = []
    wanted = Wanted(allow=frozenset({"containers", "cpu-load"}), settle=30.0)
    flight = preflight(here(env=env), wanted, places=(Place(path=str(tmp_path / "lock")),), tell=told.append)
    checks = {check.name: check for check in flight.checks}
    assert flight.ok, flight
    assert flight.waited > 1.0
    assert checks["gpu-apps"].words.startswith("no compute processes (after ")
    assert told == ["the machine is not idle yet (gpu-apps, gpu-load): waiting up to 30 s"]


def test_a_machine_that_stays_busy_is_given_up_after_the_time_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_POLL", 0.2)
    ask = here(env=smi.install(tmp_path / "bin", smi.H200_BUSY))
    wanted = Wanted(allow=frozenset({"containers", "cpu-load"}), settle=2.0)
    flight = preflight(ask, wanted, places=(Place(path=str(tmp_path / "lock")),))
    assert [check.name for check in flight.checks if not check.ok] == ["gpu-apps", "gpu-load"]
    assert flight.waited > 1.0
    assert re.match(r"gpu-apps: 1 compute process: python3 \(pid 499\) \(after \d+ s\); gpu-load: ", flight.reason)


@pytest.mark.parametrize(
    "what", [smi.failing(smi.MISMATCH, 18), replace(smi.H200, unknown=("query-compute-apps",))], ids=["all", "apps"]
)
def test_what_waiting_does_not_mend_is_not_waited_for(tmp_path: Path, what: smi.Smi) -> None:
    told: list[str] = []
    ask = here(env=smi.install(tmp_path / "bin", what))
    wanted = Wanted(allow=frozenset({"containers", "cpu-load"}), settle=10.0)
    flight = preflight(ask, wanted, places=(Place(path=str(tmp_path / "lock")),), tell=told.append)
    assert flight.verdict is Verdict.INVALID
    assert told == []


def test_the_callers_own_lock_is_no_obstacle_and_anothers_is(tmp_path: Path) -> None:
    ask = here(env=smi.install(tmp_path / "bin", smi.H200))
    places = (Place(path=str(tmp_path / "lock")),)
    wanted = Wanted(allow=frozenset({"containers", "cpu-load"}), settle=0.0)
    with gpu_lock(ask, "gate run", places=places) as held:
        assert preflight(ask, wanted, places=places, held=held).ok
        other = preflight(ask, wanted, places=places)
    assert not other.ok
    assert f"pid {os.getpid()} (gate run) has the GPU" in other.reason


@pytest.fixture
def engine_socket() -> Iterator[Path]:
    """Make a directory with a socket called docker.sock. Its path is short, because paths of sockets are limited."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{directory}/docker.sock")
        yield Path(directory)


def test_the_engine_of_the_machine_itself_is_asked_for_containers(
    tmp_path: Path, engine_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere:1")
    env = smi.install(tmp_path / "bin", smi.H200)
    smi.program(
        tmp_path / "bin",
        "docker",
        f'[ -z "$DOCKER_HOST$DOCKER_CONTEXT" ] || exit 9\n'
        f'[ "$2" = "unix://{engine_socket}/docker.sock" ] || exit 0\n'
        "printf '1\\t\\t\\tlocalai:1\\tlocal-ai-worker\\n'",
    )
    ask = here(env={**env, "XDG_RUNTIME_DIR": str(engine_socket), "DOCKER_HOST": "tcp://elsewhere:1"})
    flight = preflight(ask, Wanted(gpu=False, settle=0.0, allow=frozenset({"cpu-load"})))
    checks = {check.name: check for check in flight.checks}
    assert checks["containers"].words == "1 other container runs: local-ai-worker (localai:1)"
