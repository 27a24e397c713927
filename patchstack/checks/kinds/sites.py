"""Kind `sites`: a pattern that must match exactly at the recorded sites.

    - name: kv-cache-classes
      patch: 13
      kind: sites
      pattern: 'class \\w+ : public llama_memory_i\\b'
      files: ["src/**"]
      recorded: "2026-11-22: at the pin"
      sites:
        src/llama-kv-cache.h: [llama_kv_cache]

A site is a file and the function in which the pattern matches. If the pattern has a group, the text of the group is
part of the site, so one function can have several sites. `patchstack verify --record NAME --why TEXT` writes `sites`
and `recorded`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from patchstack.checks.kind import Kind, View
from patchstack.checks.model import Found, Site, Sites
from patchstack.checks.settings import numbered, read_pattern, read_sites
from patchstack.verdict import Verdict
from patchstack.workspace.node import Node

_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SitesSettings:
    """The pattern, and the recorded sites. `sites` is None if no sites are recorded yet."""

    pattern: re.Pattern[str]
    sites: frozenset[Site] | None


def read(node: Node) -> SitesSettings | None:
    """Return the settings of an entry, or None if the pattern is invalid. Problems are reported on the node."""
    pattern, given, recorded = read_pattern(node), read_sites(node, "sites"), node.text("recorded")
    if given is not None and not given:
        node.complain("sites", "no sites are listed; for a pattern that must not match, use kind absent")
    for path, names in (given or {}).items():
        if not names:
            node.complain("sites", f"{path} has no sites")
    if given is not None and not (recorded or "").strip():
        node.complain("sites", "needs recorded: (when and why the sites were recorded)")
    return SitesSettings(pattern=pattern, sites=listed(given)) if pattern is not None else None


def listed(given: Sites | None) -> frozenset[Site] | None:
    """Convert a mapping from paths to site names into a set of sites. Return None for None."""
    if given is None:
        return None
    return frozenset(Site(path=path, name=name) for path, names in given.items() for name in names)


def judge(settings: SitesSettings, view: View) -> Found:
    """Judge whether the sites are exactly the recorded sites. The verdict is INVALID if no sites are recorded."""
    places = view.scanner.places(settings.pattern, view.files)
    now = {one.site for one in places}
    if settings.sites is None:
        reason = f"no sites are recorded; {numbered(len(now), 'site')} found: --record records them"
        return Found(verdict=Verdict.INVALID, reason=reason, sites=places)
    new, lost = tuple(sorted(now - settings.sites)), tuple(sorted(settings.sites - now))
    if not new and not lost:
        return Found(verdict=Verdict.PASS, reason=f"the {numbered(len(now), 'recorded site')}", sites=places)
    told = [_told("new", new), _told("lost", lost)]
    return Found(
        verdict=Verdict.FAIL,
        reason="; ".join(filter(None, told)),
        places=tuple(one for one in places if one.site in set(new)),
        new=new,
        lost=lost,
        sites=places,
    )


def _told(what: str, sites: tuple[Site, ...]) -> str:
    if not sites:
        return ""
    named = ", ".join(f"{one.name} in {one.path}" for one in sites[:_SHOWN])
    more = f" and {len(sites) - _SHOWN} more" if len(sites) > _SHOWN else ""
    return f"{what} {'site' if len(sites) == 1 else 'sites'} {named}{more}"


KIND = Kind(name="sites", about="A pattern that must match exactly at the recorded sites.", read=read, judge=judge)
