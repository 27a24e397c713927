"""A fork and an upstream that has moved on, for tests of sync."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import Patchstack
from tests.support.builders import Changes, Fork, a_fork, edit, numbered, run_git
from tests.support.kept_tree import KeptTree


@dataclass(slots=True)
class Moved:
    """A fork of some commits, exported, and an upstream that has moved on; `work` is the directory of the sync."""

    root: Path
    fork: Fork

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def settings(self) -> Path:
        return self.root / "patchstack.yaml"

    def upstream(self, subject: str, changes: Changes) -> str:
        """Add a commit to upstream, and return its id."""
        return self.fork.upstream.commit(subject, changes)

    def git(self, *args: str) -> str:
        """Return the output of git in the sync's repository."""
        return run_git(*args, cwd=self.work).stdout.decode().strip()

    def lines(self) -> list[str]:
        """Return the subjects on the sync's branch after the newest upstream commit, oldest first."""
        return self.git("log", "--reverse", "--format=%s", f"{self.fork.upstream.head()}..HEAD").splitlines()

    def files(self) -> dict[str, bytes]:
        """Return the series: patches and lock."""
        return {path.name: path.read_bytes() for path in sorted(self.fork.series.iterdir())}

    def resolve(self, path: str, text: str) -> None:
        """Resolve a conflict as a person would: edit and add."""
        (self.work / path).write_text(text)
        run_git("add", path, cwd=self.work)


def moved(
    root: Path,
    patchstack: Patchstack,
    commits: int = 3,
    steps: Iterable[tuple[str, Changes]] | None = None,
    extra: str = "",
) -> Moved:
    """Make an exported fork in a workspace, with an upstream that has not moved yet."""
    ours = steps is None and not any(root.iterdir())
    fork = a_fork(root, commits, steps)
    found = Moved(root=root, fork=fork)
    if ours and (kept := _exported.get((commits, extra))) is not None:
        shutil.rmtree(fork.series)
        kept.write(root)
    else:
        for path in fork.patches:
            path.unlink()
        found.settings.write_text(settings_of(fork.pin, fork.ref) + extra)
        assert patchstack("export") == 0
        if ours:
            _exported[commits, extra] = KeptTree.of(root, "patches", "patchstack.yaml")
    fork.patches = sorted(fork.series.glob("*.patch"))
    return found


_exported: dict[tuple[int, str], KeptTree] = {}
"""The series and the workspace that `export` gave, by the number of commits and the rest of the workspace file."""


def settings_of(pin: str, ref: str) -> str:
    """Return the workspace file."""
    return (
        "# ours\nseries:\n  product:   # the one\n    patches: patches\n    upstream: upstream\n"
        f"    pin: {pin}  # June\n    fork: fork\n    fork_ref: {ref}\n"
    )


def kernel(*changed: Mapping[int, str]) -> str:
    """Return src/kernel.cu with some of its lines changed."""
    lines: dict[int, str] = {}
    for one in changed:
        lines.update(one)
    return numbered(300, lines)


def of(*numbers: int) -> dict[int, str]:
    """Return the lines that those commits of the fork change."""
    return {line: text for number in numbers for line, text in edit(number)[1].items()}


def fates(document: Mapping[str, Any]) -> list[str]:
    """Return the result of each patch: its change if it is on the branch, else its fate."""
    return [patch["change"] or patch["fate"] for patch in document["patches"]]
