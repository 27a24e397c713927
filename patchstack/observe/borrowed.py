"""Combine a build with one program of another build, so that the candidate does not provide its own test program."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from patchstack.causes import NotInBuild
from patchstack.observe.layout import Programs


@contextlib.contextmanager
def with_program(programs: Programs, name: str, other: Programs) -> Iterator[Programs]:
    """Yield a build's files with one program taken from another build. They exist only during the block.

    Raises `MissingError` if the other build lacks the program, or if the program cannot be used: its libraries are
    linked into it, or some are missing.
    """
    if name not in other.names():
        raise NotInBuild(f"the other build has no {name}")
    loaded, own = other.loaded(), programs.loaded()
    if name in programs.names() and loaded.digest(name) == own.digest(name):
        yield programs
        return
    if not loaded.borrowable(name, programs.names()):
        raise NotInBuild(f"{name} of the other build does not run with the libraries of this one")
    with TemporaryDirectory(prefix="patchstack-") as directory:
        place = Path(directory) / "bin"
        place.mkdir()
        for one in sorted(programs.names() - {name}):
            _linked(programs.directory / one, place / one)
        # A copy, because a program looks for its libraries next to its real file.
        shutil.copy2((other.directory / name).resolve(), place / name)
        stamps = tuple(key for key in (other.key, programs.key) if key is not None)
        yield replace(programs, directory=place, key=None, stamps=stamps)


def _linked(source: Path, target: Path) -> None:
    if source.is_symlink():
        target.symlink_to(os.readlink(source))
        return
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
