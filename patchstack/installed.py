"""Find out how this patchstack was installed.

This module also returns the commands that run this installation from a shell, or add optional extras to it.

Sources: `direct_url.json` (PEP 610), `pipx_metadata.json` (pipx 1.0 to 1.18), and `uv-receipt.toml` and the
environments in uvx's cache (uv 0.13).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

NAME = "patchstack"
_UVX_CACHE = re.compile(r"(archive|environments)-v\d+")
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*[^;]*?)\s*;(.*)", re.DOTALL)
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")
_DISTRIBUTION = re.compile(r"[A-Za-z0-9._-]+")


class By(StrEnum):
    """The tool that created the environment. UVX and PIPX_RUN create a cached environment for a single run."""

    PIP = "pip"
    UV_TOOL = "uv tool"
    UVX = "uvx"
    PIPX = "pipx"
    PIPX_RUN = "pipx run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """An installation of patchstack.

    `source` is a checkout's directory or a PEP 508 URL. It is None if the source is unknown or no longer exists.
    `editable` is true only for a directory that is installed in editable mode. `extras` are the extras whose packages
    are all installed. `requirements` maps each extra to its packages. `importable` is false for a checkout that runs
    without being installed. `pip_install` is the command that installs packages into this environment. `uvx` is the
    command that runs uvx. `program` and `arguments` are from this process's command line.
    """

    by: By
    source: str | None
    pip_install: str
    program: Path
    python: Path
    editable: bool = False
    importable: bool = True
    extras: tuple[str, ...] = ()
    requirements: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    uvx: str = "uvx"


def install_hint(*extras: str) -> str:
    """Return the command that adds optional extras to this installation."""
    return command_for(here(), extras)


def command_for(installed: Installed, extras: Sequence[str]) -> str:
    """Return the command that adds extras to an installation.

    A command that recreates the environment keeps the installed extras.
    """
    if installed.by is By.PIP:
        wanted = tuple(extras)
        if installed.source is None:
            return f"{installed.pip_install} {shlex.join(_packages(installed, wanted))}"
        return f"{installed.pip_install} {_source(installed, wanted)}"
    wanted = tuple(sorted({*installed.extras, *extras}))
    if installed.by is By.UV_TOOL:
        if installed.source is None:
            packages = shlex.join(_packages(installed, extras))
            return f"uv pip install --python {shlex.quote(str(installed.python))} {packages}"
        return f"uv tool install {_source(installed, wanted, '--editable')}"
    if installed.by is By.PIPX:
        if installed.source is None:
            return f"pipx inject {NAME} {shlex.join(_packages(installed, extras))}"
        return f"pipx install --force {_source(installed, wanted, '--editable')}"
    return shlex.join([*_once(installed, wanted), *installed.arguments])


def typed_as() -> str:
    """Return the command that runs this installation from any directory (see `call_of`)."""
    return call_of(here())


def call_of(installed: Installed) -> str:
    """Return the command that runs an installation from any directory.

    For a single-run installation, this is a `uvx` or `pipx run` command. Otherwise, it is `patchstack` if the shell
    finds this installation's program under that name, or else the path of the program. If the program cannot be started
    by its path, the command is `python -m patchstack`.
    """
    if installed.by in (By.UVX, By.PIPX_RUN):
        return shlex.join(_once(installed, installed.extras))
    program = installed.program
    found = shutil.which(NAME)
    if found is not None and Path(found).resolve() == program.resolve():
        return NAME
    if program.name == NAME and os.access(program, os.X_OK):
        return shlex.quote(str(program))
    module = shlex.join([str(installed.python), "-m", NAME])
    return module if installed.importable else f"PYTHONPATH={shlex.quote(str(_checkout()))} {module}"


def here() -> Installed:
    """Return the installation of the running patchstack.

    Does not raise. Files that cannot be read are treated as missing.
    """
    from importlib import metadata  # imported here, because only hints need it

    prefix = Path(sys.prefix)
    program = Path(sys.argv[0]).absolute()
    python = Path(sys.executable)
    by = _made_by(prefix)
    fixed: dict[str, Any] = {"by": by, "program": program, "python": python, "arguments": tuple(sys.argv[1:])}
    fixed |= {"pip_install": _pip_install(python, prefix), "uvx": _uvx()}
    try:
        distribution = metadata.distribution(NAME)
    except metadata.PackageNotFoundError:
        return Installed(source=str(_checkout()), importable=False, **fixed)
    requirements = requirements_of(distribution.requires or ())
    extras = tuple(sorted(extra for extra, packages in requirements.items() if all(map(_is_here, packages))))
    try:
        source, editable = source_of(distribution.read_text("direct_url.json"))
    except (OSError, ValueError):  # a file that cannot be read, or is not UTF-8
        source, editable = None, False
    return Installed(source=source, editable=editable, extras=extras, requirements=requirements, **fixed)


def source_of(direct_url: str | None) -> tuple[str | None, bool]:
    """Return the source of an installation, and whether the installation is editable.

    `direct_url` is the text of `direct_url.json` (PEP 610). The source is a directory or a PEP 508 URL. The source is
    None if the text is None or invalid, or if it names a path that no longer exists.
    """
    import json  # imported here, because only hints need it

    try:
        found = json.loads(direct_url or "null")
        url = str(found["url"])
        directory, vcs = found.get("dir_info"), found.get("vcs_info")
        parts = urlsplit(url)
        if parts.scheme == "file":
            path = Path(unquote(parts.path))
            if not path.exists():
                return None, False
            if directory is not None:
                return str(path), bool(directory.get("editable"))
        if vcs is not None:
            url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
        if subdirectory := found.get("subdirectory"):
            url += f"#subdirectory={subdirectory}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None, False
    return url, False


def requirements_of(requires: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the packages of each extra from `Requires-Dist` lines.

    Each package is returned with its version specifier, but without its markers. The extra `dev`, for developing
    patchstack, is omitted.
    """
    found: dict[str, list[str]] = {}
    for line in requires:
        match = _REQUIREMENT.match(line)
        extra = _EXTRA.search(match[2]) if match else None
        if match and extra and extra[1] != "dev":
            found.setdefault(extra[1], []).append(match[1])
    return {extra: tuple(packages) for extra, packages in found.items()}


