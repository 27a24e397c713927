"""Fetch what is not here, with git itself, into our own cache: never into a user's repository."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from patchstack.errors import MissingError
from patchstack.git.objects import FULL_ID, Objects, Repository, read_only_git
from patchstack.process import Finished, clean_environment, run

Talk = Callable[[str], None]

_DEPTHS = (64, 512, 4096, 2147483647)


class Cache:
    """Partial bare clones, one a URL, below one directory, which `root` gives when it is first needed.

    Two processes may use it at once: git locks what it writes.

    `offline` uses what is there and fetches nothing. `talk` gets progress as one-line texts.
    """

    def __init__(self, root: Callable[[], Path], *, offline: bool = False, talk: Talk | None = None) -> None:
        self.root = root
        self.offline = offline
        self.talk = talk

    def commit(self, url: str, oid: str) -> Repository:
        """A repository that holds the commit and its trees, without history or blobs. Raises `MissingError`."""
        if not FULL_ID.match(oid):
            raise MissingError(
                f"pin {oid} cannot be looked up at {url}", hint="give the full commit id when the upstream is a URL"
            )
        directory = self._directory(url)
        if self.offline and not directory.is_dir():
            raise _offline(url, f"pin {oid}")
        if not read_only_git(directory, "cat-file", "-e", f"{oid}^{{tree}}").ok:
            if self.offline:
                raise _offline(url, f"pin {oid}")
            done = self._fetch(directory, "--depth=1", oid)
            if not done.ok:
                raise _not_fetched(url, f"pin {oid}", done)
        return Repository.open(url, directory)

    def history(self, url: str, ref: str, until: str) -> tuple[Repository, str]:
        """A repository that holds a ref's commits and trees back to the commit `until`, and the ref's commit id."""
        directory = self._directory(url)
        if self.offline and not directory.is_dir():
            raise _offline(url, f"ref {ref}")
        kept = "refs/patchstack/" + hashlib.sha256(ref.encode()).hexdigest()[:16]
        if not self.offline:
            for depth in _DEPTHS:
                done = self._fetch(directory, f"--depth={depth}", f"+{ref}:{kept}")
                if not done.ok:
                    raise _not_fetched(url, f"ref {ref}", done)
                if read_only_git(directory, "merge-base", "--is-ancestor", until, kept).ok:
                    break
                if not (directory / "shallow").exists():
                    break
        found = read_only_git(directory, "rev-parse", "--verify", f"{kept}^{{commit}}")
        if not found.ok:
            raise _offline(url, f"ref {ref}")
        return Repository.open(url, directory), found.stdout.decode("ascii").strip()

    def objects(self, url: str, oids: Sequence[str]) -> Path | None:
        """Fetch objects by id; gives the object directory that then holds them, if the remote had them."""
        directory = self._directory(url)
        if not self.offline:
            self._fetch(directory, "--stdin", stdin="".join(f"{oid}\n" for oid in oids).encode())
        return directory / "objects" if directory.is_dir() else None

    def _directory(self, url: str) -> Path:
        slug = re.sub(r"[^A-Za-z0-9.]+", "-", url.rstrip("/").rsplit("/", 1)[-1]).strip("-") or "repository"
        directory = self.root() / "repositories" / f"{slug}-{hashlib.sha256(url.encode()).hexdigest()[:12]}.git"
        if not (directory / "config").is_file() and not self.offline:
            directory.mkdir(parents=True, exist_ok=True)
            self._git(directory, "init", "--quiet", "--bare")
            self._git(directory, "config", "remote.origin.url", url)
            self._git(directory, "config", "remote.origin.promisor", "true")
            self._git(directory, "config", "remote.origin.partialclonefilter", "blob:none")
            self._git(directory, "config", "gc.auto", "0")
        return directory

    def _fetch(self, directory: Path, *args: str, stdin: bytes = b"") -> Finished:
        return self._git(
            directory,
            *("-c", "fetch.negotiationAlgorithm=noop") if stdin else (),
            *("fetch", "--progress", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no"),
            *("--filter=blob:none", "origin", *args) if not stdin else ("--filter=blob:none", *args, "origin"),
            stdin=stdin,
            on_stderr=self._progress(),
        )

    def _git(
        self, directory: Path, *args: str, stdin: bytes = b"", on_stderr: Callable[[str], None] | None = None
    ) -> Finished:
        environment = clean_environment({"GIT_TERMINAL_PROMPT": "0"}, network=True)
        return run(
            ["git", "-C", str(directory), *args], env=environment, stdin=stdin, timeout=3600.0, on_stderr=on_stderr
        )

    def _progress(self) -> Callable[[str], None] | None:
        """git's progress lines, read by GitPython, as short texts for `talk`."""
        if self.talk is None:
            return None
        from git.remote import RemoteProgress

        talk = self.talk

        class Progress(RemoteProgress):
            def update(
                self, op_code: int, cur_count: str | float, max_count: str | float | None = None, message: str = ""
            ) -> None:
                if op_code & self.RECEIVING:
                    share = f"{100 * float(cur_count) / float(max_count):.0f}%" if max_count else f"{cur_count}"
                    talk(f"receiving objects: {share} {message}".rstrip())

        return Progress().new_message_handler()


def promisor_url(repository: Path) -> str | None:
    """Where a partial clone's missing objects are to be had, as its configuration says."""
    asked = read_only_git(repository, "config", "--get-regexp", r"^remote\..*\.promisor$")
    for line in asked.stdout.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(" ")
        if value == "true":
            name = key.removeprefix("remote.").removesuffix(".promisor")
            url = read_only_git(repository, "config", "--get", f"remote.{name}.url")
            if url.ok:
                return url.stdout.decode("utf-8", "replace").strip()
    return None


def fetch_into_cache(objects: Objects, cache: Cache, sources: Sequence[str | Path]) -> Callable[[Sequence[str]], None]:
    """A function that gets missing objects from the given URLs, or from where the given partial clones came from."""
    tried: set[str] = set()

    def fetch(oids: Sequence[str]) -> None:
        wanted = [oid for oid in oids if oid not in tried]
        tried.update(wanted)
        for source in sources:
            url = source if isinstance(source, str) else promisor_url(source)
            if url and wanted:
                directory = cache.objects(url, wanted)
                if directory is not None:
                    objects.add_directory(directory, url)
                wanted = [oid for oid in wanted if not objects.has(oid)]

    return fetch


def _not_fetched(url: str, what: str, done: Finished) -> MissingError:
    lines = [line for line in done.complaint.splitlines() if line.startswith(("fatal:", "error:"))]
    reason = lines[0].partition(": ")[2] if lines else f"git fetch exited {done.code}"
    return MissingError(
        f"{what} could not be fetched from {url}: {reason}", hint="check the URL, the name and the network"
    )


def _offline(url: str, what: str) -> MissingError:
    return MissingError(f"{what} of {url} is not in the cache", hint="run once without --offline")
