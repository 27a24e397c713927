"""Write canonical JSON, whose bytes depend only on the value: keys are sorted. Nothing else writes these forms.
Digests, names and files are made from these bytes. If a form changes by one blank, no stored build, observation or
decision is found again.
"""

from __future__ import annotations

import json
from typing import Any


def canonical(value: Any, *, ascii: bool = True) -> bytes:  # noqa: A002  (json's own word is ensure_ascii)
    """Return the form for digests: no blanks. Without `ascii`, letters beyond ASCII are UTF-8 instead of escapes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii).encode()


def one_line(value: Any) -> str:
    """Return the form for one document on a line: a blank after every colon and comma, ASCII, no newline at the end. It
    is also used for requests to a server, and for the digests of toolchains and of requests.
    """
    return json.dumps(value, sort_keys=True)


def indented(value: Any, *, ascii: bool = True) -> bytes:  # noqa: A002
    """Return the form for files that people read: two spaces a level, a newline at the end. `ascii` as in
    `canonical`."""
    return (json.dumps(value, sort_keys=True, indent=2, ensure_ascii=ascii) + "\n").encode()
