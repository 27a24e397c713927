"""Small builders of real repositories, series and locks, that read like the case they set up."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pygit2
from pygit2.enums import FileMode

from tests.support.kept_tree import KeptTree
from tests.support.oracle import Oracle, hermetic_environment

FIRST_DATE = 1_750_000_000


@dataclass(frozen=True, slots=True)
class File:
    """The entry at a path, if it is not plain text."""

    content: str | bytes
    mode: int = 0o100644


Content = str | bytes | File | None
Changes = Mapping[str, Content]


def executable(content: str | bytes) -> File:
    return File(content, 0o100755)


def symlink(target: str) -> File:
    return File(target, 0o120000)


def run_git(*args: str | Path, cwd: Path, check: bool = True, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run real git, without configuration, as a fixed person on a fixed day."""
    return subprocess.run(
        ["git", *map(str, args)],
        cwd=cwd,
        check=check,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env=hermetic_environment(
            **{
                f"GIT_{role}_{key}": value
                for role in ("AUTHOR", "COMMITTER")
                for key, value in (
                    ("NAME", "A U Thor"),
                    ("EMAIL", "author@example.com"),
                    ("DATE", f"{FIRST_DATE} +0000"),
                )
            }
            | environment,
        ),
    )


_blank: dict[bool, KeptTree] = {}
"""What is in an empty repository as git makes it, bare or not."""


def _init(path: Path, *, bare: bool) -> None:
    """Make an empty repository, as `git init` does."""
    if bare not in _blank:
        run_git("init", "-q", "--template=", "--initial-branch=main", *["--bare"] * bare, path, cwd=path.parent)
        _blank[bare] = KeptTree.of(path, *os.listdir(path))
        return
    _blank[bare].write(path)


class RepoBuilder:
    """A repository that is built commit by commit, each on the current branch and a minute after the previous one.
    Nothing is checked out. For a repository that exists, `commits` is the number of commits a builder made in it."""

    def __init__(self, path: Path, *, bare: bool = False, commits: int = 0) -> None:
        self.path = path
        if not path.exists():
            _init(path, bare=bare)
        self.repo = pygit2.Repository(str(path))
        self.on = self.repo.head.shorthand if self.repo.raw_listall_references() else "main"
        self._clock = FIRST_DATE + 60 * commits

    def git(self, *args: str | Path) -> str:
        """Return the output of git in the repository, without the final newline."""
        return run_git(*args, cwd=self.path).stdout.decode().rstrip("\n")

    def commit(self, subject: str, changes: Changes, *, body: str = "") -> str:
        """Commit changes (path to content; None removes the path) to the current branch, and return the commit's id."""
        head = self.head()
        index = pygit2.Index()
        if head:
            index.read_tree(self.repo[head].peel(pygit2.Tree))
        for path, content in changes.items():
            self._change(index, path, content)
        return self._committed(
            subject + (f"\n\n{body}" if body else ""), index.write_tree(self.repo), [head] if head else []
        )

    def amend(self, subject: str, changes: Changes) -> str:
        """Replace the newest commit by one with these changes too."""
        head = self.head()
        self.branch(self.on, self.parent(head))
        return self.commit(subject, {**self._changed_by(head), **changes})

    def branch(self, name: str, at: str | None = None) -> None:
        """Continue on a new branch, from a commit or from the current one."""
        commit = at or self.head()
        self.repo.references.create(f"refs/heads/{name}", pygit2.Oid(hex=commit), force=True)
        self.on = name

    def merge(self, subject: str, other: str) -> str:
        """Merge a commit into the current branch, and return the merge's id."""
        head = self.head()
        index = self.repo.merge_commits(pygit2.Oid(hex=head), pygit2.Oid(hex=other))
        assert index.conflicts is None
        return self._committed(subject, index.write_tree(self.repo), [head, other])

    def head(self) -> str:
        """Return the id of the branch's newest commit; empty on a branch without one."""
        name = f"refs/heads/{self.on}"
        return str(self.repo.references[name].target) if name in self.repo.references else ""

    def tree(self, rev: str) -> str:
        return self._id(f"{rev}^{{tree}}")

    def parent(self, rev: str) -> str:
        return self._id(f"{rev}^1")

    def blob(self, rev: str, path: str) -> str:
        """Return the id of a file's content."""
        return self._id(f"{rev}:{path}")

    def _id(self, name: str) -> str:
        """Return the id that `git rev-parse` gives, without a process."""
        return str(self.repo.revparse_single(name).id)

    def diff(self, old: str, new: str, *options: str) -> bytes:
        """Return the bytes of `git diff` between two commits or trees."""
        return run_git("diff", *options, old, new, cwd=self.path).stdout

    def loose(self, oid: str) -> Path:
        """Return the path of a loose object."""
        return Path(self.repo.path) / "objects" / oid[:2] / oid[2:]

    def _change(self, index: pygit2.Index, path: str, content: Content) -> None:
        if content is None:
            index.remove(path)
            return
        file = content if isinstance(content, File) else File(content)
        data = file.content.encode() if isinstance(file.content, str) else file.content
        index.add(pygit2.IndexEntry(path, self.repo.create_blob(data), FileMode(file.mode)))

    def _changed_by(self, commit: str) -> dict[str, Content]:
        """Return the files of a commit that differ from its parent's."""
        changes: dict[str, Content] = {}
        for delta in self.repo.diff(f"{commit}^1", commit).deltas:
            if delta.status_char() == "D":
                changes[delta.old_file.path] = None
            else:
                blob = self.repo[delta.new_file.id].peel(pygit2.Blob)
                changes[delta.new_file.path] = File(blob.data, int(delta.new_file.mode))
        return changes

    def _committed(self, message: str, tree: pygit2.Oid, parents: Sequence[str]) -> str:
        self._clock += 60
        who = pygit2.Signature("A U Thor", "author@example.com", self._clock, 0)
        oid = self.repo.create_commit(
            None, who, who, message + "\n", tree, [pygit2.Oid(hex=parent) for parent in parents]
        )
        self.repo.references.create(f"refs/heads/{self.on}", oid, force=True)
        return str(oid)


