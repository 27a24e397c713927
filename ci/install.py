"""Install patchstack for the GitHub Action: from this checkout, in a separate environment, every package by hash. Runs
with the runner's python3 and only the standard library. Reads `PATCHSTACK_CI_COMMAND` (which packages are needed) and
`RUNNER_TEMP` (the parent of the environment), and writes `python=PATH` to `GITHUB_OUTPUT`. Only wheels are installed,
so no package is built and no code of a package runs.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import venv
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
_BUILDING = ("build", "gate")


def requirements(command: str) -> Path:
    """Return the locked packages that a command needs."""
    return CHECKOUT / "ci" / "requirements" / ("all.txt" if command in _BUILDING else "core.txt")


def directory_for(lock: Path, place: Path) -> Path:
    """Return the directory of the environment for a lock, named by the digest of the lock, this checkout and the Python
    version."""
    told = f"{sys.version_info.major}.{sys.version_info.minor} {CHECKOUT}".encode("utf-8", "surrogateescape")
    return place / f"patchstack-venv-{hashlib.sha256(lock.read_bytes() + told).hexdigest()[:16]}"


def has_pip() -> bool:
    """Return whether this Python's pip can install into another environment (since 22.3): installing a separate pip
    takes most of the time."""
    try:
        major, minor = version("pip").split(".")[:2]
    except (PackageNotFoundError, ValueError):
        return False
    return (int(major), int(minor)) >= (22, 3)


def install(lock: Path, place: Path) -> Path:
    """Make an environment with the locked packages and this checkout, and return its Python. An existing environment is
    reused."""
    release = f"{sys.version_info.major}.{sys.version_info.minor}"
    directory = directory_for(lock, place)
    python = directory / "bin" / "python"
    ready = directory / ".ready"
    if ready.exists():
        return python
    ours = has_pip()
    venv.create(directory, with_pip=not ours, clear=True)
    pip = [sys.executable, "-I", "-m", "pip", "--python", str(python)] if ours else [str(python), "-I", "-m", "pip"]
    options = ["--quiet", "--disable-pip-version-check", "--no-compile", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*pip, "install", *options, "--require-hashes", "-r", str(lock)], check=True)
    packages = directory / "lib" / f"python{release}" / "site-packages"
    (packages / "patchstack.pth").write_text(f"{CHECKOUT}\n", encoding="utf-8")
    ready.touch()
    return python


def main() -> int:
    """Exit status: 0 installed, 3 this Python is too old, else pip's."""
    if sys.version_info < OLDEST:
        found = sys.version.split()[0]
        print(f"error: patchstack needs Python {OLDEST[0]}.{OLDEST[1]} or newer; this is {found}", file=sys.stderr)
        print(
            "\nhint: name another with the action's input python, or run actions/setup-python before", file=sys.stderr
        )
        return 3
    place = Path(os.environ.get("RUNNER_TEMP") or tempfile.gettempdir())
    try:
        python = install(requirements(os.environ.get("PATCHSTACK_CI_COMMAND", "")), place)
    except subprocess.CalledProcessError as error:
        print("error: the packages that patchstack needs could not be installed", file=sys.stderr)
        return error.returncode if error.returncode > 0 else 1
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as out:
        out.write(f"python={python}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