def _made_by(prefix: Path) -> By:
    if (prefix / "uv-receipt.toml").is_file():
        return By.UV_TOOL
    if (prefix / "pipx_metadata.json").is_file():
        return By.PIPX if prefix.parent.name == "venvs" else By.PIPX_RUN
    return By.UVX if _UVX_CACHE.fullmatch(prefix.parent.name) else By.PIP


def _pip_install(python: Path, prefix: Path) -> str:
    """Return the command that installs packages into this environment.

    The command is `uv pip` if the environment has no pip. It is `pip` if the environment is a virtual environment whose
    pip is on `PATH`. Otherwise it is `python -m pip`. If the environment is not virtual and is externally managed (PEP
    668), `--break-system-packages` is added.
    """
    if importlib.util.find_spec("pip") is None:
        return f"uv pip install --python {shlex.quote(str(python))}"
    if prefix == Path(sys.base_prefix):
        managed = (Path(sysconfig.get_path("stdlib")) / "EXTERNALLY-MANAGED").is_file()  # PEP 668
        return f"{shlex.quote(str(python))} -m pip install" + (" --break-system-packages" if managed else "")
    found = shutil.which("pip")
    by_name = found is not None and Path(found).parent.resolve() == python.parent.resolve()
    return "pip install" if by_name else f"{shlex.quote(str(python))} -m pip install"


def _uvx() -> str:
    """Return the command that runs uvx.

    uv sets the environment variable `UV` to its own path. If `UV` is set and `uvx` is not on `PATH`, the command is
    this path, followed by `tool run`. Otherwise, it is `uvx`.
    """
    uv = os.environ.get("UV")
    return "uvx" if uv is None or shutil.which("uvx") else f"{shlex.quote(uv)} tool run"


def _checkout() -> Path:
    return Path(__file__).resolve().parent.parent


def _is_here(requirement: str) -> bool:
    from importlib import metadata

    name = _DISTRIBUTION.match(requirement)
    try:
        return name is not None and metadata.distribution(name[0]) is not None
    except metadata.PackageNotFoundError:
        return False


def _source(installed: Installed, extras: Sequence[str], editable: str = "-e") -> str:
    option = f"{editable} " if installed.editable else ""
    return option + shlex.quote(_specifier(installed, extras))


def _specifier(installed: Installed, extras: Sequence[str]) -> str:
    wanted = f"[{','.join(extras)}]" if extras else ""
    if installed.source is None:
        return f"{NAME}{wanted}"
    if installed.source.startswith("/"):
        return f"{installed.source}{wanted}"
    return f"{NAME}{wanted} @ {installed.source}"


def _once(installed: Installed, extras: Sequence[str]) -> list[str]:
    """Return the `uvx` or `pipx run` command for patchstack with these extras."""
    start = ["pipx", "run", "--spec"] if installed.by is By.PIPX_RUN else [*shlex.split(installed.uvx), "--from"]
    return [*start, _specifier(installed, extras), NAME]


def _packages(installed: Installed, extras: Sequence[str]) -> list[str]:
    """Return the packages of extras.

    If no packages are known, return the requirement for patchstack with these extras.
    """
    found = [package for extra in extras for package in installed.requirements.get(extra, ())]
    return found or [_specifier(installed, extras)]