def format_patch(repo: RepoBuilder, pin: str, ref: str, directory: Path) -> list[Path]:
    """Write the commits since the pin as patch files with real `git format-patch`, and return them in order."""
    directory.mkdir(parents=True, exist_ok=True)
    repo.git("format-patch", "-q", "-o", directory, f"{pin}..{ref}")
    return sorted(directory.glob("*.patch"))


def numbered(count: int, changed: Mapping[int, str] | None = None) -> str:
    """Return a text of numbered lines, some of them changed: no two places in it are equal."""
    return "".join(f"{(changed or {}).get(number, f'line {number}')}\n" for number in range(1, count + 1))


def edit(number: int) -> tuple[str, dict[int, str]]:
    """Return subject and changed line of the n-th commit of `a_fork`. The lines are far enough apart to apply in any
    order."""
    return f"Change {number} of a kernel", {10 * number: f"changed by commit {number}"}


@dataclass(slots=True)
class Fork:
    """An upstream, a fork of it on a branch, and the series that mirrors the branch."""

    upstream: RepoBuilder
    pin: str
    repo: RepoBuilder
    ref: str
    commits: list[str]
    series: Path
    patches: list[Path] = field(default_factory=list)

    @property
    def sources(self) -> list[str]:
        """The options that name series, upstream and pin."""
        return ["--patches", str(self.series), "--upstream", str(self.upstream.path), "--pin", self.pin]

    @property
    def options(self) -> list[str]:
        """The options that name series, upstream, pin and fork."""
        return [*self.sources, "--fork", str(self.repo.path), "--fork-ref", self.ref]

    @property
    def trees(self) -> list[str]:
        """The trees of the fork's commits, from git."""
        return [self.repo.tree(commit) for commit in self.commits]

    def patch(self, number: int) -> Path:
        """Return the patch of that number."""
        return next(path for path in self.patches if path.name.startswith(f"{number:04d}"))

    def export(self) -> None:
        """Write the series again from the fork."""
        for path in self.series.glob("*.patch"):
            path.unlink()
        self.patches = format_patch(self.repo, self.pin, self.ref, self.series)

    def edit_patch(self, number: int, old: str, new: str) -> Path:
        """Edit a patch by hand."""
        path = self.patch(number)
        text = path.read_text()
        assert old in text, text
        path.write_text(text.replace(old, new))
        return path


