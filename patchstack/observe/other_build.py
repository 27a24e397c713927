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
from patchstack.observe.protocol import Bench
from patchstack.observe.runner import EngineBench
from patchstack.workspace.mapping import Mapping as Node
from patchstack.workspace.places import located

_KEY = re.compile(r"[0-9a-f]{8,64}\Z")


def read_build(node: Node, key: str, *, required: bool = False) -> str | None:
    """A build as a suite names it: a key as it is, a directory taken from that of the workspace file."""
    text = node.text(key, required=required)
    return text if text is None or _KEY.match(text) else located(text, node.path.parent)


def beside(bench: Bench, build: str | Programs) -> EngineBench:
    """A bench of another build's programs, all else being the same. To be closed by the caller.

    Raises `MissingError` where there is no such build, or it wants a GPU that the bench does not have; `NotHeldError`
    for one that did not compile.
    """
    if not isinstance(bench, EngineBench):
        raise MissingError("there is no other build here")
    programs = build if isinstance(build, Programs) else _programs(bench, build)
    if programs.gpus and not bench.files.gpus:
        raise MissingError(f"build {shown(build)} uses a GPU, and the one to be judged does not")
    return bench.of(programs)


def shown(build: str | Programs) -> str:
    """A build as it is named in words."""
    if isinstance(build, Programs):
        return build.name or str(build.directory)
    return build[:12] if _KEY.match(build) else build


def _programs(bench: EngineBench, build: str) -> Programs:
    if _KEY.match(build):
        if bench.builds is None:
            raise MissingError(f"there is no build {shown(build)}: no builds are kept here")
        return programs_of(chosen_build(Store(bench.builds), build, None), isolated=bench.about.isolated)
    directory = Path(build).expanduser()
    if not directory.is_dir():
        raise MissingError(f"there is no build in {build}: it is no directory")
    return Programs(
        directory=directory,
        platform=bench.files.platform,
        image=bench.files.image,
        gpus=bench.files.gpus or uses_gpu(directory),
        library_path=bench.files.library_path,
        paths=bench.files.paths,
    )
