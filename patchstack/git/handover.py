"""Hand a patch to git itself, in a temporary repository that has the real objects as alternates."""

from __future__ import annotations

import shutil
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from patchstack.errors import MissingError
from patchstack.git.objects import Objects
from patchstack.process import Finished, clean_environment, run


@dataclass(frozen=True, slots=True, kw_only=True)
class GitVerdict:
    """The tree `git apply --cached` gave, or None and what git said."""

    tree: str | None
    complaint: str


class GitApply:
    """A temporary bare repository in which git applies patches to an index. Nothing is written anywhere else."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.directory = Path(tempfile.mkdtemp(prefix="patchstack-"))
        self._written: set[str] = set()
        for name in ("objects/info", "refs/heads"):
            (self.directory / name).mkdir(parents=True)
        (self.directory / "HEAD").write_text("ref: refs/heads/none\n")
        (self.directory / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        alternates = "".join(f"{_quoted(path)}\n" for path in objects.directories)
        (self.directory / "objects" / "info" / "alternates").write_text(alternates)
        objects.add_directory(self.directory / "objects", "what git made")

    def close(self) -> None:
        """Remove the repository. Trees that git made in it can no longer be read."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def apply(self, tree: str, data: bytes) -> GitVerdict:
        """Apply a patch file to a tree, all or nothing."""
        self._flush()
        self._git("read-tree", tree, check=True)
        applied = self._git(
            *("-c", "apply.whitespace=nowarn", "-c", "core.protectNTFS=true", "-c", "core.protectHFS=true"),
            *("apply", "--cached", "-"),
            stdin=data,
        )
        if applied.code < 0:
            # Some damaged patches make git abort, and then its lock stays behind.
            (self.directory / "index.lock").unlink(missing_ok=True)
            return GitVerdict(tree=None, complaint=f"corrupt patch: git apply aborted on it (signal {-applied.code})")
        if not applied.ok:
            return GitVerdict(tree=None, complaint=applied.complaint)
        written = self._git("write-tree", "--missing-ok", check=True)
        return GitVerdict(tree=written.stdout.decode("ascii").strip(), complaint=applied.complaint)

    def _git(self, *args: str, stdin: bytes = b"", check: bool = False) -> Finished:
        environment = clean_environment(
            {
                "GIT_DIR": str(self.directory),
                "GIT_INDEX_FILE": str(self.directory / "index"),
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_CONFIG_SYSTEM": "/dev/null",
                "GIT_CONFIG_GLOBAL": "/dev/null",
                "GIT_ATTR_NOSYSTEM": "1",
                "GIT_NO_LAZY_FETCH": "1",
                "GIT_ALLOW_PROTOCOL": "none",
            }
        )
        done = run(
            ["git", "-c", "core.attributesFile=/dev/null", *args], cwd=self.directory, env=environment, stdin=stdin
        )
        if check and not done.ok:
            raise MissingError(
                f"git {args[0]} failed in a temporary repository: {done.complaint}",
                hint="the clone lacks trees, the disk is full, or git is too old (2.32 is needed)",
            )
        return done

    def _flush(self) -> None:
        """Write the objects made in memory since the last call where git can read them."""
        for oid, (kind, content) in self.objects.made():
            if oid not in self._written:
                path = self.directory / "objects" / oid[:2] / oid[2:]
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(zlib.compress(b"%s %d\0" % (kind.encode(), len(content)) + content, 1))
                self._written.add(oid)


def _quoted(path: Path) -> str:
    """A path as a line of `objects/info/alternates`: C-quoted where git would misread it."""
    text = str(path)
    if text.startswith(('"', "#")) or "\n" in text or ":" in text:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return text