UPSTREAM_FILES: dict[str, Content] = {
    "src/kernel.cu": numbered(300),
    "src/other.cpp": numbered(40),
    "docs/notes.txt": "one\ntwo\nthree\n",
    "tools/run.sh": executable("#!/bin/sh\necho run\n"),
    "big/untouched.gguf": b"GGUF\0" + bytes(range(256)),
}


_upstreams: dict[tuple[tuple[str, Content], ...], tuple[KeptTree, str]] = {}
"""The upstreams that were made, by their files: what is below their directory, and the pin."""


def an_upstream(directory: Path, files: Changes | None = None) -> tuple[RepoBuilder, str]:
    """Make an upstream of two commits, and return it with the pin, its newest commit. One of the same files that was
    made before is written again."""
    key = tuple((UPSTREAM_FILES if files is None else files).items())
    path = directory / "upstream"
    free = not path.exists()
    if key in _upstreams and free:
        kept, pin = _upstreams[key]
        kept.write(path)
        return RepoBuilder(path, commits=2), pin
    upstream = RepoBuilder(path)
    upstream.commit("Begin", {"README": "upstream\n"})
    pin = upstream.commit("Add the kernel", dict(key))
    if free:
        _upstreams[key] = KeptTree.of(path, *os.listdir(path)), pin
    return upstream, pin


def a_fork(directory: Path, commits: int = 3, steps: Iterable[tuple[str, Changes]] | None = None) -> Fork:
    """Make upstream, pin, a fork of some commits in a separate clone, and its series. `steps` are its commits; by
    default each changes a line of src/kernel.cu, far from the others'."""
    fork = _begun_fork(directory, commits if steps is None else 0)
    if steps is not None:
        fork.commits = [fork.repo.commit(subject, changes) for subject, changes in steps]
        fork.export()
    return fork


_WORLD = ("upstream", "fork", "patches")
_forks: dict[int, tuple[KeptTree, str, tuple[str, ...]]] = {}
"""The forks that were made, by their number of commits: all files, the pin, and the commits."""


def _begun_fork(directory: Path, commits: int) -> Fork:
    """Return a fork of that many commits, which change one line each. git makes it once; later calls write the files
    again."""
    occupied = any((directory / name).exists() for name in _WORLD)
    # git quotes other characters of a path when it writes it to a file.
    plain = str(directory.absolute()).isprintable() and not set(str(directory)) & set("\"\\#;'")
    if commits in _forks and plain and not occupied:
        kept, pin, made = _forks[commits]
        kept.write(directory)
        upstream = RepoBuilder(directory / "upstream", commits=2)
        repo = RepoBuilder(directory / "fork", commits=commits)
        repo.on = "product"
        fork = Fork(upstream=upstream, pin=pin, repo=repo, ref="product", commits=[*made], series=directory / "patches")
        fork.patches = sorted(fork.series.glob("*.patch"))
        return fork
    upstream, pin = an_upstream(directory)
    run_git("clone", "-q", "--template=", "--no-checkout", upstream.path, directory / "fork", cwd=directory)
    repo = RepoBuilder(directory / "fork")
    repo.branch("product", pin)
    made = tuple(repo.commit(subject, changes) for subject, changes in kernel_steps(range(1, commits + 1)))
    fork = Fork(upstream=upstream, pin=pin, repo=repo, ref="product", commits=[*made], series=directory / "patches")
    fork.export()
    if plain and not occupied:
        _forks[commits] = KeptTree.of(directory, *_WORLD), pin, made
    return fork


def kernel_steps(numbers: Iterable[int], changed: Mapping[int, str] | None = None) -> list[tuple[str, Changes]]:
    """Return the commits `edit(n)` in the given order, on top of lines that are already changed."""
    lines = dict(changed or {})
    steps: list[tuple[str, Changes]] = []
    for number in numbers:
        subject, more = edit(number)
        lines.update(more)
        steps.append((subject, {"src/kernel.cu": numbered(300, lines)}))
    return steps


