"""Write commits as patch files.

The bytes are the same on every machine and under every git configuration. git writes the files in a temporary
repository that borrows the objects and has no configuration. If the default of an option may change between git
versions, the option is given on the command line.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from patchstack.causes import GitStillAtWork
from patchstack.git import run as git
from patchstack.git.objects import Commit, Repository
from patchstack.git.scratch import bare_repository

_OPTIONS = (
    *(
        "--quiet",
        "--zero-commit",
        "--no-signature",
        "--patch",
        "--stat=72",
        "--summary",
        "--full-index",
        "--binary",
        "--no-ext-diff",
    ),
    *("--no-textconv", "--no-attach", "--no-thread", "--keep-subject"),
    *("--no-cover-letter", "--no-notes", "--no-base", "--no-signoff", "--no-to", "--no-cc", "--no-from"),
    *("--encode-email-headers", "--find-renames=50%", "-l0", "--src-prefix=a/", "--dst-prefix=b/", "--no-relative"),
    *("--diff-algorithm=myers", "--indent-heuristic", "--inter-hunk-context=0", "--submodule=short", "--no-color"),
    *("--ignore-submodules=none", "--filename-max-length=64", "--start-number=1", "--suffix=.patch", "-O/dev/null"),
)
_CONFIG = (
    *("-c", "diff.suppressBlankEmpty=false", "-c", "core.attributesFile=/dev/null", "-c", "core.quotePath=true"),
    *("-c", "diff.ignoreSubmodules=none", "-c", "i18n.logOutputEncoding=UTF-8", "-c", "core.abbrev=40"),
)
_DIFF_OPTIONS = (
    *("--full-index", "--binary", "--no-ext-diff", "--no-textconv", "--find-renames", "-l0", "--src-", "--dst-", "-O"),
    *("--no-relative", "--diff-algorithm", "--indent-", "--inter-hunk-", "--submodule", "--no-color", "--ignore-sub"),
)
_HEAD = re.compile(rb"From [0-9a-f]{40} ")
_FUNCTION = re.compile(rb"^(@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@).*$", re.MULTILINE)
_SLUG = re.compile(r"\d+-(.*)\.patch\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class FormattedCommit:
    """A commit as a patch file.

    `slug` is git's file name for the commit, without the number and the suffix. `patch_id` is git's stable patch-id. It
    is empty for pure mode changes, because git computes none for them.
    """

    commit: Commit
    slug: str
    data: bytes
    patch_id: str


class Formatting:
    """Commits that git is formatting as patch files.

    A long series is split into parts that are formatted in parallel, because one git process uses only one core.
    `known` maps commit ids to patches that need not be written again. `jobs` maps the position of each part's first
    commit to the part.
    """

    def __init__(
        self,
        commits: Sequence[Commit],
        known: Mapping[str, FormattedCommit],
        jobs: Mapping[int, Future[list[FormattedCommit]]],
    ) -> None:
        self._commits = commits
        self._known = known
        self._jobs = jobs

    def written(self) -> Iterator[FormattedCommit]:
        """Yield the patch files in order, each as soon as it is written.

        Raises `MissingError` if git cannot read an object.
        """
        part: Iterator[FormattedCommit] = iter(())
        for place, commit in enumerate(self._commits):
            if place in self._jobs:
                part = iter(self._jobs[place].result())
            yield self._known.get(commit.oid) or next(part)


@contextlib.contextmanager
def formatting(
    repository: Repository,
    object_directories: Sequence[Path],
    base: str,
    commits: Sequence[Commit],
    *,
    context: int = 3,
    anchored: bool = False,
    known: Mapping[str, FormattedCommit] | None = None,
) -> Iterator[Formatting]:
    """Format a chain of commits as patch files while the `with` block runs.

    `base` is the parent of the first commit. Patches have `context` lines around each change. `anchored` removes the
    context and the function names in hunk headers, so that a patch contains no unchanged text. `known` maps commit ids
    to patches that need not be written again. Merges and empty commits have no patch, so the caller must refuse them
    first.
    """
    known = known or {}
    options = _form(context=context, anchored=anchored)
    with contextlib.ExitStack() as held:
        jobs = {}
        if any(commit.oid not in known for commit in commits):
            root = held.enter_context(bare_repository(object_directories, repository.git_dir / "shallow"))
            pool = held.enter_context(ThreadPoolExecutor(os.cpu_count() or 1))
            for first, end in _parts([commit.oid not in known for commit in commits]):
                before = commits[first - 1].oid if first else base
                jobs[first] = pool.submit(_write, root, before, commits[first:end], options, anchored=anchored)
        yield Formatting(commits, known, jobs)


def diff_trees(root: Path, old: str, new: str) -> bytes:
    """Return the diff of two trees in the form that `formatting` writes.

    `root` is one of our repositories, and contains both trees.
    """
    chosen = [option for option in _OPTIONS if option.startswith(_DIFF_OPTIONS)]
    return _git(root, "diff-tree", "-r", "--patch", *chosen, "--unified=3", old, new, config=_CONFIG)


def format_digest(*, context: int, anchored: bool) -> str:
    """Return a digest of git's version and the format options.

    The version, the options and the commit determine the bytes of a patch file.
    """
    version = _git(Path(os.devnull), "version").decode("utf-8", "replace")
    told = "\n".join((version, *_CONFIG, *_OPTIONS, *_form(context=context, anchored=anchored)))
    return hashlib.sha256(told.encode()).hexdigest()


def _form(*, context: int, anchored: bool) -> list[str]:
    return ["--unified=0", "--no-renames"] if anchored else [f"--unified={context}"]


def _without_functions(text: bytes) -> bytes:
    """Remove the function names from a patch's hunk headers, because they are upstream's text."""
    head, mark, diffs = text.partition(b"\ndiff --git ")
    return head + mark + _FUNCTION.sub(rb"\1", diffs)


def _parts(wanted: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield ranges of wanted commits to format in parallel.

    A range ends before a commit that is not wanted, or at a maximum length. With this length, there are up to two
    ranges for each core, because some ranges take longer than others, but at most 8, because each range needs a git
    process.
    """
    number = max(1, min(2 * (os.cpu_count() or 1), 8, sum(wanted) // 8))
    longest = -(-sum(wanted) // number)
    first = 0
    for place, want in enumerate(wanted):
        if not want:
            first = place + 1
        elif place + 1 - first == longest or place + 1 == len(wanted) or not wanted[place + 1]:
            yield first, place + 1
            first = place + 1


def _write(
    root: Path, base: str, commits: Sequence[Commit], options: Sequence[str], *, anchored: bool
) -> list[FormattedCommit]:
    """Format a chain of commits with one git process.

    `base` is the parent of the first commit.
    """
    out = root / f"out-{commits[0].oid}"
    arguments = (*_OPTIONS, *options, f"--output-directory={out}")
    _git(root, "format-patch", *arguments, f"{base}..{commits[-1].oid}", config=_CONFIG)
    files = sorted(out.iterdir())
    if len(files) != len(commits):
        raise GitStillAtWork(f"git wrote patches for {len(files)} of {len(commits)} commits")
    texts = [file.read_bytes() for file in files]
    if anchored:
        texts = [_without_functions(text) for text in texts]
    return [
        FormattedCommit(commit=commit, slug=_slug(file.name), data=text, patch_id=patch_id)
        for commit, file, text, patch_id in zip(commits, files, texts, patch_ids(texts), strict=True)
    ]


def _slug(name: str) -> str:
    found = _SLUG.match(name)
    return found.group(1) if found else "patch"


def patch_ids(texts: Sequence[bytes]) -> tuple[str, ...]:
    """Return git's stable patch-id of each patch file.

    The id is empty for pure mode changes and for text without a diff, because git computes none for them.
    """
    if not texts:
        return ()
    marks = [f"{number:040x}" for number in range(1, len(texts) + 1)]
    stream = b"".join(
        b"From %s Mon Sep 17 00:00:00 2001\n" % mark.encode()
        + (text.partition(b"\n")[2] if _HEAD.match(text) else text)
        for mark, text in zip(marks, texts, strict=True)
    )
    lines = _git(Path(os.devnull), "patch-id", "--stable", stdin=stream).decode("ascii").splitlines()
    found = {mark: patch_id for patch_id, mark in (line.split() for line in lines)}
    return tuple(found.get(mark, "") for mark in marks)


def _git(root: Path, command: str, *args: str, config: Sequence[str] = (), stdin: bytes = b"") -> bytes:
    return git.checked(
        git.isolated(root, *config, command, *args, stdin=stdin, TZ="UTC"),
        f"git {command} failed",
        hint="run 'git fsck' in the fork to find missing objects",
    )
