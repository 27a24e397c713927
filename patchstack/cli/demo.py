"""`patchstack demo`: show a fork and its series, from verify to accept, with the real output of every command."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from patchstack.causes import DemoFailed
from patchstack.errors import Exit

_DOES_NOT_HOLD, _MISSING, _INVALID = int(Exit.DOES_NOT_HOLD), int(Exit.MISSING), int(Exit.INVALID)


def demo_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty directory.")] = Path(
        "patchstack-demo"
    ),
    build: Annotated[
        bool, typer.Option("--build/--no-build", help="Also build, gate and accept, if compilers are installed.")
    ] = True,
) -> None:
    """Create a small upstream, a fork and its series, and run patchstack's commands on them.

    The demo verifies, breaks, builds and gates the series, and accepts and rejects commits.
    """
    from patchstack.demo.build import build_demo
    from patchstack.installed import typed_as

    demo = build_demo(directory)
    print(f"{demo.root}: an upstream (minillm, pinned at {demo.pin[:12]}), a fork of it, and the fork's series\n")
    tour = Tour(demo.root)
    tour.verify()
    key = None
    if build:
        engine = tour.build()
        if engine is None:
            print("Skipped without a build: gates, accept and reject. patchstack doctor shows what is missing.\n")
        else:
            key = tour.gate(engine)
            tour.accept(engine)
    if tour.wrong:
        raise DemoFailed("the demo failed", problems=tour.wrong)
    typed = typed_as()
    there = f"cd {shlex.quote(str(demo.root.absolute()))}"
    print(f"Look around: {there}; git -C fork log --oneline; {typed} verify --json")
    if key is not None:
        print(f"Go on: {there}; {typed} gate run --build {key}; {typed} ledger keys; {typed} --help")


class Tour:
    """Run the commands of the demo in its directory, and show each command with its output.

    `wrong` lists the commands with an unexpected result.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.wrong: list[str] = []
        self._started = False

    def verify(self) -> None:
        """Show that the series holds, and that three broken copies of the series do not."""
        from patchstack.demo.build import DROPPED, EDITED, MOVED

        self._patchstack("verify", "paged")
        for broken in (EDITED, DROPPED, MOVED):
            print(f"Now {broken.what}:\n")
            self._patchstack("verify", broken.name, "--workspace", "broken/patchstack.yaml", codes=(_DOES_NOT_HOLD,))

    def build(self) -> str | None:
        """Build the series on this host, or in a container if something for a build on the host is missing.

        Return the engine that was used, or None if no engine can build.
        """
        for engine in ("host", "docker"):
            code = self._patchstack("build", "paged", "--engine", engine, codes=(0, _MISSING))
            if code == 0:
                return engine
            if code == _MISSING:
                print(f"Skipped: a build on {engine}. The error above names what is missing.\n")
        return None

    def gate(self, engine: str) -> str:
        """Record the first references of the build, and run its suite. Return the key of the build."""
        key = self._key(engine)
        print("A suite in patchstack.yaml defines what a build must still do. This build gives the first references:\n")
        self._patchstack("gate", "record", "greedy", "--build", key, "--why", "the fork as it was exported")
        self._patchstack("gate", "run", "--build", key)
        return key

    def accept(self, engine: str) -> None:
        """Accept a good commit, reject one that changes the model's output, and try one that cannot be judged."""
        from patchstack.demo.build import CHANGED, GOOD, LOST

        print(
            "The fork has a commit that the series lacks. It is accepted if everything that held before still holds:\n"
        )
        self._patchstack("accept", GOOD, "--engine", engine, "--why", "Half as many look-ups, and the same text")
        self._git("merge", "--quiet", "--ff-only", GOOD)
        self._patchstack("verify", "paged")
        print("The next commit changes a token of the model's output:\n")
        self._patchstack("accept", CHANGED, "--engine", engine, codes=(_DOES_NOT_HOLD,))
        why = "Another text: a quarter is too coarse for keys"
        self._patchstack("reject", CHANGED, "--why", why, "--tag", "kv")
        print("The last commit loses output. It cannot be judged, so it is neither accepted nor rejected:\n")
        self._patchstack("accept", LOST, "--engine", engine, codes=(_INVALID,))
        self._patchstack("ledger")

    def _key(self, engine: str) -> str:
        """Return the short key of the build that was just created."""
        from patchstack.cli.failures import guarded
        from patchstack.cli.main import app

        said = io.StringIO()
        with contextlib.chdir(self.root), contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
            guarded(lambda: app(["build", "paged", "--engine", engine, "--json"]))
        return str(json.loads(said.getvalue())["key"])[:12]

    def _patchstack(self, *args: str, codes: tuple[int, ...] = (0,)) -> int:
        """Run a patchstack command in the directory of the demo, and return its exit code."""
        from patchstack.cli.failures import guarded
        from patchstack.cli.main import app

        typed = self._type("patchstack", *args)
        with contextlib.chdir(self.root):
            code = guarded(lambda: app(list(args)))
        print(flush=True)
        if code == Exit.INTERRUPTED:
            raise KeyboardInterrupt
        if code not in codes:
            self.wrong.append(f"{typed}: exit code {code}, not {' or '.join(map(str, codes))}")
        return code

    def _git(self, *args: str) -> None:
        from patchstack.git import run as git

        typed = self._type("git", "-C", "fork", *args)
        done = git.write(self.root / "fork", *args)
        print(os.fsdecode(done.stdout + done.stderr))
        if not done.ok:
            self.wrong.append(f"{typed}: exit code {done.code}, not 0")

    def _type(self, *words: str) -> str:
        """Show a command as a user would type it, and return this text."""
        if not self._started:
            print(f"$ cd {shlex.quote(str(self.root))}")
        self._started = True
        typed = shlex.join(words)
        print(f"$ {typed}", flush=True)
        return typed
