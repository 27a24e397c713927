"""Another build beside the one at hand: what a test is red without, what a base is made with.

It is named by its key (8 digits or more of it, for a stored build) or by the directory of its programs; a directory
whose name could be a key is written `./NAME`.
"""

from __future__ import annotations

import re
from pathlib import Path

from patchstack.builds.record.store import Store
from patchstack.errors import MissingError
from patchstack.observe.from_build import chosen_build, programs_of
from patchstack.observe.layout import Programs, uses_gpu
from patchstack.workspace.mapping import Mapping as Node
from patchstack.workspace.places import located

_KEY = re.compile(r"[0-9a-f]{8,64}\Z")


def read_build(node: Node, key: str, *, required: bool = False) -> str | None:
    """A build as a suite names it: a key as it is, a directory taken from that of the workspace file."""
    text = node.text(key, required=required)
    return text if text is None or _KEY.match(text) else located(text, node.path.parent)


def shown(build: str | Programs) -> str:
    """A build as it is named in words."""
    if isinstance(build, Programs):
        return build.name or str(build.directory)
    return build[:12] if _KEY.match(build) else build


def named_programs(build: str, like: Programs, *, builds: Path | None, isolated: bool) -> Programs:
    """Return the programs of another build: one of those kept in `builds`, or of a directory, which is then run as
    `like` is. Raises `MissingError` if there is no such build, `NotHeldError` for one that did not compile."""
    if _KEY.match(build):
        if builds is None:
            raise MissingError(f"there is no build {shown(build)}: no builds are kept here")
        return programs_of(chosen_build(Store(builds), build, None), isolated=isolated)
    directory = Path(build).expanduser()
    if not directory.is_dir():
        raise MissingError(f"there is no build in {build}: it is no directory")
    return Programs(
        directory=directory,
        platform=like.platform,
        image=like.image,
        gpus=like.gpus or uses_gpu(directory),
        library_path=like.library_path,
        paths=like.paths,
    )
