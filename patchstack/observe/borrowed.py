"""Combine a build with one program of a different build.

This way, a candidate does not provide the program that tests it.
"""

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
    """Yield `programs`, with the program `name` replaced by the one from the build `other`.

    If the program is the same in both builds, `programs` is yielded unchanged. Otherwise, the files exist only during
    the `with` block. Raises `MissingError` if `other` lacks the program, or if the program cannot run in `programs`. It
    cannot run if its libraries are linked statically, or if `programs` lacks one of them.
    """
    if name not in other.names():
        raise NotInBuild(f"{name} is not in the other build")
    loaded, own = other.loaded(), programs.loaded()
    if name in programs.names() and loaded.digest(name) == own.digest(name):
        yield programs
        return
    if not loaded.borrowable(name, programs.names()):
        raise NotInBuild(
            f"{name} of the other build cannot run with the libraries of this build",
            hint="build both with the same variant, with shared libraries",
        )
    with TemporaryDirectory(prefix="patchstack-") as directory:
        place = Path(directory) / "bin"
        place.mkdir()
        for one in sorted(programs.names() - {name}):
            _linked(programs.directory / one, place / one)
        # Copied, not linked: a program searches for its libraries next to its real file.
        shutil.copy2((other.directory / name).resolve(), place / name)
        stamps = tuple(key for key in (other.key, programs.key) if key is not None)
        yield replace(programs, directory=place, key=None, stamps=stamps)


def _linked(source: Path, target: Path) -> None:
    if source.is_symlink():
        target.symlink_to(os.readlink(source))
        return
    try:
        os.link(source, target)
    except OSError:  # the directories are on different file systems
        shutil.copy2(source, target)
