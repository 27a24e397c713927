"""Find the toolchain and compute its digest.

The toolchain is a container image with a mounted CUDA toolkit, or the programs of this machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from patchstack.builds.inputs.arch import toolkit_complaint
from patchstack.builds.inputs.key import Toolchain
from patchstack.builds.inputs.plan import Plan
from patchstack.builds.inputs.variant import builders_directory
from patchstack.canonical import one_line
from patchstack.causes import ProgramMissing, ToolchainUnusable
from patchstack.engine.protocol import Engine, EnginePath, Image, Job, Limits
from patchstack.files.atomic import replace_file
from patchstack.process import clean_environment, run

_LISTING = 'cd "$1" && find -L . -type f -printf "%p %s %T@\\n" | LC_ALL=C sort | sha256sum'
_CONTENT = 'cd "$1" && find -L . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum'
_SECONDS = 900.0


def local_digest(root: Path, memory: Path) -> str:
    """Return the digest (`sha256:…`) of the names and contents of the files in a directory of this machine.

    `memory` is a cache directory. The files are read again only if their names, sizes or times have changed.

    Raises `MissingError` if the directory does not exist.
    """
    if not root.is_dir():
        raise ToolchainUnusable(
            f"CUDA toolkit {root} does not exist", hint="--toolkit must be the directory that contains bin/nvcc"
        )
    files = sorted(_files(root), key=lambda path: os.fsencode(path.relative_to(root)))
    listing = hashlib.sha256(os.fsencode(root))
    for path in files:
        status = path.stat()
        listing.update(b"%s %d %d\n" % (os.fsencode(path), status.st_size, status.st_mtime_ns))

    def content() -> str:
        digest = hashlib.sha256()
        for path in files:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").hexdigest().encode())
            digest.update(b"  ./" + os.fsencode(path.relative_to(root)) + b"\n")
        return digest.hexdigest()

    name = listing.hexdigest()
    known = recall(memory, name) or remember(memory, name, {"digest": f"sha256:{content()}"})
    return known["digest"]


def engine_digest(engine: Engine, root: str, image: str, platform: str, memory: Path) -> str:
    """Return the digest of a directory on the engine's machine.

    The digest is computed there, in a container of an image that has `find` and `sha256sum`. Raises the errors of
    `Engine.run`, and `MissingError` if the directory cannot be read.
    """

    def ask(script: str) -> str:
        said = bytearray()
        job = Job(
            what="toolkit",
            argv=("sh", "-c", script, "patchstack", root),
            image=image,
            platform=platform,
            paths=(EnginePath(source=root, target=root),),
            limits=Limits(seconds=_SECONDS),
        )
        outcome = engine.run(job, said.extend)
        words = said.decode("utf-8", "replace").split()
        if not outcome.ok or not words:
            raise ToolchainUnusable(
                f"CUDA toolkit {root} on the engine's machine cannot be read: "
                f"{said.decode('utf-8', 'replace').strip()}",
                hint="--toolkit must be the directory that contains bin/nvcc on the engine's machine",
            )
        return words[-2] if words[-1] == "-" else words[-1]

    listing = hashlib.sha256(f"{engine.about().endpoint} {root} {ask(_LISTING)}".encode()).hexdigest()
    known = recall(memory, listing) or remember(memory, listing, {"digest": f"sha256:{ask(_CONTENT)}"})
    return known["digest"]


def _files(root: Path) -> Iterator[Path]:
    """Yield every file below a directory. Links are followed, except links to a parent directory."""
    pending = [root]
    while pending:
        directory = pending.pop()
        real = directory.resolve()
        if any(real == other for other in directory.parents):
            continue
        for entry in sorted(os.scandir(directory), key=lambda one: one.name):
            if entry.is_dir():
                pending.append(Path(entry.path))
            elif entry.is_file():
                yield Path(entry.path)


def recall(memory: Path, name: str) -> dict[str, str] | None:
    """Return the value that is stored under a name, or None if no valid value is stored."""
    try:
        found = json.loads((memory / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else None


def remember(memory: Path, name: str, what: dict[str, str]) -> dict[str, str]:
    """Store a value under a name, and return the value."""
    memory.mkdir(parents=True, exist_ok=True)
    replace_file(memory / f"{name}.json", f"{one_line(what)}\n".encode())
    return what


IMAGE_TOOLKIT = "/usr/local/cuda"
"""The path of the toolkit in NVIDIA's images.

