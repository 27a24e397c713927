"""A compiler cache that outlives a run, below `build/`, for tests that compile the demo's upstream to use its programs.

The same C++ gives the same objects in each run: the key of ccache is the content of sources, options and compiler.
Only the directory for temporary files is left out of it: a test's own directory is different in each run. Tests of
ccache itself do not use this: each of them begins without any object.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from patchstack.engine.host.engine import native_platform
from patchstack.files.atomic import replace_file
from tests.support.checkout import ROOT

PLACE = ROOT / "build" / "ccache-of-tests"
_TEMPORARY = os.path.realpath(tempfile.gettempdir())  # that of the run, as no test has begun yet
_SETTINGS = f"base_dir = {_TEMPORARY}\nhash_dir = false\ncompiler_check = content\nmax_size = 200M\n"


def warm(cache: Path, place: Path = PLACE) -> None:
    """Let builds on this host that use a patchstack cache take their objects from `place`, and keep them there."""
    volume = cache / "engine" / "volumes" / f"patchstack-ccache-{native_platform().replace('/', '-')}"
    volume.parent.mkdir(parents=True, exist_ok=True)
    volume.symlink_to(_made(place))


def cmake_options() -> tuple[str, ...]:
    """Return options for CMake by hand; none without ccache. Its build needs `variables()`."""
    if shutil.which("ccache") is None:
        return ()
    return ("-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")


def variables() -> dict[str, str]:
    """Return the variables of a build that was configured with `cmake_options()`."""
    return {"CCACHE_DIR": str(_made(PLACE))}


def _made(place: Path) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    settings = place / "ccache.conf"
    if not settings.exists() or settings.read_text() != _SETTINGS:
        replace_file(settings, _SETTINGS.encode())
    return place
