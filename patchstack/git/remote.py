"""Open a repository by path or URL, and find a commit by its ref.

A path is opened directly. git fetches missing objects into our own cache, never into a user's repository.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from patchstack.causes import BadRepositoryAddress, BadRevision, NotFetchable
from patchstack.errors import MissingError
from patchstack.files.atomic import put_in_place
from patchstack.files.lock import locked
from patchstack.files.places import CachePlaces
from patchstack.git import run as git
from patchstack.git.objects import FULL_ID, Commit, Objects, Repository
from patchstack.process import Finished
from patchstack.tasks import Task, task
from patchstack.workspace.model import is_url

# A branch, a tag or a commit id. This is slightly stricter than git check-ref-format.
_REF = re.compile(r"(?!-)[^\x00-\x20~^:?*\[\\\x7f]+\Z")
_DEPTHS = (64, 512, 4096, 2147483647)
# The refs of a clone that may point to upstream's newest commit. `HEAD` is last, because it may be a fork's branch.
_TIPS = (
    *("refs/remotes/upstream/HEAD", "refs/remotes/upstream/master", "refs/remotes/upstream/main"),
    *("refs/remotes/origin/HEAD", "refs/remotes/origin/master", "refs/remotes/origin/main"),
    *("refs/heads/master", "refs/heads/main", "HEAD"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A repository that contains a ref.

    `rev` names the ref's commit in this repository. `name` is the user's name for the ref.
    """

    repository: Repository
    rev: str
    name: str


_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.-]*::")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SCHEMES = frozenset({"https", "http", "ssh", "git", "file", "git+ssh", "ssh+git"})


def refuse_helpers(where: str) -> None:
    """Raise `UsageError` for an address that makes git start a remote helper.

    Examples: `fd::17`, `ext::…`, `x://…`. A remote helper can read our own file descriptors or run commands. Source:
    gitremote-helpers(7).
    """
    scheme = _SCHEME.match(where)
    if _HELPER.match(where) or (scheme is not None and scheme[1].lower() not in _SCHEMES):
        name = where.partition(":")[0]
        raise BadRepositoryAddress(
            f"{shown_url(where)} is not the address of a repository: git would start git-remote-{name}",
            hint="use HOST:PATH, a path, or a URL that begins with https://, ssh://, git:// or file://",
        )


class NotFetched(MissingError):
    """Objects of a URL are not in the cache and could not be fetched."""

    code = "PS0314"


class Remote:
    """A repository at a path or URL.

    Objects are fetched from a URL into the cache. A path is opened once. All methods raise `NoSuchRepository` or
    `NotARepository` if the repository cannot be opened, and `NotFetched` if an object cannot be fetched.
    """

    def __init__(self, where: str, cache: Cache) -> None:
        refuse_helpers(where)
        self.cache = cache
        self.where = where
        self._by_url = is_url(where)
        self._opened: Repository | None = None

    @staticmethod
    def at(where: str | Remote, cache: Cache) -> Remote:
        """Return the repository at a path or URL. A `Remote` is returned unchanged."""
        return where if isinstance(where, Remote) else Remote(where, cache)

    @property
    def source(self) -> str | Path:
        """The source for `fetch_into_cache`: the URL, or the path of a clone."""
        return self.where if self._by_url else Path(self.where)

    @property
    def address(self) -> str:
        """The address of the repository as seen from a repository in a different directory."""
        return self.where if self._by_url else str(Path(self.where).absolute())

    @property
    def note(self) -> str:
        """The text that follows the repository's name in messages.

        It is empty unless the repository's state may be outdated.
        """
        return " as last fetched" if self._by_url and self.cache.offline else ""

    @property
    def hint(self) -> str | None:
        """A hint for objects that could not be fetched from the repository.

        It is None if nothing is fetched from this repository.
        """
        if not self._by_url or self.cache.offline:
            return None
        return "check the network, and run the command again: fetched objects are kept"

    def commit(self, oid: str) -> Repository:
        """Return a repository for reading a commit and its trees.

        From a URL, the commit is fetched by its full id. For a path, the commit may be missing.
        """
        if self._by_url and (self._opened is None or not _has(self._opened, oid)):
            self._opened = self.cache.commit(self.where, oid)
        return self._open()

    def reach(self, ref: str | None, *, until: str) -> Reached:
        """Return a repository with the history of a ref, back to the commit `until`.

        A clone at a path may have less history. Without a ref, use the `HEAD` of a URL. In a clone at a path, use the
        first existing ref of `_TIPS`.
        """
        if self._by_url:
            name = "HEAD" if ref is None else ref
            self._opened, rev = self.cache.history(self.where, name, until)
            return Reached(repository=self._opened, rev=rev, name=name)
        repository = self._open()
        if ref is not None:
            return Reached(repository=repository, rev=ref, name=ref)
        asked = git.read(repository.path, "for-each-ref", "--format=%(refname)", *_TIPS[:-1])
        there = set(asked.stdout.decode("utf-8", "replace").split("\n"))
        tip = next((tip for tip in _TIPS if tip in there), "HEAD")
        name = tip.removeprefix("refs/remotes/").removeprefix("refs/heads/")
        return Reached(repository=repository, rev=tip, name=name)

    def resolve(self, ref: str, what: str, *, until: str) -> tuple[Repository, Commit]:
        """Return a repository with the history of a ref back to `until`, and the ref's commit.

        Other repositories are not searched for the ref. Errors begin with `what`.
        """
        found = self.reach(ref, until=until)
        return found.repository, found.repository.resolve_commit(found.rev, what, _alone(found.repository))

    def origin(self, *names: str) -> str | None:
        """Return the URL or path from which the clone was made, according to its configuration.

        The remote `upstream` has priority over `origin`, unless other remotes are given. A relative path is resolved
        from the clone. Return None for a URL, or if no such remote is configured.
        """
        if self._by_url:
            return None
        path = self._open().path
        for name in names or ("upstream", "origin"):
            asked = git.read(path, "config", "--get", f"remote.{name}.url")
            if asked.ok:
                url = asked.stdout.decode("utf-8", "replace").strip()
                return url if is_url(url) else str((path / url).resolve())
        return None

    def _open(self) -> Repository:
        if self._opened is None:
            self._opened = Repository.open(self.where, Path(self.where))
        return self._opened


