"""The programs of this machine that a build needs: their paths, how they were found, and their versions."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchstack.causes import ToolchainUnusable
from patchstack.errors import MissingError
from patchstack.process import clean_environment, run

ROOTS = (Path("/usr/local"),)
"""Where CUDA toolkits are installed, as `cuda` and `cuda-13.0`."""
_SECONDS = 10.0
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_CUDA_VERSION = re.compile(r"\brelease (\d+\.\d+)(?:, V(\d+\.\d+\.\d+))?")
_TOP = re.compile(r"^#\$ TOP=(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program. `version` is the one it prints (`13.0.88`), empty if it prints none. `found_by` is how it was found:
    `CUDACXX`, `PATH`, a directory, or a Python package."""

    name: str
    path: Path
    version: str
    found_by: str

    def at_least(self, *wanted: int) -> bool:
        """Return whether its version is at least that one; False if it is not known."""
        numbers = tuple(int(number) for number in re.findall(r"\d+", self.version))
        return bool(numbers) and numbers >= wanted


def find_tool(name: str, env: Mapping[str, str]) -> Tool | None:
    """Return a program on the PATH of an environment; None if it does not exist or does not start."""
    found = shutil.which(name, path=env.get("PATH", _DEFAULT_PATH))
    return _tool(name, Path(found), "PATH", env) if found else None


def find_nvcc(env: Mapping[str, str], roots: Sequence[Path] = ROOTS) -> Tool | None:
    """Return the CUDA compiler that CMake would use: the one that CUDACXX names, else the one on PATH, else that of a
    toolkit that CUDA_HOME or CUDA_PATH names, or of one below the roots (`cuda` before `cuda-13.0` before `cuda-12.9`).
    None if there is none.

    Raises `MissingError` if CUDACXX names something that cannot be run: CMake would fail as well.
    """
    named = env.get("CUDACXX", "").strip()
    if named:
        found = shutil.which(named, path=env.get("PATH", _DEFAULT_PATH))
        tool = _tool("nvcc", Path(found), "CUDACXX", env) if found else None
        if tool is None:
            raise ToolchainUnusable(
                f"CUDACXX names {named}, which cannot be run", hint="unset CUDACXX, or set it to a toolkit's bin/nvcc"
            )
        return tool
    return find_cuda_tool("nvcc", env, roots)


def find_cuda_tool(name: str, env: Mapping[str, str], roots: Sequence[Path] = ROOTS) -> Tool | None:
    """Return a program of the CUDA toolkit (`cuobjdump`): on PATH, of the toolkit that CUDA_HOME or CUDA_PATH names, of
    one below the roots, or of a Python package (`nvidia-cuda-cuobjdump`) that this Python has; None if there is
    none."""
    on_path = find_tool(name, env)
    if on_path is not None:
        return on_path
    for path, found_by in _places(name, env, roots):
        if path.is_file() and os.access(path, os.X_OK):
            tool = _tool(name, path, found_by, env)
            if tool is not None:
                return tool
    return None


def toolkit_root(nvcc: Tool, env: Mapping[str, str]) -> Path:
    """Return the directory of the toolkit of an nvcc, as nvcc itself reports it, because nvcc may be a script or a
    link. Raises `MissingError` if it does not report one."""
    finished = run([str(nvcc.path), "--dryrun", "-x", "cu", "-c", os.devnull], env=_environment(env), timeout=_SECONDS)
    said = _TOP.search(finished.stderr.decode("utf-8", "replace"))
    root = Path(said[1].strip()).resolve() if said else None
    if root is None or not (root / "bin" / "nvcc").exists():
        raise ToolchainUnusable(
            f"{nvcc.path} does not report the path of its toolkit",
            hint="set CUDACXX to bin/nvcc of a complete toolkit",
        )
    return root


def _places(name: str, env: Mapping[str, str], roots: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if named := env.get(variable):
            yield Path(named, "bin", name), variable
    for root in roots:
        for toolkit in sorted(_toolkits(root), key=_age, reverse=True):
            yield toolkit / "bin" / name, str(toolkit / "bin")
    for entry in dict.fromkeys(sys.path):
        # nvidia/cuda_cuobjdump/bin in wheels for CUDA 12, nvidia/cu13/bin in those for 13.
        for place in sorted(Path(entry, "nvidia").glob(f"*/bin/{name}")) if entry else ():
            yield place, "a Python package"


def _toolkits(root: Path) -> Iterable[Path]:
    with contextlib.suppress(OSError):
        return [path for path in root.glob("cuda*") if re.fullmatch(r"cuda(?:-[\d.]+)?", path.name)]
    return []


def _age(toolkit: Path) -> tuple[int, ...]:
    """Return a sort key: `cuda`, which the machine's owner chose, comes before the newest version."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", toolkit.name))
    return numbers or (sys.maxsize,)


def _tool(name: str, path: Path, found_by: str, env: Mapping[str, str]) -> Tool | None:
    """Return the program at a path with its version; None if it cannot be started."""
    try:
        finished = run([str(path), "--version"], env=_environment(env), timeout=_SECONDS)
    except (MissingError, OSError):
        return None
    return Tool(
        name=name, path=path, version=read_version(finished.stdout.decode("utf-8", "replace")), found_by=found_by
    )


def read_version(said: str) -> str:
    """Return the version in the output of `--version`; empty if there is none. CUDA's tools print a copyright's years
    and a build's date before it; compilers print their packager's version first, in parentheses."""
    if match := _CUDA_VERSION.search(said):
        return match[2] or match[1]
    first = (said.strip().splitlines() or [""])[0]
    match = _VERSION.search(re.sub(r"\([^()]*\)", "", first)) or _VERSION.search(first)
    return match[0] if match else ""


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    return clean_environment({"PATH": env.get("PATH", _DEFAULT_PATH)})
