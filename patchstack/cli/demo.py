"""`patchstack demo`: a fork, its series, and what verify says when one of them changes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patchstack.cli.options import open_cache
from patchstack.cli.verify import show


def demo_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty directory.")] = Path(
        "patchstack-demo"
    ),
    build: Annotated[bool, typer.Option("--build/--no-build", help="Build it as well, where compilers are.")] = True,
) -> None:
    """Make a small upstream, a fork of it and its series; verify it; break it in three ways; build it."""
    from patchstack.demo.build import DROPPED, EDITED, MOVED, build_demo
    from patchstack.series.proof import prove
    from patchstack.workspace import read_workspace

    demo = build_demo(directory)
    print(f"{demo.root}: an upstream (minillm, pinned at {demo.pin[:12]}), a fork of it, and the fork's series\n")
    cache = open_cache(offline=True)

    def verify(workspace: Path, name: str) -> bool | None:
        print(f"$ cd {workspace.parent} && patchstack verify {name}")
        result = prove(read_workspace(workspace).select([name])[0], cache)
        show(result)
        print()
        return result.holds

    held = verify(demo.workspace, "paged")
    failed = []
    for broken in (EDITED, DROPPED, MOVED):
        print(f"Now {broken.what}:\n")
        failed.append(verify(demo.broken_workspace, broken.name))
    if held is not True or failed != [False] * 3:
        raise RuntimeError(f"the demo did not go as told: {held}, {failed}")
    if build:
        _build(demo.workspace)
    print(f"Look around: cd {demo.root}; patchstack verify; patchstack verify --json; git -C fork log --oneline")


def _build(workspace: Path) -> None:
    """Build the series on this host, and in a container where a Docker engine has the image."""
    from patchstack.cli.build import make
    from patchstack.errors import MissingError

    for engine in ("host", "docker"):
        print(f"$ cd {workspace.parent} && patchstack build paged --engine {engine}", flush=True)
        try:
            code = make("paged", workspace=workspace, engine=engine, offline=True)
        except MissingError as error:
            print(f"left out: {error.message}\n" + (f"  {error.hint}\n" if error.hint else ""))
            continue
        print()
        if code:
            raise RuntimeError(f"the demo did not go as told: build exits {code} on {engine}")
