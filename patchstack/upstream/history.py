"""Read upstream's commits after the pin. Upstream is a path or a URL.

Only first parents are followed. The oldest commit is first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from patchstack.causes import NotFetchable, ShallowHistory, TargetNotAfterPin
from patchstack.errors import MissingError, PatchstackError
from patchstack.git import run as git
from patchstack.git.objects import Commit, MissingObject, NoSuchRepository, Objects, Repository
from patchstack.git.remote import Cache, Reached, Remote, fetch_into_cache
from patchstack.series.files.directory import Series, configured_series
from patchstack.series.sources import missing_upstream, open_sources
from patchstack.tasks import task
from patchstack.workspace import SeriesConfig

_PR = re.compile(r"\(#(\d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamCommit:
    """One commit of upstream.

    `index` counts from 0 in `git rev-list --reverse --first-parent PIN..REF`. `before` is the first parent of the
    commit. `date` is the author date (YYYY-MM-DD). `pr` is the pull request that the subject names, as in `(#1234)`.
    """

    index: int
    oid: str
    tree: str
    before: str
    author: str
    date: str
    subject: str
    pr: int | None

    @property
    def label(self) -> str:
        """The name of the commit for users. It is the pull request, if the commit has one."""
        return f"#{self.pr}" if self.pr is not None else self.oid[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamRange:
    """Upstream from the pin to `tip`.

    `ref` is the name of the tip, which the user gave or which was chosen by default.
    """

    pin: Commit
    tip: Commit
    ref: str
    commits: tuple[UpstreamCommit, ...]


class ShallowRange(MissingError):
    """The clone is shallow and lacks some commits between the pin and `tip`."""

    code = "PS0317"

    def __init__(self, repository: Repository, ref: str, tip: str, pin: Commit) -> None:
        super().__init__(
            f"{repository.name} is shallow: it lacks commits between the pin {pin.oid[:12]} and {ref} ({tip[:12]})",
            hint=f"run 'git -C {repository.name} fetch --deepen=1000', or use --unshallow",
        )
        self.tip = tip


def find_tip(reached: Reached, objects: Objects, *, named: bool, what: str) -> Commit:
    """Return the commit at an upstream ref.

    `named` is true if the user named the ref with the option `what`. Errors then begin with the name of the option.
    Otherwise, their hint contains it. Raises the same errors as `Repository.resolve_commit`.
    """
    if named:
        return reached.repository.resolve_commit(reached.rev, what, objects)
    try:
        return reached.repository.resolve_commit(reached.rev, "the tip", objects)
    except PatchstackError as error:
        error.hint = f"name the commit with {what} REF"
        raise


def read_range(
    repository: Repository, objects: Objects, pin: Commit, tip: Commit, ref: str, what: str
) -> UpstreamRange:
    """Return the commits from the pin to a tip.

    `ref` is the name of the tip. `what` is the name of the option, for hints. Raises `UsageError` if the tip does not
    descend from the pin, `ShallowRange` if the clone is too shallow, and `MissingError` if the commits cannot be listed
    for a different reason.
    """
    if tip.oid == pin.oid:
        return UpstreamRange(pin=pin, tip=tip, ref=ref, commits=())
    asked = git.read(
        repository.path,
        *("rev-list", "--reverse", "--first-parent", "--encoding=UTF-8"),
        *("--format=%T%x00%P%x00%an%x00%as%x00%s", f"{pin.oid}..{tip.oid}"),
    )
    if not asked.ok:
        if repository.shallow:
            raise ShallowRange(repository, ref, tip.oid, pin)
        raise NotFetchable(
            f"the commits from the pin to {ref} cannot be listed in {repository.name}: {asked.complaint}",
            hint=f"run 'git -C {repository.name} fsck'",
        )
    lines = asked.stdout.decode("utf-8", "replace").split("\n")
    first = lines[1].split("\0")[1].split(" ") if len(lines) > 1 else []
    if pin.oid not in first and not repository.is_ancestor(pin.oid, tip.oid):
        raise _no_descent(repository, pin, tip, ref, what)
    commits = []
    for index in range(len(lines) // 2):
        tree, parents, author, date, subject = lines[2 * index + 1].split("\0")
        oid = lines[2 * index].removeprefix("commit ")
        if not parents:  # the oldest commit of a shallow clone
            raise ShallowRange(repository, ref, tip.oid, pin)
        numbers = _PR.findall(subject)
        commits.append(
            UpstreamCommit(
                index=index,
                oid=oid,
                tree=tree,
                before=parents.split(" ")[0],
                author=author,
                date=date,
                subject=subject,
                pr=int(numbers[-1]) if numbers else None,
            )
        )
    return UpstreamRange(pin=pin, tip=tip, ref=ref, commits=tuple(commits))


def tree_before(range_: UpstreamRange, objects: Objects, commit: UpstreamCommit) -> str:
    """Return the tree of a commit's first parent. Raises `MissingObject` if a shallow clone lacks this parent."""
    if commit.before == range_.pin.oid:
        return range_.pin.tree
    if commit.index and range_.commits[commit.index - 1].oid == commit.before:
        return range_.commits[commit.index - 1].tree
    return objects.commit(commit.before).tree


