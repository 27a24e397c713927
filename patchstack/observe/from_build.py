"""Find the programs of a stored build, or of a build that a suite names.

A suite can name a second build, for a test that must fail there, or for the base of a KL comparison. The name of a
stored build is its key, or at least the first 8 digits of the key. Any other name is the directory of the programs. A
directory whose name could be a key must be written `./NAME`.
"""

from __future__ import annotations

import re
from pathlib import Path

from patchstack.builds.inputs.toolchain import IMAGE_TOOLKIT
from patchstack.builds.record.store import Store, Stored
from patchstack.causes import BuildFailed, NoSuchBuild
from patchstack.engine.protocol import EnginePath
from patchstack.observe.layout import Programs, uses_gpu
from patchstack.workspace.model import located
from patchstack.workspace.node import Node

_KEY = re.compile(r"[0-9a-f]{8,64}\Z")


def chosen_build(store: Store, key: str) -> Stored:
    """Return the build whose key starts with `key`.

    Raises `MissingError` if no build has such a key, and `NotHeldError` if the source of the build did not compile.
    """
    stored = store.named(key)
    if not stored.record.built:
        raise BuildFailed(f"build {stored.key[:12]} has no programs: its source does not compile")
    return stored


def engine_of(stored: Stored) -> str:
    """Return the engine that a build was made on, in the format of `--engine`."""
    return stored.record.engine.spec


def programs_of(stored: Stored, *, isolated: bool, image: str | None = None) -> Programs:
    """Return the programs of a stored build.

    `isolated` is true if the engine uses containers. `image` replaces the image of the build.
    """
    record = stored.record
    toolkit = record.options.toolkit.value if record.arch and record.options.toolkit else None
    built_in = record.options.image.digest if record.options.image else None
    paths: tuple[EnginePath, ...] = ()
    library_path = None
    if toolkit is not None:
        library_path = f"{IMAGE_TOOLKIT if isolated else toolkit}/lib64"
        paths = (EnginePath(source=str(toolkit), target=IMAGE_TOOLKIT),) if isolated else ()
    return Programs(
        directory=stored.programs,
        platform=record.platform,
        image=image or built_in or None,
        gpus=bool(record.arch),
        library_path=library_path,
        paths=paths,
        key=stored.key,
        name=f"{stored.key[:12]} ({record.source.label})",
    )


def read_build(node: Node, key: str, *, required: bool = False) -> str | None:
    """Read the name of a build from a suite. Return None if it is missing or not a string.

    A key is returned unchanged. Any other name is read as a path, relative to the directory of the workspace file.
    """
    text = node.text(key, required=required)
    return text if text is None or _KEY.match(text) else located(text, node.path.parent)


def shown(build: str | Programs) -> str:
    """Return the name of a build for messages. A key is shortened to 12 digits."""
    if isinstance(build, Programs):
        return build.name or str(build.directory)
    return build[:12] if _KEY.match(build) else build


def named_programs(build: str, like: Programs, *, builds: Path | None, isolated: bool) -> Programs:
    """Return the programs of a second build: a build stored in `builds`, or a directory.

    The programs of a directory run with the settings of `like`. Raises `MissingError` if the build does not exist, and
    `NotHeldError` if its source did not compile.
    """
    if _KEY.match(build):
        if builds is None:
            raise NoSuchBuild(f"there is no build {shown(build)}: no builds are stored")
        return programs_of(chosen_build(Store(builds), build), isolated=isolated)
    directory = Path(build).expanduser()
    if not directory.is_dir():
        raise NoSuchBuild(f"there is no build in {build}: it is not a directory")
    return Programs(
        directory=directory,
        platform=like.platform,
        image=like.image,
        gpus=like.gpus or uses_gpu(directory),
        library_path=like.library_path,
        paths=like.paths,
    )
