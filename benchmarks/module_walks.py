"""Count the modules that a command passes through, and how often control turns back: `python -m
benchmarks.module_walks`.

Five commands run on the demo, on this machine's own engine, under a profile hook that sees every call of a function of
patchstack. For each command:

- *modules*: the modules in which at least one function was called;
- *arrows*: the distinct pairs of modules of which one calls the other;
- *turns back*: the arrows to a module that is already waiting further up the stack (a calls b, and b calls a). Each
  pair counts once, however often it happens: the figures do not depend on the number of patches.

With `--other PYTHON`, the Python of another checkout's environment, the same is counted there, side by side.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

_TRACED = r"""
import json, os, sys, threading
import patchstack
root = os.path.dirname(patchstack.__file__) + os.sep
names, modules, arrows, turns = {}, set(), set(), set()
stacks = threading.local()

def module_of(code):
    found = names.get(code)
    if found is None:
        path = code.co_filename
        inside = path.startswith(root) and code.co_name != "<module>"
        found = names[code] = path[len(root):-3] if inside else ""
    return found

def hook(frame, event, _):
    if event not in ("call", "return"):
        return
    name = module_of(frame.f_code)
    if not name:
        return
    stack = stacks.__dict__.setdefault("stack", [])
    if event == "return":
        if stack:
            stack.pop()
        return
    modules.add(name)
    if stack and stack[-1] != name:
        arrows.add((stack[-1], name))
        if name in stack:
            turns.add((stack[-1], name))
    stack.append(name)

from patchstack.cli.main import main
sys.argv, report = ["patchstack", *json.loads(sys.argv[1])], sys.argv[2]
threading.setprofile(hook)
sys.setprofile(hook)
code = 0
try:
    main()
except SystemExit as end:
    code = end.code
finally:
    sys.setprofile(None)
    threading.setprofile(None)
    with open(report, "w") as file:
        json.dump({"modules": sorted(modules), "arrows": sorted(arrows), "turns": sorted(turns)}, file)
sys.exit(code)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The modules that a command passed through. `turns` are the arrows that lead back to a waiting module."""

    modules: frozenset[str]
    arrows: frozenset[tuple[str, str]]
    turns: frozenset[tuple[str, str]]


WALKS = {
    "verify (patch directory)": (
        *("verify", "--patches", "patches/paged", "--upstream", "upstream", "--pin", "{pin}"),
        *("--fork", "fork", "--fork-ref", "paged"),
    ),
    "build (variant)": ("build", "paged", "--variant", "cpu", "--engine", "host"),
    "gate run (suite)": ("gate", "run", "--suite", "quick", "--build", "{key}"),
    "accept (ref)": ("accept", "{good}", "--series", "paged", "--why", "a walk", "--engine", "host"),
    "canary (to)": ("canary", "paged", "--to", "{next}"),
}
"""The commands in the order of their runs, because each needs the results of earlier ones."""


class World:
    """The demo, and a separate cache, for one checkout's Python."""

    def __init__(self, python: Path, directory: Path) -> None:
        self.python = python
        self.root = directory / "demo"
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.environment = {**kept, "HOME": str(directory), "XDG_CACHE_HOME": str(directory / "cache")}
        self.words: dict[str, str] = {}
        self._patchstack("demo", "--no-build", str(self.root), cwd=directory)
        config = (self.root / "patchstack.yaml").read_text(encoding="utf-8")
        self.words["pin"] = next(line.split()[1] for line in config.splitlines() if line.strip().startswith("pin:"))
        self.words["good"] = self._value("patchstack.demo.build", "GOOD")
        self.words["next"] = self._git("upstream", "rev-parse", "HEAD")

    def walk(self, words: tuple[str, ...], directory: Path) -> Walk:
        """Run a command of `WALKS` and return its walk. Raises `SystemExit` if the command fails.

        Exit code 1 is an answer: the demo's series does not apply to the newer upstream.
        """
        report = directory / "walk.json"
        args = [word.format(**self.words) for word in words]
        self._run(["-c", _TRACED, json.dumps(args), str(report)], self.root, codes=(0, 1))
        found = json.loads(report.read_text(encoding="utf-8"))
        arrows, turns = (frozenset((one, other) for one, other in found[name]) for name in ("arrows", "turns"))
        return Walk(modules=frozenset(found["modules"]), arrows=arrows, turns=turns)

    def record_references(self) -> None:
        """Record what the gates need to pass: the build's key, and its first references."""
        listed = self._patchstack("build", "paged", "--engine", "host", "--json", cwd=self.root)
        self.words["key"] = json.loads(listed)["key"]
        self._patchstack("gate", "record", "greedy", "--build", self.words["key"], "--why", "a walk", cwd=self.root)

    def _value(self, module: str, name: str) -> str:
        return self._run(["-c", f"from {module} import {name}; print({name})"], self.root).strip()

    def _git(self, repository: str, *args: str) -> str:
        done = subprocess.run(["git", "-C", repository, *args], cwd=self.root, check=True, capture_output=True)
        return done.stdout.decode().strip()

    def _patchstack(self, *args: str, cwd: Path) -> str:
        return self._run(["-m", "patchstack", *args], cwd)

    def _run(self, args: list[str], cwd: Path, codes: tuple[int, ...] = (0,)) -> str:
        command = [str(self.python), *args]
        done = subprocess.run(command, cwd=cwd, env=self.environment, capture_output=True, check=False)
        if done.returncode not in codes:
            sys.exit(f"patchstack {' '.join(args[1:])[-200:]} exited with {done.returncode}:\n{done.stderr.decode()}")
        return done.stdout.decode()


def walks(python: Path) -> dict[str, Walk]:
    """Return every walk of `WALKS`, with the patchstack of one environment."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="patchstack-walks-") as place:
        world = World(python, Path(place))
        for name, words in WALKS.items():
            if "{key}" in words:
                world.record_references()
            found[name] = world.walk(words, Path(place))
    return found


def main() -> None:
    """Print a table; with `--json FILE` also write all modules and arrows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=Path, metavar="PYTHON", help="the Python of another checkout's environment")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write modules, arrows and turns there")
    options = parser.parse_args()
    sides = {"here": walks(Path(sys.executable))}
    if options.other is not None:
        sides = {"other": walks(options.other), **sides}
    print(f"{'':<26}" + "".join(f"{side + ': modules':>18}{'arrows':>8}{'turns back':>12}" for side in sides))
    for name in WALKS:
        cells = [(len(s[name].modules), len(s[name].arrows), len(s[name].turns)) for s in sides.values()]
        print(f"{name:<26}" + "".join(f"{modules:>18}{arrows:>8}{turns:>12}" for modules, arrows, turns in cells))
    if options.json is not None:
        document = {
            side: {
                name: {"modules": sorted(w.modules), "arrows": sorted(w.arrows), "turns": sorted(w.turns)}
                for name, w in found.items()
            }
            for side, found in sides.items()
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
