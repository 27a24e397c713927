"""The action's installation: an environment from this checkout, with packages by hash only."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.ci_world import the_installer

installer = the_installer()


def a_wheel(directory: Path, text: str = "x = 1\n") -> tuple[Path, str]:
    """Make a package of one module, and return its file and digest."""
    directory.mkdir(exist_ok=True)
    path = directory / "atom-1.0-py3-none-any.whl"
    info = "atom-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("atom.py", text)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: atom\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"atom.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return tmp_path / "wheels"


@pytest.mark.parametrize("ours", [True, False], ids=["with our own pip", "with a new pip"])
def test_an_environment_has_the_locked_packages_and_this_checkout(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch, ours: bool
) -> None:
    if ours and not installer.has_pip():
        pytest.skip("this Python has no pip of its own, or one before 22.3")
    monkeypatch.setattr(installer, "has_pip", lambda: ours)
    _, digest = a_wheel(wheels)
    lock = tmp_path / "lock.txt"
    lock.write_text(f"atom==1.0 --hash=sha256:{digest}\n")
    python = installer.install(lock, tmp_path / "a place")
    code = "import atom, patchstack, sys; print(patchstack.__file__, atom.x, sys.flags.isolated)"
    done = subprocess.run([str(python), "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{ROOT / 'patchstack' / '__init__.py'} 1 1\n"
    os.remove(wheels / "atom-1.0-py3-none-any.whl")
    assert installer.install(lock, tmp_path / "a place") == python, "what is there is not made again"


def test_a_package_of_another_hash_is_not_installed(tmp_path: Path, wheels: Path) -> None:
    _, digest = a_wheel(wheels)
    lock = tmp_path / "lock.txt"
    lock.write_text(f"atom==1.0 --hash=sha256:{digest}\n")
    a_wheel(wheels, "x = 'evil'\n")
    with pytest.raises(subprocess.CalledProcessError):
        installer.install(lock, tmp_path)
    assert not (installer.directory_for(lock, tmp_path) / ".ready").exists()


def test_looking_needs_less_than_building() -> None:
    names = {
        command: installer.requirements(command).name for command in ("verify", "lint", "canary", "build", "gate", "")
    }
    assert names == {
        "verify": "core.txt", "lint": "core.txt", "canary": "core.txt", "build": "all.txt", "gate": "all.txt",
        "": "core.txt",
    }  # fmt: skip


def test_failure_is_an_exit_code_and_words(tmp_path: Path, wheels: Path) -> None:
    wheels.mkdir()
    done = subprocess.run(
        [sys.executable, "-I", str(ROOT / "ci" / "install.py")],
        env={**os.environ, "RUNNER_TEMP": str(tmp_path), "GITHUB_OUTPUT": str(tmp_path / "output")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "error: the packages that patchstack needs could not be installed" in done.stderr
    assert not (tmp_path / "output").exists()
