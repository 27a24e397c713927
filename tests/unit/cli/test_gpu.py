"""`patchstack gpu`: status, lock and unlock, as a user runs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from patchstack.cli.failures import guarded
from patchstack.cli.gpu import gpu_app
from patchstack.machine.ask import Place, here
from patchstack.machine.gpu.lock import gpu_lock
from tests.conftest import Ran
from tests.support import smi
from tests.support.checkout import ROOT
from tests.support.toy import wait_for

Gpu = Callable[..., Ran]
CALM = ("--allow", "containers", "--allow", "cpu-load")


@pytest.fixture
def gpu(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """Run `patchstack gpu` with a separate lock, on a machine with an idle H200."""
    monkeypatch.setenv("PATH", smi.install(tmp_path / "bin", smi.H200)["PATH"])
    app = typer.Typer(pretty_exceptions_enable=False)
    app.add_typer(gpu_app, name="gpu")
    app.command("other")(lambda: None)

    def run(verb: str, *args: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["patchstack", "gpu", verb, "--lock", str(tmp_path / "lock"), *args])
        capfd.readouterr()
        code = guarded(app)
        printed = capfd.readouterr()
        return Ran(code=code, stdout=printed.out, stderr=printed.err)

    return run


def test_status_tells_hardware_checks_and_lock_and_writes_nothing(gpu: Gpu, tmp_path: Path) -> None:
    ran = gpu("status", *CALM)
    assert ran.code == 0, ran
    assert "GPU 0: NVIDIA H200\ndriver=580.159.04\ncompute_cap=9.0\n" in ran.stdout
    assert "hardware_class=other_datacenter" in ran.stdout
    assert "note: ggml compiles its FP4 tensor core kernels" in ran.stdout
    assert "gpu-apps    PASS" in ran.stdout
    assert not (tmp_path / "lock").exists()
    document = gpu("status", "--json", *CALM).document
    assert document["schema"] == "patchstack.gpu/1"
    assert document["machine"] == "this machine"
    assert document["hardware"]["gpus"][0]["capability"] == "9.0"
    assert (document["preflight"]["verdict"], document["preflight"]["reason"]) == ("PASS", "")
    assert document["lock"] == [{"place": str(tmp_path / "lock"), "standing": "free", "words": "free", "owner": None}]


def test_status_of_a_machine_that_is_taken_is_invalid_and_names_the_owner(gpu: Gpu, tmp_path: Path) -> None:
    with gpu_lock(here(), "nightly", places=(Place(path=str(tmp_path / "lock")),)):
        ran = gpu("status", "--json", *CALM)
    assert ran.code == 4
    assert ran.document["preflight"]["reason"].startswith("lock: ")
    assert ran.document["lock"][0]["owner"]["pid"] == os.getpid()
    assert ran.document["lock"][0]["owner"]["purpose"] == "nightly"


def test_status_for_the_cpu_alone_asks_nothing_of_the_gpu(gpu: Gpu) -> None:
    ran = gpu("status", "--no-gpu", *CALM)
    assert ran.code == 0, ran
    assert "gpu-apps" not in ran.stdout
    assert ran.stdout.endswith("lock: free\n")


def test_a_check_that_is_none_is_wrong_usage(gpu: Gpu) -> None:
    ran = gpu("status", "--allow", "cpu")
    assert (ran.code, "'cpu' is not a check of the machine" in ran.stderr) == (2, True)


def test_a_command_has_the_gpu_to_itself_and_its_exit_code_is_ours(gpu: Gpu, tmp_path: Path) -> None:
    ran = gpu("lock", "--purpose", "profile", "--", "sh", "-c", f"head -n 1 {tmp_path}/lock/owner; exit 7")
    assert ran.code == 7, ran
    assert ran.stdout.startswith("patchstack:")
    assert ":profile " in ran.stdout
    assert (tmp_path / "lock" / "owner").read_text().startswith("FREE released-by-patchstack-profile ")
    assert "PATCHSTACK_GPU_LOCK" not in os.environ


def test_patchstack_below_the_lock_knows_that_it_has_it(gpu: Gpu, tmp_path: Path) -> None:
    look = (
        "from patchstack.machine.ask import Place, here\n"
        "from patchstack.machine.gpu.lock import look\n"
        f"print(look(here(), (Place(path={str(tmp_path / 'lock')!r}),))[0].words)"
    )
    ran = gpu("lock", "--purpose", "outer", "--", "env", f"PYTHONPATH={ROOT}", sys.executable, "-c", look)
    assert (ran.code, ran.stdout) == (0, "ours (outer)\n"), ran


def test_a_command_does_not_run_while_somebody_else_has_the_gpu(gpu: Gpu, tmp_path: Path) -> None:
    with gpu_lock(here(), "nightly", places=(Place(path=str(tmp_path / "lock")),)):
        ran = gpu("lock", "--", "touch", str(tmp_path / "ran"))
    assert ran.code == 4
    assert "error: the GPU is taken: " in ran.stderr
    assert "(nightly) has the GPU" in ran.stderr
    assert not (tmp_path / "ran").exists()


def test_a_kill_ends_all_that_runs_below_the_lock_before_it_is_free(tmp_path: Path) -> None:
    program = (
        "import signal, sys, typer\nfrom patchstack.cli.failures import guarded\n"
        "from patchstack.cli.gpu import gpu_app\n"
        "signal.signal(signal.SIGTERM, signal.default_int_handler)\n"
        "sys.exit(guarded(gpu_app))"
    )
    pid = tmp_path / "pid"
    below = f"sleep 300 & echo $! >{pid}; wait"
    child = subprocess.Popen(
        [sys.executable, "-c", program, "lock", "--lock", str(tmp_path / "lock"), "--", "sh", "-c", below],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"))
    child.send_signal(signal.SIGTERM)
    _, words = child.communicate(timeout=30)
    assert (child.returncode, words) == (130, "interrupted\n")
    assert (tmp_path / "lock" / "owner").read_text().startswith("FREE ")
    assert wait_for(lambda: not alive(pid.read_text().strip()))


def alive(pid: str) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def test_a_program_that_is_not_here_lets_go_of_the_lock(gpu: Gpu, tmp_path: Path) -> None:
    ran = gpu("lock", "--", "no-such-program")
    assert (ran.code, "no-such-program is not installed here" in ran.stderr) == (3, True)
    assert (tmp_path / "lock" / "owner").read_text().startswith("FREE ")


def test_unlock_frees_a_dead_owner_and_a_living_one_only_by_force(gpu: Gpu, tmp_path: Path) -> None:
    assert gpu("unlock").stdout == f"{tmp_path}/lock: free\n"
    places = (Place(path=str(tmp_path / "lock")),)
    with gpu_lock(here(), "nightly", places=places) as held:
        refused = gpu("unlock")
        assert refused.code == 1
        assert "(nightly) has the GPU" in refused.stderr
        assert "hint: use --force to release the lock; this does not stop the owner" in refused.stderr
        held.check()
        assert "released; " in gpu("unlock", "--force").stdout
    dying = (
        "import os\nfrom patchstack.machine.ask import Place, here\n"
        "from patchstack.machine.gpu.lock import gpu_lock\n"
        f"with gpu_lock(here(), 'dying', places=(Place(path={str(tmp_path / 'lock')!r}),)):\n    os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", dying], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    freed = gpu("unlock")
    assert freed.code == 0, freed
    assert "(dying) had the GPU: its process" in freed.stdout


def test_unlock_frees_the_owner_by_hand_only_by_force(gpu: Gpu, tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    (tmp_path / "lock" / "owner").write_text("codex-serving 1782890417\n")
    assert gpu("unlock").code == 1
    assert gpu("unlock", "--force").code == 0
    assert (tmp_path / "lock" / "owner").read_text().startswith("FREE released-by-patchstack ")


def test_a_lock_s_directory_is_named_by_its_whole_path(gpu: Gpu) -> None:
    ran = gpu("unlock", "--lock", "here")
    assert (ran.code, "--lock must name a directory on the machine that has the GPU" in ran.stderr) == (2, True)
