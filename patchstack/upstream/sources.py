"""Open what a series is held against when upstream moves: its repository, the pin, and the commits behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from patchstack.errors import MissingError
from patchstack.git import run as git
from patchstack.git.objects import Objects, Repository
from patchstack.git.remote import Cache, fetch_into_cache
from patchstack.series.files.directory import Series, load_series
from patchstack.series.sources import open_sources
from patchstack.upstream.history import ShallowRange, UpstreamRange, find_tip, read_range
from patchstack.workspace import SeriesConfig, is_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """A series, and upstream from its pin on. `upstream` is how the user called it; `repository` holds the commits:
    the user's own, or ours in the cache."""

    series: Series
    upstream: str
    repository: Repository
    objects: Objects
    range: UpstreamRange


def open_ahead(config: SeriesConfig, cache: Cache, to: str | None) -> Ahead:
    """Open a series and upstream up to `to`, or up to its newest commit as known here (of a URL: as fetched now).

    A shallow clone that lacks commits is left as it is: they are fetched into our cache from where it came from.
    Raises what loading and opening raise, and `UsageError` where `to` does not descend from the pin.
    """
    series = load_series(config.patches, config.name)
    if is_url(config.upstream):
        ref = to or "HEAD"
        repository, oid = cache.history(config.upstream, ref, config.pin)
        sources = open_sources(cache, upstream=config.upstream, pin=config.pin, series=series)
        objects = sources.objects
        if not cache.offline:
            objects.hint = "check the network, and run it again: what has come is kept"
        tip = repository.resolve_commit(oid, "--to", objects)
        range_ = read_range(repository, objects, sources.base, tip, ref)
        return Ahead(series=series, upstream=repository.name, repository=repository, objects=objects, range=range_)
    sources = open_sources(cache, upstream=config.upstream, pin=config.pin, series=series)
    objects = sources.objects
    repository = sources.upstream
    tip, ref = find_tip(repository, objects, to)
    try:
        range_ = read_range(repository, objects, sources.base, tip, ref)
    except ShallowRange as shallow:
        url = _origin(repository)
        if url is None or cache.offline:
            raise
        repository = _fetched(cache, url, shallow, sources.base.oid)
        objects.add_directory(repository.object_directory, repository.name)
        objects.fetch = _both(objects.fetch, fetch_into_cache(objects, cache, [url]))
        range_ = read_range(repository, objects, sources.base, tip, ref)
    return Ahead(series=series, upstream=config.upstream, repository=repository, objects=objects, range=range_)


def _fetched(cache: Cache, url: str, shallow: ShallowRange, pin: str) -> Repository:
    """The history that a shallow clone lacks, in our cache."""
    try:
        return cache.history(url, shallow.tip, pin)[0]
    except MissingError as error:
        raise MissingError(shallow.message, hint=shallow.hint, problems=[error.message]) from error


def _origin(repository: Repository) -> str | None:
    """Where a clone came from, as its configuration says: `upstream` before `origin`; a path is the clone's."""
    for name in ("upstream", "origin"):
        asked = git.read(repository.path, "config", "--get", f"remote.{name}.url")
        if asked.ok:
            url = asked.stdout.decode("utf-8", "replace").strip()
            return url if is_url(url) else str((repository.path / url).resolve())
    return None


_Fetch = Callable[..., None]


def _both(one: _Fetch | None, other: _Fetch) -> _Fetch:
    def fetch(oids: list[str]) -> None:
        if one is not None:
            one(oids)
        other(oids)

    return fetch
