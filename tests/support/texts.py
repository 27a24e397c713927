"""Make repositories of many small texts at once, to ask git about each."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.support.builders import run_git
from tests.support.oracle import hermetic_environment


def repository_of_texts(directory: Path, texts: Iterable[tuple[str, bytes, str | None]]) -> Path:
    """Return a bare repository with a branch for each text, its file `f`: name, text, parent branch."""
    stream = b""
    for name, text, parent in texts:
        stream += b"commit refs/heads/%s\ncommitter A <a@example.com> 0 +0000\ndata 0\n" % name.encode()
        stream += b"from refs/heads/%s\n" % parent.encode() if parent else b""
        stream += b"M 100644 inline f\ndata %d\n%s\n" % (len(text), text)
    repository = directory / "texts.git"
    run_git("init", "-q", "--bare", repository, cwd=directory)
    command = ["git", "fast-import", "--quiet"]
    subprocess.run(command, cwd=repository, input=stream, env=hermetic_environment(), check=True)
    return repository


def merged_by_git(directory: Path, cases: list[tuple[bytes, bytes, bytes]]) -> list[tuple[bool, bytes]]:
    """Return whether git merges base, ours and theirs, and the text it gives. The sides have name and number."""
    texts: list[tuple[str, bytes, str | None]] = []
    for number, (base, ours, theirs) in enumerate(cases):
        texts.append((f"base{number}", base, None))
        texts += [(f"ours{number}", ours, f"base{number}"), (f"theirs{number}", theirs, f"base{number}")]
    repository = repository_of_texts(directory, texts)
    found = []
    for number in range(len(cases)):
        asked = run_git("merge-tree", "--write-tree", f"ours{number}", f"theirs{number}", cwd=repository, check=False)
        tree = asked.stdout.split(b"\n")[0].decode()
        found.append((asked.returncode == 0, run_git("cat-file", "blob", f"{tree}:f", cwd=repository).stdout))
    return found
