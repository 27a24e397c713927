"""git itself as the judge: the exact command with which our apply is compared, in a separate repository."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.kept_tree import KeptTree

STRICT = ("-c", "apply.whitespace=nowarn", "-c", "core.protectNTFS=true", "-c", "core.protectHFS=true")


def hermetic_environment(**extra: str) -> dict[str, str]:
    """Return an environment in which git reads no configuration and no attributes but the repository's."""
    return {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C",
        "HOME": "/nonexistent",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        **extra,
    }


def objects_of(repository: Path) -> Path:
    """Return the object directory of a repository, bare or with a work tree."""
    return next(path for path in (repository / "objects", repository / ".git" / "objects") if path.is_dir())


_blank: list[KeptTree] = []
"""What is in an empty bare repository, once git has made one."""


class Oracle:
    """Applies patch files with `git apply --cached` and returns the tree."""

    def __init__(self, directory: Path, *alternates: Path) -> None:
        self.git_dir = directory / "oracle.git"
        self.patch = directory / "oracle.patch"
        self._index = directory / "oracle.index"
        if _blank:
            _blank[0].write(self.git_dir)
        else:
            command = ["git", "init", "-q", "--template=", "--bare", str(self.git_dir)]
            subprocess.run(command, check=True, env=hermetic_environment())
            _blank.append(KeptTree.of(self.git_dir, *os.listdir(self.git_dir)))
        text = "".join(f"{path}\n" for path in alternates)
        (self.git_dir / "objects" / "info" / "alternates").write_text(text)

    def git(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        environment = hermetic_environment(GIT_DIR=str(self.git_dir), GIT_INDEX_FILE=str(self._index))
        return subprocess.run(
            ["git", *args], check=check, env=environment, stdin=subprocess.DEVNULL, capture_output=True
        )

    def apply(self, tree: str, data: bytes) -> str | None:
        """Return the tree after a patch file, or None if git refuses it."""
        self.patch.write_bytes(data)
        # A patch can make git abort and leave its lock file.
        self._index.with_suffix(".index.lock").unlink(missing_ok=True)
        read = self.git("read-tree", tree, check=False)
        assert read.returncode == 0, read.stderr
        if self.git(*STRICT, "apply", "--cached", str(self.patch), check=False).returncode != 0:
            return None
        return self.git("write-tree", "--missing-ok").stdout.decode().strip()
