"""Directories kept in memory and written again: repositories that many tests begin with are made by git once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTree:
    """All that was below directories of `root`: for each path, from `root`, its permissions and content; None for a
    directory. A directory comes before what is in it. Symbolic links are not kept. `verbatim`: no file is changed when
    it is written, even if it names the root."""

    root: Path
    verbatim: bool = False
    entries: tuple[tuple[str, int, bytes | None], ...]

    @classmethod
    def of(cls, root: Path, *names: str, verbatim: bool = False) -> KeptTree:
        """Read the directories of these names below `root`."""
        entries: list[tuple[str, int, bytes | None]] = []
        pending = list(names)
        while pending:
            name = pending.pop()
            path = root / name
            mode = path.lstat().st_mode & 0o7777
            assert not path.is_symlink(), path
            if path.is_dir():
                entries.append((name, mode, None))
                pending += [f"{name}/{one}" for one in os.listdir(path)]
            else:
                entries.append((name, mode, path.read_bytes()))
        return cls(root=root.absolute(), entries=tuple(entries), verbatim=verbatim)

    def write(self, root: Path) -> None:
        """Write it all below a different root, which takes the first one's place wherever git wrote that down."""
        os.makedirs(root, exist_ok=True)
        old, new = os.fsencode(self.root), os.fsencode(root.absolute())
        for name, mode, content in self.entries:
            path = f"{root}/{name}"
            if content is None:
                os.mkdir(path, mode)
                continue
            written = content if self.verbatim or "/objects/" in name else content.replace(old, new)
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            try:
                os.write(file, written)
            finally:
                os.close(file)