In a container, the toolkit of the engine's machine is also at this path. So no binary contains the real path, and the
results of ccache are valid on every machine.
"""
_RELEASE = re.compile(r"release ([0-9]+)\.([0-9]+)")
_PROBE = """
nvcc=$1
shift
if [ -z "$nvcc" ]; then
    for place in "${CUDACXX:-}" "$(command -v nvcc)" /usr/local/cuda/bin/nvcc; do
        if [ -x "$place" ]; then nvcc=$place; break; fi
    done
fi
for tool in c++ ld cmake ninja ccache; do
    command -v "$tool" >/dev/null || continue
    printf '%s\\t%s\\n' "$tool" "$("$tool" --version 2>/dev/null | head -n 1)"
done
if [ -x "$nvcc" ]; then printf 'nvcc\\t%s\\n' "$("$nvcc" --version | grep release)"; fi
"""
_NEEDED = ("c++", "cmake", "ninja")
_HOST_PROGRAMS = ("c++", "cc", "cmake", "ninja", "ccache")


def container_toolchain(engine: Engine, image: Image, plan: Plan, memory: Path) -> Toolchain:
    """Return the toolchain of an image, with the toolkit that the plan names.

    `memory` is a cache directory for digests and versions. Raises `MissingError` if a tool is missing, or if the CUDA
    toolkit does not support the architecture.
    """
    toolkit = None
    if toolkit_place(plan) is not None and plan.toolkit is not None:
        root = plan.toolkit.value
        toolkit = (
            local_digest(Path(root), memory)
            if plan.engine.local
            else engine_digest(engine, root, image.digest, plan.platform.value, memory)
        )
    name = hashlib.sha256(f"versions 1 {image.digest} {toolkit}".encode()).hexdigest()
    known = recall(memory, name)
    versions = known or remember(memory, name, _ask(engine, image, plan))
    digest = image.digest if toolkit is None else _joined((image.digest, toolkit))
    toolchain = Toolchain(
        digest=digest,
        versions=versions,
        cuda=cuda_version(versions.get("nvcc", "")),
        image=image.reference,
        image_digest=image.digest,
        toolkit_digest=toolkit,
        base_image=image.labels.get("patchstack.base"),
        base_digest=image.labels.get("patchstack.base.digest"),
    )
    recipes = f"recipes for images with all needed tools are in {builders_directory()}"
    toolkit_there = "use --toolkit /usr/local/cuda to mount the toolkit of the engine's machine"
    _check(toolchain, plan, f"image {image.reference}", recipes, toolkit_there)
    return toolchain


def host_toolchain(plan: Plan, nvcc: Path | None, memory: Path) -> Toolchain:
    """Return the toolchain of this machine: the files and versions of the compilers, and the CUDA toolkit of `nvcc`.

    The digest of this toolchain does not cover the headers of the C library and of the system. For a container, the
    digest of the image covers them.
    """
    versions: dict[str, str] = {}
    digests: list[str] = []
    for tool in _HOST_PROGRAMS:
        place = shutil.which(tool)
        if place is None:
            continue
        versions[tool] = _first_line(place, "--version")
        if tool in ("c++", "cc"):
            digests += [_file(path) for path in _compiler_parts(place)]
    versions["libc"] = _first_line("ldd", "--version")
    toolkit = None
    if plan.cuda and nvcc is not None:
        said = run([str(nvcc), "--version"], timeout=60)
        versions["nvcc"] = next((line for line in said.stdout.decode().splitlines() if "release" in line), "")
        toolkit = local_digest(nvcc.resolve().parent.parent, memory)
    digest = _joined((*digests, toolkit or "", one_line(_without_ccache(versions))))
    toolchain = Toolchain(
        digest=digest, versions=versions, cuda=cuda_version(versions.get("nvcc", "")), toolkit_digest=toolkit
    )
    _check(
        toolchain,
        plan,
        "this machine",
        "run 'patchstack doctor' to see how to install them",
        "run 'patchstack doctor' to see how to install it",
    )
    return toolchain


def cuda_version(said: str) -> tuple[int, int] | None:
    """Return the major and minor version in the output of `nvcc --version`.

    Returns None if the output contains no version.
    """
    match = _RELEASE.search(said)
    return (int(match.group(1)), int(match.group(2))) if match else None


def _without_ccache(versions: Mapping[str, str]) -> dict[str, str]:
    return {tool: version for tool, version in versions.items() if tool != "ccache"}


def toolkit_place(plan: Plan) -> str | None:
    """Return the path at which a job sees the toolkit of the plan.

    Returns None for a plan without a toolkit or without CUDA.
    """
    if plan.toolkit is None or not plan.cuda:
        return None
    return IMAGE_TOOLKIT if plan.engine.isolated else plan.toolkit.value


def toolkit_paths(plan: Plan) -> tuple[EnginePath, ...]:
    """Return the mounts through which a container sees the toolkit."""
    if plan.toolkit is None or not plan.cuda or not plan.engine.isolated:
        return ()
    return (EnginePath(source=plan.toolkit.value, target=IMAGE_TOOLKIT),)


def _ask(engine: Engine, image: Image, plan: Plan) -> dict[str, str]:
    """Return the versions that the tools of an image print.

    Raises `MissingError` if the image cannot run the query.
    """
    said = bytearray()
    place = toolkit_place(plan)
    job = Job(
        what="versions",
        argv=("sh", "-c", _PROBE, "patchstack", f"{place}/bin/nvcc" if place else ""),
        image=image.digest,
        platform=image.platform,
        paths=toolkit_paths(plan),
        limits=Limits(seconds=60),
    )
    outcome = engine.run(job, said.extend)
    if not outcome.ok:
        words = said.decode("utf-8", "replace").strip()
        raise ToolchainUnusable(f"image {image.reference} cannot list its tools: {words or f'exit {outcome.code}'}")
    pairs = [line.partition("\t") for line in said.decode("utf-8", "replace").splitlines()]
    return {tool.strip(): version.strip() for tool, separator, version in pairs if separator}


def _check(toolchain: Toolchain, plan: Plan, where: str, tools: str, hint: str) -> None:
    """Raise `MissingError` if a needed tool is missing, or if the CUDA toolkit does not support the architecture."""
    missing = [tool for tool in _NEEDED if tool not in toolchain.versions]
    if missing:
        raise ProgramMissing(
            f"{where} lacks {', '.join(missing)}",
            hint=tools,
        )
    if plan.arch is None:
        return
    if toolchain.cuda is None:
        raise ToolchainUnusable(f"{where} has no nvcc, but {plan.variant} needs CUDA", hint=hint)
    complaint = toolkit_complaint(plan.arch, toolchain.cuda)
    if complaint is not None:
        raise ToolchainUnusable(f"{complaint} ({where})", hint="use an image or a toolkit (--toolkit) that supports it")


def _compiler_parts(compiler: str) -> list[Path]:
    """Return the paths of the compiler driver and of the programs that it runs, such as cc1 and ld."""
    found = [Path(compiler).resolve()]
    for part in ("cc1", "cc1plus", "as", "ld", "collect2"):
        said = run([compiler, f"-print-prog-name={part}"], timeout=60).stdout.decode().strip()
        place = said if Path(said).is_absolute() else shutil.which(said) if said else None
        if place and Path(place).is_file():
            found.append(Path(place).resolve())
    return sorted(set(found))


def _file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _first_line(program: str, *arguments: str) -> str:
    said = run([program, *arguments], env=clean_environment(), timeout=60)
    return (said.stdout.decode("utf-8", "replace").splitlines() or [""])[0].strip()


def _joined(parts: Iterable[str]) -> str:
    return "sha256:" + hashlib.sha256("\n".join(parts).encode()).hexdigest()
