"""Find the programs on this machine that a build needs, with their paths and versions."""

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
"""The directories in which CUDA toolkits are installed, under names such as `cuda` and `cuda-13.0`."""
_SECONDS = 10.0
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_CUDA_VERSION = re.compile(r"\brelease (\d+\.\d+)(?:, V(\d+\.\d+\.\d+))?")
_TOP = re.compile(r"^#\$ TOP=(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program.

    `version` is the version that the program prints, for example `13.0.88`, or an empty string if it prints none.
    `found_by` is how the program was found: `CUDACXX`, `PATH`, a directory, or a Python package.
    """

    name: str
    path: Path
    version: str
    found_by: str

    def at_least(self, *wanted: int) -> bool:
        """Return whether the version is at least `wanted`. Return False if the version is unknown."""
        numbers = tuple(int(number) for number in re.findall(r"\d+", self.version))
        return bool(numbers) and numbers >= wanted


def find_tool(name: str, env: Mapping[str, str]) -> Tool | None:
    """Return a program on the PATH of an environment. Return None if it does not exist or does not start."""
    found = shutil.which(name, path=env.get("PATH", _DEFAULT_PATH))
    return _tool(name, Path(found), "PATH", env) if found else None


def find_nvcc(env: Mapping[str, str], roots: Sequence[Path] = ROOTS) -> Tool | None:
    """Return the CUDA compiler that CMake would use. Return None if no compiler exists.

    If CUDACXX is not set, these places are searched in order: PATH, CUDA_HOME, CUDA_PATH, the toolkits below the roots
    (`cuda` before `cuda-13.0` before `cuda-12.9`), and Python packages. Raises `MissingError` if CUDACXX cannot be run,
    because CMake would fail too.
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
    """Return a program of the CUDA toolkit, for example `cuobjdump`. Return None if it does not exist.

    The program is searched for on PATH, in CUDA_HOME and CUDA_PATH, in the toolkits below the roots, and in installed
    Python packages such as `nvidia-cuda-cuobjdump`.
    """
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
    """Return the toolkit directory that nvcc itself reports.

    The path of nvcc is not used, because nvcc may be a script or a link. Raises `MissingError` if nvcc reports no
    complete toolkit.
    """
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
        # Wheels for CUDA 12 contain nvidia/cuda_cuobjdump/bin, and wheels for CUDA 13 contain nvidia/cu13/bin.
        for place in sorted(Path(entry, "nvidia").glob(f"*/bin/{name}")) if entry else ():
            yield place, "a Python package"


def _toolkits(root: Path) -> Iterable[Path]:
    with contextlib.suppress(OSError):
        return [path for path in root.glob("cuda*") if re.fullmatch(r"cuda(?:-[\d.]+)?", path.name)]
    return []


def _age(toolkit: Path) -> tuple[int, ...]:
    """Return the sort key of a toolkit directory: its version.

    A directory without a version (`cuda`) sorts after all versions, because the machine's administrator chose it.
    """
    numbers = tuple(int(number) for number in re.findall(r"\d+", toolkit.name))
    return numbers or (sys.maxsize,)


def _tool(name: str, path: Path, found_by: str, env: Mapping[str, str]) -> Tool | None:
    """Return the program at a path with its version. Return None if it cannot be started."""
    try:
        finished = run([str(path), "--version"], env=_environment(env), timeout=_SECONDS)
    except (MissingError, OSError):
        return None
    return Tool(
        name=name, path=path, version=read_version(finished.stdout.decode("utf-8", "replace")), found_by=found_by
    )


def read_version(said: str) -> str:
    """Return the version in the output of `--version`. Return an empty string if the output contains none.

    CUDA's tools print copyright years and a build date before the version. Compilers may print the packager's version
    in parentheses before the version.
    """
    if match := _CUDA_VERSION.search(said):
        return match[2] or match[1]
    first = (said.strip().splitlines() or [""])[0]
    match = _VERSION.search(re.sub(r"\([^()]*\)", "", first)) or _VERSION.search(first)
    return match[0] if match else ""


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    return clean_environment({"PATH": env.get("PATH", _DEFAULT_PATH)})