def _no_descent(repository: Repository, pin: Commit, tip: Commit, ref: str, what: str) -> PatchstackError:
    if repository.is_ancestor(tip.oid, pin.oid):
        return TargetNotAfterPin(
            f"{ref} ({tip.oid[:12]}) is older than the pin {pin.oid[:12]}", hint="name a commit that came after the pin"
        )
    asked = git.read(repository.path, "merge-base", pin.oid, tip.oid)
    apart = asked.stdout.decode("ascii", "replace").split()
    if repository.shallow:
        return ShallowRange(repository, ref, tip.oid, pin)
    if not apart:
        return TargetNotAfterPin(
            f"{ref} ({tip.oid[:12]}) does not descend from the pin {pin.oid[:12]}: they have no common ancestor",
            hint=f"name a branch of upstream with {what}; this ref may belong to a different project",
        )
    where = apart[0][:12]
    try:
        objects = Objects()
        objects.add_directory(repository.object_directory, repository.name)
        where += f" ({objects.commit(apart[0]).subject})"
    except MissingObject:
        pass
    return TargetNotAfterPin(
        f"{ref} ({tip.oid[:12]}) does not descend from the pin {pin.oid[:12]}: they diverge at {where}",
        hint=f"name a branch that contains the pin with {what}, or move the pin; upstream may have been rewritten, "
        "or this is a different branch",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """A series, and the upstream range that begins at its pin.

    `upstream` is the user's name for upstream. `repository` contains the commits. It is the user's clone, or
    patchstack's clone in the cache.
    """

    series: Series
    upstream: str
    repository: Repository
    objects: Objects
    range: UpstreamRange


@task("opening upstream")
def open_ahead(config: SeriesConfig, cache: Cache, to: str | None, *, what: str) -> Ahead:
    """Open a series, and upstream up to the commit `to`.

    By default, `to` is the newest available commit. If upstream is a URL, `to` is fetched. Commits that a shallow clone
    lacks are fetched from the clone's remote into patchstack's cache. The clone is not changed. `what` is the name of
    the option for `to`. Raises the errors of `configured_series`, `Remote.reach` and `open_sources`, and `UsageError`
    if `to` does not descend from the pin.
    """
    series = configured_series(config)
    upstream = Remote.at(config.upstream, cache)
    # Fetch upstream first: the history of a URL includes the pin, so the pin need not be fetched separately.
    try:
        reached = upstream.reach(to, until=config.pin)
    except NoSuchRepository as error:
        raise missing_upstream(upstream, config.fork) from error
    repository, ref = reached.repository, reached.name
    sources = open_sources(cache, upstream=upstream, pin=config.pin, series=series)
    objects, pin = sources.objects, sources.base
    objects.hint = upstream.hint or objects.hint
    tip = find_tip(reached, objects, named=to is not None, what=what)
    try:
        range_ = read_range(repository, objects, pin, tip, ref, what)
    except ShallowRange as shallow:
        url = None if cache.offline else upstream.origin()
        if url is None:
            raise
        repository = _fetched(cache, url, shallow, pin.oid)
        objects.add_directory(repository.object_directory, repository.name)
        objects.fetch = _both(objects.fetch, fetch_into_cache(objects, cache, [url]))
        range_ = read_range(repository, objects, pin, tip, ref, what)
    name = reached.repository.name
    return Ahead(series=series, upstream=name, repository=repository, objects=objects, range=range_)


def _fetched(cache: Cache, url: str, shallow: ShallowRange, pin: str) -> Repository:
    """Return a repository in patchstack's cache with the history that a shallow clone lacks."""
    try:
        return cache.history(url, shallow.tip, pin)[0]
    except MissingError as error:
        raise ShallowHistory(shallow.message, hint=shallow.hint, problems=[error.message]) from error


_Fetch = Callable[..., None]


def _both(one: _Fetch | None, other: _Fetch) -> _Fetch:
    def fetch(oids: list[str]) -> None:
        if one is not None:
            one(oids)
        other(oids)

    return fetch
