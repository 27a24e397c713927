"""Install a git hook in the fork's clone, and run its checks.

The hook checks a commit against the commit's scope and the checks of the series.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from patchstack.causes import AlreadyExists, CloneNeeded, NotWritable
from patchstack.checks.read import read_promises
from patchstack.checks.run import Checker, no_engine, touched_paths
from patchstack.files.atomic import replace_file
from patchstack.git import run as git
from patchstack.git.objects import EMPTY_TREE, Objects, Repository
from patchstack.git.patch.trailers import SCOPE, metadata_of, parse_trailers
from patchstack.git.scratch import bare_repository
from patchstack.git.trees import compare_trees
from patchstack.series.files.directory import configured_series
from patchstack.series.files.order import has_patches
from patchstack.series.lint.scope import outside
from patchstack.verdict import Verdict
from patchstack.workspace import SeriesConfig, is_url

HOOK = "commit-msg"
_OURS = "# Made by patchstack hook install."
_SCRIPT = """\
#!/bin/sh
{ours} Remove this file to remove the hook; git commit --no-verify skips it.
exec {command} hook run "$1" --workspace {workspace} --series {series}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """A problem with a commit. If `refuses` is true, git rejects the commit."""

    text: str
    refuses: bool


def install(config: SeriesConfig, workspace: Path, command: tuple[str, ...]) -> Path:
    """Write the hook into the fork's clone, and return its path.

    `command` is the command line of patchstack.

    Raises `UsageError` if the fork is not a clone on this machine, or if the clone already has a `commit-msg` hook that
    patchstack did not install.
    """
    if config.fork is None or is_url(config.fork):
        hint = "set fork: and fork_ref: in patchstack.yaml"
        raise CloneNeeded(f"{config.name} has no fork on this machine", hint=hint)
    repository = Repository.open(config.fork, Path(config.fork))
    asked = git.read(repository.path, "rev-parse", "--git-path", f"hooks/{HOOK}")
    path = repository.path / os.fsdecode(asked.stdout).rstrip("\n")
    script = _SCRIPT.format(
        ours=_OURS,
        command=shlex.join(command),
        workspace=shlex.quote(str(workspace.resolve())),
        series=shlex.quote(config.name),
    )
    if path.exists() and _OURS.encode() not in path.read_bytes():
        line = script.splitlines()[-1].removeprefix("exec ")
        raise AlreadyExists(f"{path} is a hook that patchstack did not install", hint=f"add this line to it: {line}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, script.encode())
        path.chmod(0o755)
    except OSError as error:
        raise NotWritable(f"{path} cannot be written: {error.strerror}") from error
    return path


def complaints(config: SeriesConfig, git_dir: Path, index: Path, message: str) -> Iterator[Complaint]:
    """Yield the problems of a commit with the given index and message.

    Nothing is written into the repository. A commit is rejected for files outside the globs of its `Scope:` trailers.
    It is also rejected if a check fails now but did not fail before, or if it fails for a different reason. Checks that
    run a command are skipped, because a commit should not wait for them. Raises `ConfigError` for unusable checks.
    """
    repository = Repository.open(str(git_dir), git_dir)
    objects = Objects()
    objects.add_directory(repository.object_directory, repository.name)
    with bare_repository([repository.object_directory]) as scratch:
        made = git.isolated(scratch, "write-tree", "--missing-ok", GIT_INDEX_FILE=str(index))
        if not made.ok:
            return  # git itself reports the problems of this index
        objects.add_directory(scratch / "objects", "the index")
        after = made.stdout.decode("ascii").strip()
        head = git.read(git_dir, "rev-parse", "--quiet", "--verify", "HEAD^{tree}")
        before = head.stdout.decode("ascii").strip() if head.ok else EMPTY_TREE
        paths = [change.path.decode("utf-8", "surrogateescape") for change in compare_trees(objects, before, after)]
        globs = metadata_of(parse_trailers(message)).get(SCOPE, ())
        for path in outside(paths, globs):
            yield Complaint(text=f"{path} is outside the commit's Scope ({', '.join(globs)})", refuses=True)
        yield from _broken(config, objects, before, after)


def _broken(config: SeriesConfig, objects: Objects, before: str, after: str) -> Iterator[Complaint]:
    checks = [check for check in read_promises(config) if check.kind != "command"]
    if not checks:
        return
    there = has_patches(config.patches)
    touched = touched_paths(configured_series(config).patches if there else ())
    with contextlib.closing(Checker(objects, touched, no_engine)) as checker:
        for check in checks:
            if check.patch is not None and not (check.files or touched.get(check.patch)):
                continue  # the check's patch is not in the series yet
            found = checker.judge(check, after)
            if found.verdict is not Verdict.FAIL:
                continue
            was = checker.judge(check, before)
            what = f": {check.what}" if check.what else ""
            fresh = was.verdict is not Verdict.FAIL or was.reason != found.reason
            told = f"check {check.name}: {found.reason}{what}"
            yield Complaint(text=told if fresh else f"{told} (it failed before)", refuses=fresh)
