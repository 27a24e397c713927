"""The digest of a CUDA toolkit: of its content, remembered for as long as no file of it moves."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from patchstack.canonical import one_line
from patchstack.engine.protocol import Engine, EnginePath, Job, Limits
from patchstack.errors import MissingError
from patchstack.files.atomic import replace_file

_LISTING = 'cd "$1" && find -L . -type f -printf "%p %s %T@\\n" | LC_ALL=C sort | sha256sum'
_CONTENT = 'cd "$1" && find -L . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum'
_SECONDS = 900.0


def local_digest(root: Path, memory: Path) -> str:
    """`sha256:…` over the names and contents of the files below a directory of this machine. `memory` is a directory
    where it is kept under the files' names, sizes and times; while those stay, nothing is read again.

    Raises `MissingError` where the directory is not there.
    """
    if not root.is_dir():
        raise MissingError(f"there is no toolkit at {root}", hint="--toolkit names the directory that has bin/nvcc")
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
    """The same digest, of a directory on the engine's machine, computed there in a container of an image that has
    `find` and `sha256sum`. Raises what `Engine.run` raises, `MissingError` where it cannot be read."""

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
            raise MissingError(
                f"the toolkit {root} of the engine's machine cannot be read: {said.decode('utf-8', 'replace').strip()}"
            )
        return words[-2] if words[-1] == "-" else words[-1]

    listing = hashlib.sha256(f"{engine.about().endpoint} {root} {ask(_LISTING)}".encode()).hexdigest()
    known = recall(memory, listing) or remember(memory, listing, {"digest": f"sha256:{ask(_CONTENT)}"})
    return known["digest"]


def _files(root: Path) -> Iterator[Path]:
    """Every file, links followed as `find -L` follows them; a link to a directory above is not entered again."""
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
    """What was remembered under a name, or nothing."""
    try:
        found = json.loads((memory / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else None


def remember(memory: Path, name: str, what: dict[str, str]) -> dict[str, str]:
    """Keep something under a name, and give it back."""
    memory.mkdir(parents=True, exist_ok=True)
    replace_file(memory / f"{name}.json", f"{one_line(what)}\n".encode())
    return what
