"""The wheel has all files for the demo and every hint, and none of the tests. After installation it needs no
checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.named_files import missing_files, named_files

DEMO = ROOT / "patchstack" / "demo"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of this checkout."""
    directory = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (found,) = directory.glob("*.whl")
    return found


def test_the_demo_ships_in_the_wheel(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        path.relative_to(ROOT).as_posix()
        for folder in ("upstream", "fork", "story")
        for path in (DEMO / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert len(wanted) > 50
    assert wanted <= names
    builders = {path.relative_to(ROOT).as_posix() for path in (ROOT / "builders").rglob("*") if path.is_file()}
    assert {f"patchstack/{name}" for name in builders} <= names
    assert not any(name.startswith(("tests/", "ci/", "benchmarks/", "patches/")) for name in names)


def test_every_file_that_a_text_names_is_in_the_wheel(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    package = tmp_path / "patchstack"
    assert len(named_files(package)) > 5
    assert missing_files(package) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('HINT = "docs/guides/gates.md shows one"', "docs/guides/gates.md"),
        ('HINT = f"run sh ci/docker-engine.sh {1}"', "ci/docker-engine.sh"),
        ("raise ValueError('see README')", "README"),
        ('def a_command() -> None:\n    """Read tests/data/x.txt."""', "tests/data/x.txt"),
    ],
)
def test_a_text_that_names_what_only_a_checkout_has_is_found(text: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(f'"""Of docs/guides/verify.md."""\n{text}\n')
    (missing,) = missing_files(tmp_path)
    assert missing.startswith("planted.py:2: ")
    assert missing.endswith(name)
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).touch()
    assert missing_files(tmp_path) == []


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """Return a virtual environment with the packages of this one, without patchstack, like one made from an index."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for path in Path(place).iterdir():
            if "patchstack" not in path.name and path.suffix != ".pth" and not (packages / path.name).exists():
                (packages / path.name).symlink_to(path)
    found = tmp_path / "my venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", found], check=True)
    (site,) = found.glob("lib/python*/site-packages")
    (site / "packages.pth").write_text(f"{packages}\n")
    return found


@pytest.mark.parametrize("form", ["{wheel}", "{wheel}[docker,build]", "patchstack[docker,build] @ {url}"])
def test_pip_installs_it_and_the_demo_s_last_line_works_in_a_shell(
    form: str, wheel: Path, environment: Path, tmp_path: Path
) -> None:
    requirement = form.format(wheel=wheel, url=wheel.as_uri())
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-index", "--quiet", requirement], check=True)
    empty = tmp_path / "empty"
    empty.mkdir()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def shell(command: str, path: str = os.environ["PATH"]) -> str:
        return subprocess.run(
            ["sh", "-c", command],
            cwd=empty,
            env={**clean, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    program = environment / "bin" / "patchstack"
    outside = os.pathsep.join(one for one in clean["PATH"].split(os.pathsep) if not Path(one, "patchstack").exists())
    for path, typed in (
        (outside, f"'{program}'"),
        (f"{program.parent}{os.pathsep}{outside}", "patchstack"),
    ):
        *_, last = shell(f"rm -rf tour; '{program}' demo --no-build tour", path).splitlines()
        assert last == f"Look around: cd {empty}/tour; git -C fork log --oneline; {typed} verify --json"
        assert '"patchstack.verify/1"' in shell(last.removeprefix("Look around: "), path)
    script = (
        "import patchstack; from patchstack.installed import *; print(patchstack.__file__); print(install_hint('cuda'))"
    )
    where, hint = shell(f"'{program.parent}/python' -c \"{script}\"", outside).splitlines()
    assert where.startswith(f"{environment}/lib/")
    assert hint == f"uv pip install --python '{program.parent}/python' 'patchstack[cuda] @ {wheel.as_uri()}'" or (
        hint == f"'{program.parent}/python' -m pip install 'patchstack[cuda] @ {wheel.as_uri()}'"
    )
