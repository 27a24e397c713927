"""Find the paths of programs, models and files inside the job of a gate."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from patchstack.builds.proofs.elf import DamagedElf, read_elf
from patchstack.causes import BadPath, BadValue, NoSuchBuild
from patchstack.engine.archive import Entry
from patchstack.engine.leftovers import sweep, volume_name
from patchstack.engine.protocol import Engine, EnginePath, Volume
from patchstack.observe.loaded import LoadedFiles
from patchstack.observe.protocol import Invocation, Model

_WORK, _KEPT = "/patchstack/gate", "/patchstack/kept"
_PLACEHOLDER = re.compile(r"\{(model|input|kept|work)(?::([^{}]*))?\}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The programs of a build.

    `directory` is its `bin` directory on this machine. `image` is the container image, and `platform` is the target
    platform. `gpus` is true if the build uses GPUs. `library_path` is the path at which a job sees libraries outside
    the build, such as the libraries of a CUDA toolkit. `paths` are the mounts that a container needs for these
    libraries. `key` is the key of a stored build. `stamps` are other build keys that the programs may contain. `name`
    describes the build in words.
    """

    directory: Path
    platform: str
    image: str | None = None
    gpus: bool = False
    library_path: str | None = None
    paths: tuple[EnginePath, ...] = ()
    key: str | None = None
    stamps: tuple[str, ...] = ()
    name: str = ""

    def names(self) -> frozenset[str]:
        """Return the names of the files in `bin`. Raises `NoSuchBuild` if the directory does not exist."""
        if not self.directory.is_dir():
            raise NoSuchBuild(f"there are no programs: {self.directory} is not a directory", hint="use --bin DIRECTORY")
        return frozenset(path.name for path in self.directory.iterdir() if path.is_file())

    def loaded(self) -> LoadedFiles:
        """Return a `LoadedFiles` for the files of this build."""
        stamps = (*self.stamps, *((self.key,) if self.key is not None else ()))
        return LoadedFiles(self.directory, self.names(), stamps)

    def digest(self) -> str:
        """Return the SHA-256 of the names and contents of all files, in hex."""
        whole = hashlib.sha256()
        for name in sorted(self.names()):
            with (self.directory / name).open("rb") as file:
                whole.update(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n".encode())
        return whole.hexdigest()

    def entries(self) -> Iterator[Entry]:
        """Yield the files to send to the engine, below `bin/`. Symbolic links stay links."""
        yield Entry(path="bin")
        for name in sorted(self.names()):
            path = self.directory / name
            if path.is_symlink():
                yield Entry(path=f"bin/{name}", link=os.readlink(path))
            else:
                yield Entry(path=f"bin/{name}", file=path, executable=os.access(path, os.X_OK))


def uses_gpu(directory: Path) -> bool:
    """Return whether a directory of programs contains GPU code: a CUDA section in a program or library."""
    for path in directory.iterdir() if directory.is_dir() else ():
        if path.is_file() and not path.is_symlink():
            try:
                found = read_elf(path)
            except DamagedElf:
                continue
            if found is not None and any(name.startswith((".nv_fatbin", ".nvFatBin")) for name in found.sections or ()):
                return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Paths as a job sees them.

    `run` is the directory of the current run. `work` is its subdirectory to which the program may write. `kept` is the
    directory of files that are used by later runs.
    """

    bin: str
    run: str
    kept: str
    models: Mapping[str, str]
    mounts: tuple[EnginePath, ...] = field(default=())

    @property
    def work(self) -> str:
        return f"{self.run}/work"

    def resolve(self, text: str, invocation: Invocation) -> str:
        """Replace the placeholders in an argument with paths. Raises `UsageError` for an unknown placeholder."""

        def path(match: re.Match[str]) -> str:
            kind, name = match.group(1), match.group(2) or ""
            if kind == "work":
                return self.work
            if kind == "model" and name in self.models:
                return self.models[name]
            if kind == "input" and name in invocation.inputs:
                return f"{self.run}/inputs/{name}"
            if kind == "kept" and _NAME.match(name):
                return f"{self.kept}/{name}"
            raise BadPath(f"{invocation.what}: {match.group(0)} is an unknown placeholder in {text!r}")

        return _PLACEHOLDER.sub(path, text)


def volumes() -> tuple[Volume, Volume]:
    """Return the volume of a runner, and the volume for files that later runs use."""
    return (
        Volume(name=volume_name("patchstack-gate"), target=_WORK),
        Volume(name="patchstack-kept", target=_KEPT),
    )


def remove_leftovers(engine: Engine) -> None:
    """Remove the volumes that killed processes created for runs and for clients."""
    sweep(engine, "patchstack-(?:gate|client)")


def mounted(models: tuple[Model, ...], *, isolated: bool) -> tuple[dict[str, str], tuple[EnginePath, ...]]:
    """Return the paths of models as a job sees them, and the mounts for these paths.

    On the host, these are the paths of the model files. In a container, the models are mounted read-only below
    `/models`.
    """
    places, mounts = {}, []
    for index, model in enumerate(models):
        path = str(Path(model.path).expanduser())
        if isolated:
            target = f"/models/{index}/{PurePosixPath(path).name}"
            mounts.append(EnginePath(source=path, target=target))
            places[model.name] = target
        else:
            places[model.name] = path
    return places, tuple(mounts)


def run_entries(invocation: Invocation) -> Iterator[Entry]:
    """Yield the files of one run: its inputs, and empty directories for its output.

    Raises `UsageError` if the name of an input or output is not a valid file name.
    """
    for directory in ("run", "run/inputs", "run/work", "run/out", "run/out/files"):
        yield Entry(path=directory)
    for name in (*invocation.inputs, *invocation.keeps, *invocation.brings):
        if not _NAME.match(name):
            raise BadValue(f"{invocation.what}: {name!r} is not a valid file name")
    for name, data in invocation.inputs.items():
        yield Entry(path=f"run/inputs/{name}", data=data)