class Cache:
    """Partial bare clones below one directory, one for each URL.

    `root` returns the directory, and is called only when the directory is needed. Two processes may use the cache at
    once, because each clone has a lock. If `offline` is true, existing objects are used and nothing is fetched.
    Credentials in a URL are used, but are neither stored nor shown.
    """

    def __init__(self, root: Callable[[], Path], *, offline: bool = False) -> None:
        self.root = root
        self.offline = offline

    def commit(self, url: str, oid: str) -> Repository:
        """Return a repository with the commit and its trees, without history or blobs.

        Raises `MissingError` if `oid` is not a full commit id, or if the commit cannot be fetched.
        """
        if not FULL_ID.match(oid):
            raise NotFetchable(
                f"pin {oid} cannot be looked up at {shown_url(url)}",
                hint="give the full commit id if the upstream is a URL",
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
        """Return a repository with the history of a ref, and the commit id of the ref.

        The history consists of commits and trees, back to the commit `until`. If `until` is not an ancestor of the ref,
        the whole history is fetched. If the cache is offline, the history is the one that was fetched last.
        """
        if not _REF.match(ref) or ".." in ref:
            raise BadRevision(f"{ref!r} is not a branch, tag or commit to fetch from {shown_url(url)}")
        kept = "refs/patchstack/" + hashlib.sha256(ref.encode()).hexdigest()[:16]
        with self._clone(url, f"ref {ref}") as (directory, lock):
            for depth in () if self.offline else _DEPTHS:
                done = self._fetch(directory, lock, url, f"--depth={depth}", refs=(f"+{ref}:{kept}",))
                if not done.ok:
                    last = git.read(directory, "rev-parse", "--quiet", "--verify", f"{kept}^{{commit}}")
                    raise _not_fetched(url, f"ref {ref}", done, known=last.ok)
                if git.read(directory, "merge-base", "--is-ancestor", until, kept).ok:
                    break
                if not (directory / "shallow").exists():
                    break
            found = git.read(directory, "rev-parse", "--verify", f"{kept}^{{commit}}")
            if not found.ok:
                raise _offline(url, f"ref {ref}")
            return Repository.open(shown_url(url), directory), found.stdout.decode("ascii").strip()

    def objects(self, url: str, oids: Sequence[str]) -> Path | None:
        """Fetch objects by id, and return the object directory of the clone.

        The directory lacks objects that cannot be fetched. Return None if the cache is offline and has no clone of the
        URL.
        """
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
        """Yield the clone of a URL, and the descriptor of its held lock.

        A missing clone is created. If the cache is offline, nothing is created or locked. Then the descriptor is -1,
        and `NotFetched` is raised for a missing clone. `what` names the wanted object in errors.
        """
        bare = shown_url(url)
        slug = re.sub(r"[^A-Za-z0-9.]+", "-", bare.rstrip("/").rsplit("/", 1)[-1]).strip("-") or "repository"
        name = f"{slug}-{hashlib.sha256(bare.encode()).hexdigest()[:12]}.git"
        directory = CachePlaces(self.root()).repositories / name
        if self.offline and not directory.is_dir():
            raise _offline(url, what)
        if self.offline:
            yield directory, -1
            return
        directory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(directory.parent / f"{name}.lock") as lock:
            # We hold our lock, so a remaining lock file of git is from a killed run.
            for stale in (*directory.glob("*.lock"), *directory.glob("refs/**/*.lock")):
                stale.unlink(missing_ok=True)
            if not directory.is_dir():
                _make_clone(directory)
            yield directory, lock

    def _fetch(
        self, directory: Path, lock: int, url: str, *options: str, refs: Sequence[str] = (), stdin: bytes = b""
    ) -> Finished:
        """Run `git fetch` in a clone.

        git inherits the lock, so that the clone stays locked while git writes, even if patchstack is killed.
        """
        with task(f"fetching from {shown_url(url)}") as this:
            return git.fetch(directory, url, *options, refs=refs, stdin=stdin, on_stderr=_progress(this), hold=(lock,))


def _progress(this: Task) -> Callable[[str], None]:
    """Return a function that receives git's progress lines and updates a task.

    The function ignores the lines of the first second, so that a short fetch does not wait for the import of GitPython.
    """
    handlers: list[Callable[[str], None]] = []

    def hear(line: str) -> None:
        if monotonic() - this.began < 1:
            return
        if not handlers:
            handlers.append(_handler(this))
        handlers[0](line)

    return hear


def _handler(this: Task) -> Callable[[str], None]:
    from git.remote import RemoteProgress

    class Progress(RemoteProgress):
        def update(
            self, op_code: int, cur_count: str | float, max_count: str | float | None = None, message: str = ""
        ) -> None:
            if op_code & (self.RECEIVING | self.RESOLVING):
                what = "receiving objects" if op_code & self.RECEIVING else "resolving deltas"
                this.at(int(float(cur_count)), int(float(max_count or 0)), f"{what} {message}".strip())

    return Progress().new_message_handler()


def shown_url(url: str) -> str:
    """Return a URL without credentials, for output and for files."""
    return re.sub(r"(?<=://)[^/@]*@", "", url)


def _alone(repository: Repository) -> Objects:
    """Return the objects of this repository alone.

    With other repositories, a name could be resolved in the wrong repository.
    """
    objects = Objects()
    objects.add_directory(repository.object_directory, repository.name)
    return objects


def _has(repository: Repository, oid: str) -> bool:
    """Return whether a repository has a commit and its tree."""
    objects = _alone(repository)
    if not FULL_ID.match(oid) or not objects.has(oid) or objects.read(oid)[0] != "commit":
        return False
    return objects.has(objects.commit(oid).tree)


def _make_clone(directory: Path) -> None:
    """Create an empty partial clone atomically, so that a killed run leaves no incomplete clone."""
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
    """Return the URL for the missing objects of a partial clone, from its configuration.

    Return None if the configuration names no such URL.
    """
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
    """Return a function that fetches missing objects into the cache.

    Each source is a URL, or the path of a partial clone whose remote is used. The function tries the sources in order,
    and requests each object only once. It adds the object directories of the cache to `objects`.
    """
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
                wanted = objects.missing(wanted)

    return fetch


def _not_fetched(url: str, what: str, done: Finished, *, known: bool = False) -> NotFetched:
    lines = [line for line in done.complaint.splitlines() if line.startswith(("fatal:", "error:"))]
    reason = shown_url(lines[0].partition(": ")[2]) if lines else f"git fetch exited {done.code}"
    hint = "check the URL, the name and the network"
    if known:
        hint += "; or use what was fetched last: --offline"
    return NotFetched(f"{what} could not be fetched from {shown_url(url)}: {reason}", hint=hint)


def _offline(url: str, what: str) -> NotFetched:
    return NotFetched(f"{what} of {shown_url(url)} is not in the cache", hint="run once without --offline")
