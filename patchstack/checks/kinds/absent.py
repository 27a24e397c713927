"""Kind `absent`: a pattern that must not match outside the allowed places.

    - name: only-through-the-hook
      patch: 14
      kind: absent
      pattern: 'cells\\.rm\\('
      allow:
        src/llama-kv-cache.cpp: [llama_kv_cache::remove_cell]

`allow` maps globs of files to the functions in which the pattern may match. An empty list allows the whole file. If the
pattern does not match at all, not even where it is allowed, it may be outdated, and the check is INVALID.

A check without `allow` needs an `example:`, a text that the pattern matches. The example shows that the check can fail.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from patchstack.checks.kind import Kind, View
from patchstack.checks.model import Found, Sites
from patchstack.checks.settings import is_named, numbered, places_told, read_pattern, read_sites
from patchstack.verdict import Verdict
from patchstack.workspace.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentSettings:
    """The pattern, and the places where it may match."""

    pattern: re.Pattern[str]
    allow: Sites


def read(node: Node) -> AbsentSettings | None:
    """Return the settings of an entry, or None if the pattern is invalid. Problems are reported on the node."""
    pattern, allow, example = read_pattern(node), read_sites(node, "allow"), node.text("example")
    if not allow and example is None:
        node.complain(None, "needs allow: (places where the pattern may match) or example: (a text that it matches)")
    elif example is not None and pattern is not None and pattern.search(example) is None:
        node.complain("example", "the pattern does not match the example, so the check cannot fail")
    return AbsentSettings(pattern=pattern, allow=allow or {}) if pattern is not None else None


def judge(settings: AbsentSettings, view: View) -> Found:
    """Judge whether the pattern matches only in allowed places.

    The verdict is FAIL if the pattern matches anywhere else. It is INVALID if places are allowed but the pattern does
    not match at all.
    """
    found = view.scanner.places(settings.pattern, view.files)
    outside = tuple(one for one in found if not is_named(one, settings.allow))
    if outside:
        reason = f"found in {numbered(len(outside), 'place')}: {places_told(outside)}"
        return Found(verdict=Verdict.FAIL, reason=reason, places=outside)
    if settings.allow and not found:
        reason = "not found, not even where it is allowed, so the pattern may be outdated"
        return Found(verdict=Verdict.INVALID, reason=reason)
    told = f"; {numbered(len(found), 'place')} where it is allowed" if found else ""
    return Found(verdict=Verdict.PASS, reason=f"not found in {numbered(len(view.files), 'file')}{told}")


KIND = Kind(name="absent", about="A pattern that must not be found.", read=read, judge=judge)
