"""Open what a series is held against when upstream moves: its repository, the pin, and the commits behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from patchstack.errors import MissingError
from patchstack.git.objects import Objects, Repository
from patchstack.git.remote import Cache, Remote, fetch_into_cache
from patchstack.series.files.directory import Series, load_series
from patchstack.series.sources import open_sources
from patchstack.upstream.history import ShallowRange, UpstreamRange, find_tip, read_range
from patchstack.workspace import SeriesConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """A series, and upstream from its pin on. `upstream` is how the user called it; `repository` holds the commits:
    the user's own, or ours in the cache."""

    series: Series
    upstream: str
    repository: Repository
    objects: Objects
    range: UpstreamRange


def open_ahead(config: SeriesConfig, cache: Cache, to: str | None, *, what: str) -> Ahead:
    """Open a series and upstream up to `to`, or up to its newest commit as known here (of a URL: as fetched now).

    A shallow clone that lacks commits is left as it is: they are fetched into our cache from where it came from.
    `what` is the user's word for `to`. Raises what loading and opening raise, and `UsageError` if `to` does not descend
    from the pin.
    """
    series = load_series(config.patches, config.name)
    upstream = Remote.at(config.upstream, cache)
    # First: of a URL, its history has the pin, which then need not be fetched alone.
    reached = upstream.reach(to, until=config.pin)
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
    """The history that a shallow clone lacks, in our cache."""
    try:
        return cache.history(url, shallow.tip, pin)[0]
    except MissingError as error:
        raise MissingError(shallow.message, hint=shallow.hint, problems=[error.message]) from error


_Fetch = Callable[..., None]


def _both(one: _Fetch | None, other: _Fetch) -> _Fetch:
    def fetch(oids: list[str]) -> None:
        if one is not None:
            one(oids)
        other(oids)

    return fetch
