"""Fetch what is not here, with git itself, into our own cache: never into a user's repository."""

from __future__ import annotations

import contextlib
import hashlib
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from patchstack.errors import MissingError, UsageError
from patchstack.files.atomic import put_in_place
from patchstack.files.lock import locked
from patchstack.git import run as git
from patchstack.git.objects import FULL_ID, Objects, Repository
from patchstack.process import Finished

Talk = Callable[[str], None]

# A branch, a tag or a commit id: what git check-ref-format takes, and a little less.
_REF = re.compile(r"(?!-)[^\x00-\x20~^:?*\[\\\x7f]+\Z")
_DEPTHS = (64, 512, 4096, 2147483647)


class Cache:
    """Partial bare clones, one a URL, below one directory, which `root` gives when it is first needed.

    Two processes may use it at once: each clone has a lock. `offline` uses what is there and fetches nothing. `talk`
    gets progress as one-line texts. Credentials in a URL are used, and neither stored nor shown.
    """

    def __init__(self, root: Callable[[], Path], *, offline: bool = False, talk: Talk | None = None) -> None:
        self.root = root
        self.offline = offline
        self.talk = talk

    def commit(self, url: str, oid: str) -> Repository:
        """A repository that holds the commit and its trees, without history or blobs. Raises `MissingError`."""
        if not FULL_ID.match(oid):
            raise MissingError(
                f"pin {oid} cannot be looked up at {shown_url(url)}",
                hint="give the full commit id when the upstream is a URL",
            )
        with self._clone(url, f"pin {oid}") as (directory, lock):
            if not git.read(directory, "cat-file", "-e", f"{oid}^{{tree}}").ok:
                if self.offline:
                    raise _offline(url, f"pin {oid}")
                done = self._fetch(directory, lock, url, "--depth=1", refs=(oid,))
                if not done.ok:
                    raise _not_fetched(url, f"pin {oid}", done)
            return Repository.open(shown_url(url), directory)

    def history(self, url: str, ref: str, until: str) -> tuple[Repository, str]:
        """A repository that holds a ref's commits and trees back to the commit `until`, and the ref's commit id."""
        if not _REF.match(ref) or ".." in ref:
            raise UsageError(f"{ref!r} is no branch, tag or commit to fetch from {shown_url(url)}")
        kept = "refs/patchstack/" + hashlib.sha256(ref.encode()).hexdigest()[:16]
        with self._clone(url, f"ref {ref}") as (directory, lock):
            for depth in () if self.offline else _DEPTHS:
                done = self._fetch(directory, lock, url, f"--depth={depth}", refs=(f"+{ref}:{kept}",))
                if not done.ok:
                    raise _not_fetched(url, f"ref {ref}", done)
                if git.read(directory, "merge-base", "--is-ancestor", until, kept).ok:
                    break
                if not (directory / "shallow").exists():
                    break
            found = git.read(directory, "rev-parse", "--verify", f"{kept}^{{commit}}")
            if not found.ok:
                raise _offline(url, f"ref {ref}")
            return Repository.open(shown_url(url), directory), found.stdout.decode("ascii").strip()

    def objects(self, url: str, oids: Sequence[str]) -> Path | None:
        """Fetch objects by id; gives the object directory that then holds them, if the remote had them."""
        try:
            with self._clone(url, "contents") as (directory, lock):
                if not self.offline:
                    wanted = "".join(f"{oid}\n" for oid in oids).encode()
                    self._fetch(directory, lock, url, "--stdin", stdin=wanted)
                return directory / "objects"
        except MissingError:
            if self.offline:
                return None
            raise

    @contextlib.contextmanager
    def _clone(self, url: str, what: str) -> Iterator[tuple[Path, int]]:
        """The clone of a URL, made where there is none yet, and its lock, which is held (-1: offline, none is needed).
        `what` is wanted of it."""
        bare = shown_url(url)
        slug = re.sub(r"[^A-Za-z0-9.]+", "-", bare.rstrip("/").rsplit("/", 1)[-1]).strip("-") or "repository"
        name = f"{slug}-{hashlib.sha256(bare.encode()).hexdigest()[:12]}.git"
        directory = self.root() / "repositories" / name
        if self.offline and not directory.is_dir():
            raise _offline(url, what)
        if self.offline:
            yield directory, -1
            return
        directory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(directory.parent / f"{name}.lock") as lock:
            # We are alone here: a lock that git left was left by a run that was killed.
            for stale in (*directory.glob("*.lock"), *directory.glob("refs/**/*.lock")):
                stale.unlink(missing_ok=True)
            if not directory.is_dir():
                _make_clone(directory)
            yield directory, lock

    def _fetch(
        self, directory: Path, lock: int, url: str, *options: str, refs: Sequence[str] = (), stdin: bytes = b""
    ) -> Finished:
        """`git fetch` into a clone. git holds the lock with us: should we be killed, nobody takes the clone for
        abandoned while it still writes."""
        return git.fetch(directory, url, *options, refs=refs, stdin=stdin, on_stderr=self._progress(), hold=(lock,))

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


def shown_url(url: str) -> str:
    """A URL without credentials, for people and for files."""
    return re.sub(r"(?<=://)[^/@]*@", "", url)


def _make_clone(directory: Path) -> None:
    """An empty partial clone, as one step: a killed run leaves none."""
    draft = Path(tempfile.mkdtemp(prefix=".making-", dir=directory.parent))
    for name in ("objects/info", "objects/pack", "refs/heads"):
        (draft / name).mkdir(parents=True)
    (draft / "HEAD").write_text("ref: refs/heads/none\n")
    (draft / "config").write_text(
        "[core]\n\trepositoryformatversion = 1\n\tbare = true\n"
        "[extensions]\n\tpartialClone = patchstack-cache\n"
        '[remote "patchstack-cache"]\n\tpromisor = true\n\tpartialclonefilter = blob:none\n'
    )
    put_in_place(draft, directory)


def promisor_url(repository: Path) -> str | None:
    """Where a partial clone's missing objects are to be had, as its configuration says."""
    asked = git.read(repository, "config", "--get-regexp", r"^remote\..*\.promisor$")
    for line in asked.stdout.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(" ")
        if value == "true":
            name = key.removeprefix("remote.").removesuffix(".promisor")
            url = git.read(repository, "config", "--get", f"remote.{name}.url")
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
                    objects.add_directory(directory, shown_url(url))
                wanted = [oid for oid in wanted if not objects.has(oid)]

    return fetch


def _not_fetched(url: str, what: str, done: Finished) -> MissingError:
    lines = [line for line in done.complaint.splitlines() if line.startswith(("fatal:", "error:"))]
    reason = shown_url(lines[0].partition(": ")[2]) if lines else f"git fetch exited {done.code}"
    return MissingError(
        f"{what} could not be fetched from {shown_url(url)}: {reason}", hint="check the URL, the name and the network"
    )


def _offline(url: str, what: str) -> MissingError:
    return MissingError(f"{what} of {shown_url(url)} is not in the cache", hint="run once without --offline")
