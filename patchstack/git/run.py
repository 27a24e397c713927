"""Run git. Only this module runs git.

Each use has its own function, with its own environment and settings. `GIT_*` variables of the caller never reach git,
because every environment starts from `clean_environment`. Write `from patchstack.git import run as git`, then
`git.read(path, "rev-parse", ...)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from patchstack.causes import ProgramMissing
from patchstack.errors import MissingError
from patchstack.process import PIPE, Child, Finished, clean_environment, run, start

_FETCH_SECONDS = 3600.0
_NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
_NO_UPKEEP = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")
_BARE_TOO = ("-c", "safe.bareRepository=all")
_FETCH = ("--no-tags", "--no-write-fetch-head", "--recurse-submodules=no")


class GitFailed(MissingError):
    """A required git command failed.

    The message consists of `failed` and git's message. If `short` is true, only the first line of git's message is
    included. `status` is the exit status of `command`. A negative status is the negated number of the signal that ended
    the command. `complaint` is git's complete standard error.
    """

    code = "PS0315"

    def __init__(self, failed: str, done: Finished, *, hint: str | None = None, short: bool = False) -> None:
        super().__init__(f"{failed}: {first_complaint(done) if short else done.complaint}", hint=hint)
        self.command = done.args
        self.status = done.code
        self.complaint = done.complaint


def checked(done: Finished, failed: str, *, hint: str | None = None, short: bool = False) -> bytes:
    """Return the standard output of a command that must succeed.

    Raises `GitFailed` with the message `failed`.
    """
    if not done.ok:
        raise GitFailed(failed, done, hint=hint, short=short)
    return done.stdout


def first_complaint(done: Finished) -> str:
    """Return the first line of git's standard error.

    If standard error is empty, return git's exit status as text.
    """
    lines = done.complaint.splitlines() or [f"git exited {done.code}"]
    return lines[0].removeprefix("fatal: ")


def read(repository: Path, *args: str) -> Finished:
    """Run git read-only in a user's repository.

    git runs without lazy fetches, optional locks, prompts, or a search in parent directories.
    """
    environment = clean_environment(
        {
            "GIT_CEILING_DIRECTORIES": str(repository.resolve().parent),
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
        }
    )
    return run(["git", "-C", str(repository), *_BARE_TOO, *args], env=environment)


def write(directory: Path, *args: str) -> Finished:
    """Run git in a clone that the user asked to change.

    The user's configuration applies, but no hooks run. `directory` must be the root of a work tree or a repository,
    because git does not search in parent directories.
    """
    environment = clean_environment({"GIT_CEILING_DIRECTORIES": str(directory.resolve().parent)})
    return run(["git", "-C", str(directory), *_NO_HOOKS, *args], env=environment)


def isolated(git_dir: Path, *args: str, cwd: Path | None = None, stdin: bytes = b"", **variables: str) -> Finished:
    """Run git in our own repository, without the user's configuration and attributes, and without fetching.

    `variables` are added to the environment. Use `/dev/null` as the repository for commands that need none.
    """
    return run(["git", *args], cwd=cwd, env=_isolated(git_dir, variables), stdin=stdin)


def objects_of(git_dir: Path, option: str, *, stderr: int) -> Child:
    """Start `git cat-file` in one of our repositories, with `--batch` or `--batch-check`.

    Write questions to the child's `stdin` and read answers from its `stdout`. The child ends when `stdin` is closed.
    Raises `MissingError` if git is not installed.
    """
    try:
        return start(["git", "cat-file", option], env=_isolated(git_dir, {}), stdin=PIPE, stdout=PIPE, stderr=stderr)
    except FileNotFoundError as error:
        raise ProgramMissing("git is not installed", hint="install git and put it on PATH") from error


def fetch(
    git_dir: Path,
    url: str,
    *options: str,
    refs: Sequence[str] = (),
    stdin: bytes = b"",
    on_stderr: Callable[[str], None] | None = None,
    hold: Sequence[int] = (),
) -> Finished:
    """Fetch refs, or the ids on stdin, from a URL into our partial clone.

    Blobs are fetched only if their ids are on stdin. The user's network configuration applies, but the user's remotes
    and hooks do not. `on_stderr` receives git's progress lines. `hold` lists lock descriptors that git inherits, so
    that the locks are held until git ends.
    """
    remote = "patchstack-cache"
    settings = ["-c", "protocol.version=2", *_NO_HOOKS, *_BARE_TOO, "-c", f"remote.{remote}.url={url}", *_NO_UPKEEP]
    if stdin:
        settings += ["-c", "fetch.negotiationAlgorithm=noop"]
    return run(
        [
            *("git", f"--git-dir={git_dir}", *settings),
            *("fetch", "--progress", *_FETCH, "--filter=blob:none", *options, remote, *refs),
        ],
        env=clean_environment({"GIT_TERMINAL_PROMPT": "0"}, network=True),
        stdin=stdin,
        timeout=_FETCH_SECONDS,
        on_stderr=on_stderr,
        hold=hold,
    )


def fetch_locally(git_dir: Path, source: Path, *refs: str) -> Finished:
    """Fetch refs into a user's repository from our repository on this machine.

    Nothing else is written, and no hooks run.
    """
    return run(
        ["git", *_NO_HOOKS, *_NO_UPKEEP, "fetch", "--quiet", *_FETCH, str(source), *refs],
        env=_isolated(git_dir, {"GIT_ALLOW_PROTOCOL": "file"}),
        timeout=_FETCH_SECONDS,
    )


def _isolated(git_dir: Path, variables: dict[str, str]) -> dict[str, str]:
    return clean_environment(
        {
            "GIT_DIR": str(git_dir),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_ALLOW_PROTOCOL": "none",
            **variables,
        }
    )