def edited(path: str, hunks: str) -> bytes:
    """Return a diff of one file, written by hand."""
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n{hunks}".encode()


def new_file(path: str, line: str = "x", mode: str = "100644", ids: str = "0000000..587be6b") -> bytes:
    """Return a diff that creates a file of one line."""
    head = f"diff --git a/{path} b/{path}\nnew file mode {mode}\nindex {ids}\n"
    return f"{head}--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{line}\n".encode()


def new_link(path: str, target: str) -> bytes:
    """Return a diff that creates a symbolic link."""
    return new_file(path, target, "120000") + b"\\ No newline at end of file\n"


def mail(subject: str, diff: bytes, commit: str = "0" * 40) -> bytes:
    """Return a diff as `git format-patch` would send it."""
    head = f"From {commit} Mon Sep 17 00:00:00 2001\nFrom: A U Thor <author@example.com>\n"
    return (
        f"{head}Date: Sun, 15 Jun 2025 15:06:40 +0000\nSubject: [PATCH] {subject}\n\n---\n".encode()
        + diff
        + b"-- \n2.39.5\n\n"
    )


def write_series(directory: Path, files: Mapping[str, bytes]) -> Path:
    """Write a directory of patch files, and return it."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return directory


def lock_of(fork: Fork) -> dict[str, Any]:
    """Return the lock that the fork's series should have, as a document to write or to spoil first."""
    head = fork.commits[-1]
    return {
        "schema": "patchstack.lock/1",
        "base": {"commit": fork.pin, "tree": fork.upstream.tree(fork.pin)},
        "fork": {"branch": fork.ref, "commit": head, "tree": fork.repo.tree(head)},
        "patches": [
            {
                "file": path.name,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                "commit": commit,
                "tree": fork.repo.tree(commit),
            }
            for path, commit in zip(fork.patches, fork.commits, strict=True)
        ],
    }


def write_lock(directory: Path, document: object) -> Path:
    """Write a series.lock."""
    from ruamel.yaml import YAML

    path = directory / "series.lock"
    with path.open("w", encoding="utf-8") as out:
        YAML().dump(document, out)
    return path


def the_oracle(directory: Path, *repositories: RepoBuilder) -> Oracle:
    """Return git as the judge of patches on these repositories. It writes below the directory, so create it before
    taking a snapshot of that."""
    directory.mkdir(parents=True, exist_ok=True)
    return Oracle(directory, *(Path(repository.repo.path) / "objects" for repository in repositories))


@contextlib.contextmanager
def closed(*paths: Path) -> Iterator[None]:
    """Remove all permissions from paths during a block. Restores them, because pytest cannot remove such a
    directory."""
    before = [path.stat().st_mode & 0o7777 for path in paths]
    for path in paths:
        path.chmod(0)
    try:
        yield
    finally:
        for path, mode in reversed(list(zip(paths, before, strict=True))):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                path.chmod(mode)


def snapshot(*roots: Path) -> dict[str, tuple[object, ...]]:
    """Return every path below: kind, time of change and, for files, size and a digest of the content. The content of
    unreadable files is omitted."""
    found: dict[str, tuple[object, ...]] = {}
    pending = [str(root) for root in roots if root.exists()]
    while pending:
        directory = pending.pop()
        found[directory] = ("directory", os.lstat(directory).st_mtime_ns)
        for entry in _entries(directory):
            status = entry.stat(follow_symlinks=False)
            if entry.is_symlink():
                found[entry.path] = ("link", status.st_mtime_ns, os.readlink(entry.path))
            elif entry.is_dir():
                pending.append(entry.path)
            elif entry.is_file():
                found[entry.path] = ("file", status.st_mtime_ns, status.st_size, _digest(entry.path, status.st_size))
            else:
                found[entry.path] = ("other", status.st_mtime_ns)
    return found


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except PermissionError:
        return []


def _digest(path: str, size: int) -> bytes:
    # Each command in this process is between two snapshots of a few hundred small files.
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except PermissionError:
        return b"not for us"
    try:
        digest = hashlib.sha256(os.read(file, size + 1))
        while block := os.read(file, 1 << 20):
            digest.update(block)
    finally:
        os.close(file)
    return digest.digest()
