"""A product that carries a series, with its fork and upstream, on a machine that runs the GitHub Action."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.runner.jobs import Ran, Runner
from tests.support.builders import Changes, Fork, a_fork, lock_of, run_git, write_lock
from tests.support.checkout import ROOT

WORKSPACE = "back end/patchstack.yaml"


def the_installer() -> ModuleType:
    """ci/install.py, as a module."""
    spec = importlib.util.spec_from_file_location("patchstack_ci_install", ROOT / "ci" / "install.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(slots=True)
class Product:
    """The product's repository. `base` is the commit that pull requests are merged into; the paths have blanks."""

    root: Path
    fork: Fork
    base: str
    runner: Runner

    @property
    def patches(self) -> Path:
        return self.root / "back end" / "patches" / "product"

    def patch(self, number: int) -> Path:
        """Return the patch of that number."""
        return next(self.patches.glob(f"{number:04d}-*"))

    def configure(self, **changes: str | None) -> None:
        """Write the workspace, with some of its values changed (None removes a value)."""
        values: dict[str, str | None] = {
            "patches": "patches/product",
            "upstream": str(self.fork.upstream.path),
            "pin": self.fork.pin,
            "fork": str(self.fork.repo.path),
            "fork_ref": self.fork.ref,
            **changes,
        }
        lines = [f"    {name}: '{value}'\n" for name, value in values.items() if value is not None]
        (self.root / WORKSPACE).write_text("series:\n  product:\n" + "".join(lines))

    def lock(self) -> None:
        """Write the lock for the current patches, as export would."""
        document = lock_of(self.fork)
        write_lock(self.patches, document)

    def commit(self, subject: str) -> str:
        """Commit the current state of the product."""
        run_git("add", "--all", cwd=self.root)
        run_git("commit", "-q", "--allow-empty", "-m", subject, cwd=self.root)
        return run_git("rev-parse", "HEAD", cwd=self.root).stdout.decode().strip()

    def pull_request(self, *, keeps_event: bool = True) -> None:
        """Turn the current directory into a pull request merged into the base, as GitHub checks it out."""
        run_git("switch", "-q", "-c", "proposal", cwd=self.root)
        self.commit("What is proposed")
        run_git("switch", "-q", "--detach", self.base, cwd=self.root)
        run_git("merge", "-q", "--no-ff", "-m", "Merge", "proposal", cwd=self.root)
        self.runner.event_name = "pull_request"
        self.runner.ref = "refs/pull/7/merge"
        base = {"sha": self.base} if keeps_event else {"sha": "0" * 40}
        head = {"repo": {"full_name": "somebody/product"}}
        self.runner.event["pull_request"] = {"number": 7, "base": base, "head": head}

    def act(self, **inputs: Any) -> Ran:
        """Run the action."""
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        return self.runner.act(ROOT, {"workspace": WORKSPACE, **given})


def a_product(directory: Path, steps: Iterable[tuple[str, Changes]] | None = None) -> Product:
    """Return a valid product of three patches (or of those steps) on its default branch."""
    fork = a_fork(directory, steps=steps)
    root = directory / "a product"
    (root / "back end" / "patches").mkdir(parents=True)
    run_git("init", "-q", "--template=", "--initial-branch=main", root, cwd=directory)
    shutil.copytree(fork.series, root / "back end" / "patches" / "product")
    product = Product(root=root, fork=fork, base="", runner=a_runner(directory / "the runner", root))
    product.configure()
    product.lock()
    (root / ".gitignore").write_text("/.patchstack\n")
    product.base = product.commit("The product")
    return product


def a_runner(directory: Path, workspace: Path) -> Runner:
    """Return a runner on which patchstack's environment already exists: this one."""
    programs = directory / "programs"
    programs.mkdir(parents=True)
    write_program(programs / "python3", f'exec "{sys.executable}" "$@"')
    runner = Runner(directory=directory, workspace=workspace, checkout=ROOT, programs=programs)
    installer = the_installer()
    for lock in ("core.txt", "all.txt"):
        place = installer.directory_for(ROOT / "ci" / "requirements" / lock, directory / "temp")
        (place / "bin").mkdir(parents=True)
        write_program(place / "bin" / "python", f'exec "{sys.executable}" "$@"')
        (place / ".ready").touch()
    return runner


def write_program(path: Path, script: str) -> None:
    """Write a shell program."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
