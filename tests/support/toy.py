"""A small C project with a fork and a series, for builds that take a second."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import Content, Fork, RepoBuilder, an_upstream, format_patch, run_git
from tests.support.checkout import ROOT
from tests.support.daemon import no_engine
from tests.support.schemas import against_schema

IMAGE = os.environ.get("PATCHSTACK_TEST_IMAGE", "patchstack-test-base:bookworm")

CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(toy C)
set(TOY_COMMIT unknown CACHE STRING "what --version says")
option(TOY_LOUD "print more" OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
configure_file(version.h.in version.h)
add_executable(toy main.c)
target_include_directories(toy PRIVATE ${CMAKE_BINARY_DIR})
"""

MAIN = """\
#include <assert.h>
#include <stdio.h>
#include "version.h"

int main(void) {
    assert(sizeof(int) == 4);
    printf("version: 0 (%s)\\n", TOY_COMMIT);
    return 0;
}
"""

FILES: dict[str, Content] = {
    "CMakeLists.txt": CMAKE,
    "version.h.in": '#define TOY_COMMIT "@TOY_COMMIT@"\n',
    "main.c": MAIN,
}

WORKSPACE = """\
variants:
  toy: {{abstract: true, commit_variable: TOY_COMMIT, targets: [toy]}}
  cpu: {{extends: toy, image: "{image}"}}
series:
  toy:
    patches: {patches}
    upstream: {upstream}
    pin: "{pin}"
    variant: cpu
"""

KNOB = """\
#ifndef TOY_ROWS
#define TOY_ROWS 4
#endif
_Static_assert(TOY_ROWS == 4 || TOY_ROWS == 8, "TOY_ROWS must be 4 or 8");
"""


@dataclass(slots=True)
class Toy:
    """The project's fork in a workspace; `engine` is the value for `--engine`."""

    root: Path
    fork: Fork
    engine: str

    def build(self, *options: str, check: bool = False, **environment: str) -> Built:
        """Run `patchstack build` in a separate process."""
        child = self.start(*options, **environment)
        stdout, stderr = child.communicate(timeout=120)
        assert "Traceback" not in stderr, stderr
        built = Built(code=child.returncode, stdout=stdout, stderr=stderr)
        assert not check or built.code == 0, built
        return built

    def start(self, *options: str, **environment: str) -> subprocess.Popen[str]:
        """Start `patchstack build` in the background."""
        return subprocess.Popen(
            [sys.executable, "-m", "patchstack", "build", "--engine", self.engine, *options],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def commit(self, subject: str, changes: Mapping[str, Content]) -> None:
        """Add a commit to the fork, and export it."""
        self.fork.commits.append(self.fork.repo.commit(subject, changes))
        self.fork.export()


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The result of a run of `patchstack build`."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """The one document on stdout."""
        found: dict[str, Any] = json.loads(self.stdout)
        against_schema(found)
        return found

    @property
    def told(self) -> str:
        return self.stdout + self.stderr


def a_toy(directory: Path, engine: str, files: Mapping[str, Content] | None = None) -> Toy:
    """Return the project with a fork of two commits: a new header with a knob that asserts, and its use."""
    upstream, pin = an_upstream(directory, {**FILES, **(files or {})})
    run_git("clone", "-q", "--template=", "--no-checkout", upstream.path, directory / "fork", cwd=directory)
    fork = Fork(
        upstream=upstream,
        pin=pin,
        repo=RepoBuilder(directory / "fork"),
        ref="product",
        commits=[],
        series=directory / "patches",
    )
    fork.repo.branch("product", pin)
    fork.commits = [
        fork.repo.commit("Rows a block", {"rows.h": KNOB}),
        fork.repo.commit("Use the rows", {"main.c": MAIN.replace('"version.h"\n', '"version.h"\n#include "rows.h"\n')}),
    ]
    fork.patches = format_patch(fork.repo, pin, fork.ref, fork.series)
    text = WORKSPACE.format(image=IMAGE, patches=fork.series, upstream=fork.upstream.path, pin=fork.pin)
    (directory / "patchstack.yaml").write_text(text)
    return Toy(root=directory, fork=fork, engine=engine)


def variants_built(cache: Path) -> list[dict[str, str]]:
    """Return the variant of every stored build with its source, sorted by source."""
    records = [json.loads(path.read_text()) for path in cache.glob("builds/*/build.json")]
    return sorted((record["options"]["variant"] for record in records), key=lambda variant: str(variant["from"]))


def need_host_tools() -> None:
    """Skip if this machine lacks patchstack's build tools or a C compiler."""
    _need("c++", "cmake", "ninja", "cc")


def need_ccache(engine: str = "host") -> None:
    """Skip if builds on that engine have no ccache. The image of the tests has it."""
    if engine == "host":
        _need("ccache")


def _need(*tools: str) -> None:
    if missing := [tool for tool in tools if shutil.which(tool) is None]:
        pytest.skip(f"no {', '.join(missing)} here")


def path_without(directory: Path, *absent: str) -> str:
    """Return a PATH with all programs of this machine except some. `directory` is created."""
    directory.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        with contextlib.suppress(OSError):  # a directory that does not exist, or is not readable
            for program in os.listdir(place):
                if program not in absent and not os.path.lexists(directory / program):
                    (directory / program).symlink_to(Path(place, program))
    return str(directory)


def need_docker() -> None:
    """Skip if no Docker engine with the test image answers."""
    pytest.importorskip("docker", reason="no docker package")
    place = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if why := no_engine(place.removeprefix("unix://"), IMAGE):
        pytest.skip(why)


def docker_says(*arguments: str) -> list[str]:
    """Return the lines that the docker command prints."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> bool:
    """Return whether a condition came true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


def interrupt(child: subprocess.Popen[str]) -> None:
    """Send Ctrl-C."""
    child.send_signal(signal.SIGINT)
