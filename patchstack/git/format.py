"""Commits as patch files: the same bytes on every machine and under every git configuration.

git writes them, in a temporary repository that borrows the objects and has no configuration at all; what git's defaults
could change from one version to the next is named on the command line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from patchstack.errors import MissingError
from patchstack.git.objects import Commit, Repository
from patchstack.git.scratch import bare_repository, isolated_environment
from patchstack.process import Finished, run

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
_HEAD = re.compile(rb"From [0-9a-f]{40} ")
_FUNCTION = re.compile(rb"^(@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@).*$", re.MULTILINE)
_SLUG = re.compile(r"\d+-(.*)\.patch\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class FormattedCommit:
    """A commit as a patch file. `slug` is the name git gives it, without number and suffix; `patch_id` is git's stable
    patch-id (empty where git gives none: mode changes alone)."""

    commit: Commit
    slug: str
    data: bytes
    patch_id: str


def format_commits(
    repository: Repository,
    object_directories: Sequence[Path],
    base: str,
    commits: Sequence[Commit],
    *,
    context: int = 3,
    anchored: bool = False,
    known_ids: Mapping[str, str] | None = None,
) -> tuple[FormattedCommit, ...]:
    """Write commits that follow each other from `base` as patch files, with `context` lines around every change.
    `anchored` leaves context, and the function names behind hunk headers, out: such a patch holds none of the text
    around a change. `known_ids` are patch-ids by commit that need no second computation.

    Merges and commits that change nothing have no patch: the caller refuses them first. Raises `MissingError` where git
    cannot read what it needs.
    """
    if not commits:
        return ()
    options = ["--unified=0", "--no-renames"] if anchored else [f"--unified={context}"]
    parts = _parts(len(commits))
    # git formats on one core: parts of a long series are written side by side.
    with (
        bare_repository(object_directories, repository.git_dir / "shallow") as root,
        ThreadPoolExecutor(len(parts)) as pool,
    ):
        jobs = [
            pool.submit(_write, root, commits[first - 1].oid if first else base, commits[first:end], options)
            for first, end in parts
        ]
        written = [file for job in jobs for file in job.result()]
    if anchored:
        written = [(slug, _without_functions(text)) for slug, text in written]
    ids = dict(known_ids or {})
    fresh = [(commit.oid, text) for commit, (_, text) in zip(commits, written, strict=True) if commit.oid not in ids]
    ids.update(zip((oid for oid, _ in fresh), patch_ids([text for _, text in fresh]), strict=True))
    return tuple(
        FormattedCommit(commit=commit, slug=slug, data=text, patch_id=ids[commit.oid])
        for commit, (slug, text) in zip(commits, written, strict=True)
    )


def _without_functions(text: bytes) -> bytes:
    """A patch without the function names that git writes behind hunk headers: they are the upstream's text."""
    head, mark, diffs = text.partition(b"\ndiff --git ")
    return head + mark + _FUNCTION.sub(rb"\1", diffs)


def _parts(count: int) -> list[tuple[int, int]]:
    """Ranges of commits to format side by side: one a core, but not for a few commits."""
    number = max(1, min(os.cpu_count() or 1, 4, count // 8))
    bounds = [count * part // number for part in range(number + 1)]
    return list(pairwise(bounds))


def _write(root: Path, base: str, commits: Sequence[Commit], options: Sequence[str]) -> list[tuple[str, bytes]]:
    """Slug and text of commits that follow each other."""
    out = root / f"out-{commits[0].oid}"
    arguments = (*_OPTIONS, *options, f"--output-directory={out}")
    _git(root, *_CONFIG, "format-patch", *arguments, f"{base}..{commits[-1].oid}")
    files = sorted(out.iterdir())
    if len(files) != len(commits):
        raise MissingError(f"git wrote {len(files)} patches for {len(commits)} commits")
    return [(_slug(file.name), file.read_bytes()) for file in files]


def _slug(name: str) -> str:
    found = _SLUG.match(name)
    return found.group(1) if found else "patch"


def patch_ids(texts: Sequence[bytes]) -> tuple[str, ...]:
    """git's stable patch-id of each patch file; empty where git gives none (mode changes alone, no diff)."""
    if not texts:
        return ()
    marks = [f"{number:040x}" for number in range(1, len(texts) + 1)]
    stream = b"".join(
        b"From %s Mon Sep 17 00:00:00 2001\n" % mark.encode()
        + (text.partition(b"\n")[2] if _HEAD.match(text) else text)
        for mark, text in zip(marks, texts, strict=True)
    )
    lines = _git(Path(os.devnull), "patch-id", "--stable", stdin=stream).stdout.decode("ascii").splitlines()
    found = {mark: patch_id for patch_id, mark in (line.split() for line in lines)}
    return tuple(found.get(mark, "") for mark in marks)


def _git(root: Path, *args: str, stdin: bytes = b"") -> Finished:
    done = run(["git", *args], env=isolated_environment(root, TZ="UTC"), stdin=stdin)
    if not done.ok:
        command = next(arg for arg in args if arg in ("format-patch", "patch-id"))
        raise MissingError(
            f"git {command} failed: {done.complaint}", hint="are all contents of the fork's commits here?"
        )
    return done
