"""Kind `present`: a pattern that must match.

    - {name: hook, patch: 13, kind: present, pattern: 'llama_kv_paged_place\\(', at_least: 2}

`at_least` is the minimum number of matches. `files_at_least` is the minimum number of files with a match. Both default
to 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from patchstack.checks.kind import Kind, View
from patchstack.checks.model import Found
from patchstack.checks.settings import numbered, read_pattern
from patchstack.verdict import Verdict
from patchstack.workspace.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentSettings:
    """The pattern, the minimum number of matches, and the minimum number of files with a match."""

    pattern: re.Pattern[str]
    places: int
    files: int


def read(node: Node) -> PresentSettings | None:
    """Return the settings of an entry, or None if the pattern is invalid. Problems are reported on the node."""
    pattern = read_pattern(node)
    places, files = node.integer("at_least", default=1), node.integer("files_at_least", default=1)
    for key, number in (("at_least", places), ("files_at_least", files)):
        if number < 1:
            node.complain(key, f"{number} is less than 1, so the check cannot fail")
    return PresentSettings(pattern=pattern, places=places, files=files) if pattern is not None else None


def judge(settings: PresentSettings, view: View) -> Found:
    """Judge whether the pattern has enough matches, in enough files. The verdict is PASS or FAIL."""
    found = view.scanner.places(settings.pattern, view.files)
    files = len({one.path for one in found})
    told = f"found in {numbered(len(found), 'place')} of {numbered(files, 'file')}"
    if len(found) >= settings.places and files >= settings.files:
        return Found(verdict=Verdict.PASS, reason=told)
    asked = [f"{numbered(settings.places, 'place')}"] if settings.places > 1 or settings.files == 1 else []
    asked += [f"{numbered(settings.files, 'file')}"] if settings.files > 1 else []
    return Found(
        verdict=Verdict.FAIL, reason=f"{told if found else 'not found'}; expected at least {' and '.join(asked)}"
    )


KIND = Kind(name="present", about="A pattern that must be found.", read=read, judge=judge)
